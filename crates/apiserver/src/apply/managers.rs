//! `metadata.managedFields`: the owners of an object's fields.

use serde_json::{Value, json};

use super::field_set::FieldSet;
use crate::metadata;

/// How an owner came by its fields. Appliers stand before others in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// One owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) time: String,
    pub(super) set: FieldSet,
}

impl Manager {
    /// Whether two entries are of one owner: the same name can apply, update, and update a status, separately.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.api_version == other.api_version
            && self.subresource == other.subresource
    }

    /// Whether it came through the object itself, and not only by the status in it.
    pub(super) fn owns_main_part(&self) -> bool {
        self.subresource.is_empty() && !self.set.is_only("status")
    }

    fn to_json(&self) -> Value {
        let operation = match self.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        let mut entry = json!({
            "manager": self.name, "operation": operation, "apiVersion": self.api_version,
            "fieldsType": "FieldsV1", "fieldsV1": self.set.to_json(),
        });
        if !self.time.is_empty() {
            entry["time"] = self.time.clone().into();
        }
        if !self.subresource.is_empty() {
            entry["subresource"] = self.subresource.clone().into();
        }
        entry
    }

    fn from_json(entry: &Value) -> Self {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        Self {
            name: text("manager"),
            operation: if entry["operation"] == "Apply" { Operation::Apply } else { Operation::Update },
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            set: FieldSet::from_json(&entry["fieldsV1"]),
        }
    }
}

pub(super) fn read(object: &Value) -> Vec<Manager> {
    object["metadata"]["managedFields"].as_array().into_iter().flatten().map(Manager::from_json).collect()
}

/// Owners of nothing are dropped.
pub(super) fn write(object: &mut Value, managers: &[Manager]) {
    let mut kept: Vec<&Manager> = managers.iter().filter(|manager| !manager.set.is_empty()).collect();
    kept.sort_by(|a, b| {
        (a.operation, &a.time, &a.name, &a.subresource).cmp(&(b.operation, &b.time, &b.name, &b.subresource))
    });
    if kept.is_empty() {
        metadata::remove(object, "managedFields");
    } else {
        metadata::set(object, "managedFields", kept.iter().map(|manager| manager.to_json()).collect());
    }
}
