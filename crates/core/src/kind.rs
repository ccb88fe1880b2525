//! What differs from kind to kind, as data.
//!
//! ```text
//!   kinds/*.yaml   built in ─┐
//!                            ├─ Table ── Kind ──┬─ delegation   is this object ours, or refused?
//!   WorkloadKind   users'   ─┘                  ├─ mirror       what a worker gets
//!                                               ├─ forward      which edits follow
//!                                               ├─ status       what comes back
//!                                               ├─ children     what shows that somebody runs it on the manager
//!                                               └─ ending       has it ended, and how long it stays
//! ```
//!
//! A kind is a [`WorkloadKindSpec`](api::WorkloadKindSpec), whoever wrote it, read once into a [`Kind`] whose rules are
//! known to make sense. All of it works on plain JSON, so that fields of later releases survive.

mod check;
mod children;
mod delegation;
mod ending;
mod forward;
mod mirror;
mod path;
mod rule;
mod status;
mod table;

use jobferry_api as api;

pub use check::{Invalid, Problem};
pub use children::Children;
pub(crate) use forward::difference;

pub use delegation::{Delegation, Requirement, in_queue};
pub use ending::Standing;
pub use mirror::Unmirrorable;
pub use path::{Path, PathError};
pub use rule::{Field, Test, all};
pub use status::{Stored, digest};
pub use table::{BrokenTable, Source, Table};

use check::Checked;
use ending::{Ending, TimeToLive};

/// A kind of workload, with everything that the dispatcher must know of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// The API group; empty for none.
    pub group: String,
    /// The version that is read and written.
    pub version: String,
    /// The kind in manifests.
    pub kind: String,
    /// The kind in URLs.
    pub plural: String,
    /// The field that hands an object to us. `None`: a label does.
    pub managed_by: Option<ManagedBy>,
    /// Whether the kind's own operator may run on the manager.
    pub operator_on_manager: api::OperatorOnManager,
    /// The first release of it that may.
    pub operator_on_manager_since: Option<String>,
    /// When an object is suspended.
    pub suspended: Option<Test>,
    finished: Vec<Ending>,
    ttl: Vec<TimeToLive>,
    /// Who deletes finished objects on the manager.
    pub ttl_on_manager: api::TtlOnManager,
    /// What is taken off a mirror.
    pub strip: Vec<Field>,
    pod_templates: Vec<Path>,
    /// Which fields of the spec are forwarded.
    pub forward: Vec<Field>,
    /// What of them is the worker's.
    pub worker_owned: Vec<Field>,
    refuse: Vec<(Vec<Test>, String)>,
    requires: Vec<(String, Path)>,
    /// What its operator creates for an object.
    pub children: Vec<Children>,
    /// How the status comes back.
    pub status: StatusRules,
}

/// The field that hands an object to a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedBy {
    /// Where it is.
    pub path: Path,
    /// The value that means us.
    pub dispatcher: String,
    /// The value that means the kind's own operator.
    pub operator: Option<String>,
    /// Which values pass the kind's own admission.
    pub admits: api::Admits,
    /// What the kind's own admission protects.
    pub guard: api::Guard,
}

/// How the status comes back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatusRules {
    /// There is no subresource: it is written with the object.
    pub in_object: bool,
    /// What stays on the worker.
    pub leave_out: Vec<Field>,
    /// What names something on the worker.
    pub worker_references: Vec<Path>,
    fill: Vec<(Path, String)>,
    observed_generation: Vec<Path>,
}

impl Kind {
    /// Reads a kind's rules. The error names everything that is wrong with them.
    pub fn read(spec: &api::WorkloadKindSpec) -> Result<Self, Invalid> {
        let mut checked = Checked::default();
        let kind = Self {
            group: spec.group.clone(),
            version: spec.version.clone(),
            kind: spec.kind.clone(),
            plural: spec.plural.clone(),
            managed_by: spec.managed_by.as_ref().and_then(|managed_by| ManagedBy::read(&mut checked, managed_by)),
            operator_on_manager: spec.operator_on_manager,
            operator_on_manager_since: spec.operator_on_manager_since.clone(),
            suspended: spec.suspended.as_ref().and_then(|test| Test::read(&mut checked, "suspended", test)),
            finished: each(&mut checked, "finished", &spec.finished, Ending::read),
            ttl: each(&mut checked, "ttl", &spec.ttl, TimeToLive::read),
            ttl_on_manager: spec.ttl_on_manager,
            strip: each(&mut checked, "strip", &spec.strip, Field::read),
            pod_templates: paths(&mut checked, "podTemplates", &spec.pod_templates),
            forward: each(&mut checked, "forward", &spec.forward, Field::read),
            worker_owned: each(&mut checked, "workerOwned", &spec.worker_owned, Field::read),
            refuse: each(&mut checked, "refuse", &spec.refuse, |checked, field, refuse| {
                Some((rule::tests(checked, &format!("{field}.when"), &refuse.when), refuse.why.clone()))
            }),
            requires: each(&mut checked, "requires", &spec.requires, |checked, field, needed| {
                Some((needed.what.clone(), checked.path(&format!("{field}.path"), &needed.path)?))
            }),
            children: each(&mut checked, "children", &spec.children, Children::read),
            status: StatusRules::read(&mut checked, &spec.status),
        };
        checked.agreement(&kind);
        let problems = checked.problems();
        if problems.is_empty() { Ok(kind) } else { Err(Invalid { name: kind.name(), problems }) }
    }

    /// Its name: that of its custom resource definition.
    pub fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Whether its objects can end.
    pub const fn ends(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Whether this object is suspended.
    pub fn is_suspended(&self, object: &serde_json::Value) -> bool {
        self.suspended.as_ref().is_some_and(|test| test.holds(object))
    }
}

impl ManagedBy {
    fn read(checked: &mut Checked, managed_by: &api::ManagedBy) -> Option<Self> {
        let dispatcher = managed_by.dispatcher.as_deref().unwrap_or(api::managed_by::DISPATCHER);
        Some(Self {
            path: checked.path("managedBy.path", &managed_by.path)?,
            dispatcher: dispatcher.to_owned(),
            operator: managed_by.operator.clone(),
            admits: managed_by.admits,
            guard: managed_by.guard,
        })
    }
}

impl StatusRules {
    fn read(checked: &mut Checked, rules: &api::StatusRules) -> Self {
        let usual =
            || ["status.observedGeneration", "status.conditions[type=*].observedGeneration"].map(str::to_owned).into();
        let counted = rules.observed_generation.clone().unwrap_or_else(usual);
        Self {
            in_object: rules.in_object,
            leave_out: each(checked, "status.leaveOut", &rules.leave_out, Field::read),
            worker_references: paths(checked, "status.workerReferences", &rules.worker_references),
            fill: each(checked, "status.fill", &rules.fill, |checked, field, fill| {
                Some((checked.path(&format!("{field}.path"), &fill.path)?, fill.text.clone()))
            }),
            observed_generation: paths(checked, "status.observedGeneration", &counted),
        }
    }
}

/// Reads every entry of a list. Entries that cannot be read are missing, and noted as problems.
fn each<A, B>(
    checked: &mut Checked,
    field: &str,
    list: &[A],
    read: impl Fn(&mut Checked, &str, &A) -> Option<B>,
) -> Vec<B> {
    let entry = |(index, entry)| read(checked, &format!("{field}[{index}]"), entry);
    list.iter().enumerate().filter_map(entry).collect()
}

fn paths(checked: &mut Checked, field: &str, list: &[String]) -> Vec<Path> {
    each(checked, field, list, |checked, field, text| checked.path(field, text))
}
