//! What is wrong with a kind's rules, beyond what the API server checks.

use std::fmt;

use super::{Field, Kind, Path};

/// Something wrong with a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field of the WorkloadKind's spec.
    pub field: String,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.why)
    }
}

/// A kind's rules cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("WorkloadKind {name}: {}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Invalid {
    /// The kind.
    pub name: String,
    /// Everything that is wrong, in the order of the fields.
    pub problems: Vec<Problem>,
}

/// Collects problems while rules are read.
#[derive(Debug, Default)]
pub(super) struct Checked {
    problems: Vec<Problem>,
}

impl Checked {
    pub(super) fn wrong(&mut self, field: &str, why: impl Into<String>) {
        self.problems.push(Problem { field: field.to_owned(), why: why.into() });
    }

    pub(super) fn path(&mut self, field: &str, text: &str) -> Option<Path> {
        match text.parse() {
            Ok(path) => Some(path),
            Err(error) => {
                self.wrong(field, format!("{error}"));
                None
            }
        }
    }

    pub(super) fn problems(self) -> Vec<Problem> {
        self.problems
    }

    /// What no rule alone shows: whether they fit together.
    pub(super) fn agreement(&mut self, kind: &Kind) {
        if kind.group == jobferry_api::GROUP {
            self.wrong("group", "our own resources are no workloads");
        }
        self.delegation(kind);
        for (index, ending) in kind.finished.iter().enumerate() {
            if ending.when.is_empty() {
                self.wrong(&format!("finished[{index}].when"), "without a test every object has ended");
            }
        }
        for (index, ttl) in kind.ttl.iter().enumerate() {
            self.lies_in_spec(&format!("ttl[{index}].path"), &ttl.path);
            self.is_single(&format!("ttl[{index}].path"), &ttl.path);
        }
        if !kind.ttl.is_empty() && kind.finished.is_empty() {
            self.wrong("ttl", "objects of this kind never end: say in `finished` when they do");
        }
        for (index, field) in kind.strip.iter().enumerate() {
            let strippable = [&["spec"] as &[&str], &["metadata", "labels"], &["metadata", "annotations"]];
            if !strippable.iter().any(|fields| field.path.is_under(fields)) {
                self.wrong(&format!("strip[{index}].path"), "a mirror has a spec, labels and annotations only");
            }
        }
        for (index, path) in kind.pod_templates.iter().enumerate() {
            self.lies_in_spec(&format!("podTemplates[{index}]"), path);
        }
        self.forwarding(kind);
        for (index, field) in kind.status.leave_out.iter().enumerate() {
            self.lies_in_status(&format!("status.leaveOut[{index}].path"), &field.path);
        }
        for (index, fill) in kind.status.fill.iter().enumerate() {
            let field = format!("status.fill[{index}].path");
            self.lies_in_status(&field, &fill.0);
            self.is_single(&field, &fill.0);
        }
        for (index, path) in kind.status.observed_generation.iter().enumerate() {
            self.lies_in_status(&format!("status.observedGeneration[{index}]"), path);
        }
    }

    fn delegation(&mut self, kind: &Kind) {
        let Some(managed_by) = &kind.managed_by else {
            if kind.operator_on_manager == jobferry_api::OperatorOnManager::Allowed {
                let why = "without managedBy nothing keeps the kind's operator from running objects on the manager: it must \
                           be Forbidden";
                self.wrong("operatorOnManager", why);
            }
            return;
        };
        let path = &managed_by.path;
        let possible = [&["spec"] as &[&str], &["metadata", "labels"], &["metadata", "annotations"]];
        if !possible.iter().any(|fields| path.is_under(fields)) {
            self.wrong("managedBy.path", "it lies in the spec, in labels or in annotations");
        }
        self.is_single("managedBy.path", path);
        if managed_by.operator.as_ref() == Some(&managed_by.dispatcher) {
            self.wrong("managedBy.dispatcher", "this value means the kind's own operator");
        }
    }

    fn forwarding(&mut self, kind: &Kind) {
        let managed_by = kind.managed_by.iter().map(|managed_by| (&managed_by.path, "managedBy"));
        let own: Vec<_> = managed_by.chain(kind.ttl.iter().map(|ttl| (&ttl.path, "ttl"))).collect();
        for (index, field) in kind.forward.iter().enumerate() {
            let name = format!("forward[{index}].path");
            self.lies_in_spec(&name, &field.path);
            if let Some((_, what)) = own.iter().find(|(path, _)| path.covers(&field.path)) {
                self.wrong(&name, format!("the mirror has a value of the dispatcher's own there ({what})"));
            }
        }
        for (index, owned) in kind.worker_owned.iter().enumerate() {
            let name = format!("workerOwned[{index}].path");
            self.lies_in_spec(&name, &owned.path);
            let inside = |field: &Field| field.path.covers(&owned.path);
            if !kind.forward.iter().any(inside) {
                self.wrong(
                    &name,
                    "it is not inside of a field that is forwarded, so nobody overwrites it: leave it out",
                );
            }
        }
    }

    fn is_single(&mut self, field: &str, path: &Path) {
        if !path.is_single() {
            self.wrong(field, format!("`{path}` leads to many places; one is needed"));
        }
    }

    fn lies_in_spec(&mut self, field: &str, path: &Path) {
        if !path.is_under(&["spec"]) {
            self.wrong(field, format!("`{path}` does not lie in the spec"));
        }
    }

    fn lies_in_status(&mut self, field: &str, path: &Path) {
        if !path.is_under(&["status"]) {
            self.wrong(field, format!("`{path}` does not lie in the status"));
        }
    }
}
