//! What an operator creates for the objects of its kind. Where one of these belongs to an object, somebody runs it.

use std::fmt;

use jobferry_api as api;

use super::check::Checked;

/// A resource, and which of its objects are an operator's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Children {
    /// The API group; empty for that of pods.
    pub group: String,
    /// The version to watch.
    pub version: String,
    /// The resource in URLs.
    pub plural: String,
    /// The label that each of them has. `None`: any object of the resource may be one.
    pub label: Option<String>,
}

impl Children {
    pub(super) fn read(checked: &mut Checked, field: &str, child: &api::Child) -> Option<Self> {
        let api::Child { group, version, plural, label } = child.clone();
        if group.is_empty() && plural == "pods" && label.is_none() {
            checked.wrong(
                &format!("{field}.label"),
                "every pod of the manager would be looked at: name a label that the operator puts on its own",
            );
            return None;
        }
        Some(Self { group, version, plural, label })
    }

    /// The resource as people and roles name it: `jobs.batch`, `pods`.
    pub fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `apiVersion` of these objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path of all of them, in every namespace.
    pub fn path(&self) -> String {
        format!("{}/{}", self.root(), self.plural)
    }

    /// The path of those in one namespace.
    pub fn path_in(&self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.root(), self.plural)
    }

    fn root(&self) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        format!("{root}/{}", self.api_version())
    }
}

impl fmt::Display for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource())?;
        self.label.as_ref().map_or(Ok(()), |label| write!(f, " with label {label}"))
    }
}
