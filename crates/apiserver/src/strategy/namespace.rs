//! Namespaces: active from the start; deleted in two steps, with the namespace controller between them.

use serde_json::{Value, json};

use super::{Part, keep};
use crate::metadata;

/// Every namespace carries its own name as a label, so that selectors can find it by name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) fn create(object: &mut Value) {
    object["spec"]["finalizers"] = json!(["kubernetes"]);
    object["status"] = json!({"phase": "Active"});
    label_with_name(object);
}

pub(super) fn update(part: Part, new: &mut Value, old: &Value) {
    if part != Part::Finalize {
        keep(new, old, "spec");
    }
    if part != Part::Status {
        keep(new, old, "status");
    }
    label_with_name(new);
}

fn label_with_name(object: &mut Value) {
    let name = metadata::text(object, "name").to_owned();
    object["metadata"]["labels"][NAME_LABEL] = name.into();
}
