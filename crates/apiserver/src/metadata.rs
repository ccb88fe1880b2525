//! The rules of `metadata`, the same for every kind.

use serde_json::{Map, Value};

use crate::error::Cause;
use crate::names;
use crate::registry::{Resource, Strategy};

/// All annotations of an object together may not be larger.
const ANNOTATIONS_LIMIT_BYTES: usize = 256 * 1024;

/// A text of the metadata; empty when it is absent.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

pub(crate) fn set(object: &mut Value, field: &str, value: Value) {
    object["metadata"][field] = value;
}

pub(crate) fn remove(object: &mut Value, field: &str) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove(field);
    }
}

/// The finalizers as texts.
pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["finalizers"].as_array();
    list.into_iter().flatten().filter_map(|entry| entry.as_str().map(str::to_owned)).collect()
}

pub(crate) fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    if finalizers.is_empty() {
        remove(object, "finalizers");
    } else {
        set(object, "finalizers", finalizers.into());
    }
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Adds one to the generation of kinds that have one.
pub(crate) fn bump_generation(object: &mut Value) {
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
    set(object, "generation", (generation + 1).into());
}

/// What holds for the metadata of any object.
pub(crate) fn validate(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = text(object, "name");
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if let Err(why) = name_rule(resource)(name) {
        causes.push(Cause::invalid("metadata.name", &name.into(), &why));
    }
    let metadata = &object["metadata"];
    validate_labels(&metadata["labels"], "metadata.labels", &mut causes);
    validate_annotations(&metadata["annotations"], &mut causes);
    validate_owners(metadata, &mut causes);
    for (index, finalizer) in finalizers(object).iter().enumerate() {
        let field = format!("metadata.finalizers[{index}]");
        if let Err(why) = names::qualified_name(finalizer) {
            causes.push(Cause::invalid(field, &finalizer.as_str().into(), &why));
        }
    }
    causes
}

fn name_rule(resource: &Resource) -> fn(&str) -> Result<(), String> {
    match (resource.strategy, resource.group.as_str()) {
        (Strategy::Namespace, _) => names::dns_label,
        (_, "rbac.authorization.k8s.io") => names::path_segment,
        _ => names::dns_subdomain,
    }
}

fn validate_labels(labels: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        if let Err(why) = names::qualified_name(key) {
            causes.push(Cause::invalid(path, &key.as_str().into(), &why));
        }
        if let Err(why) = names::label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid(path, value, &why));
        }
    }
}

fn validate_annotations(annotations: &Value, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        if let Err(why) = names::qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &key.as_str().into(), &why));
        }
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > ANNOTATIONS_LIMIT_BYTES {
        causes.push(Cause {
            reason: "FieldValueTooLong".into(),
            message: format!("Too long: may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes"),
            field: "metadata.annotations".into(),
        });
    }
}

fn validate_owners(metadata: &Value, causes: &mut Vec<Cause>) {
    let mut controller: Option<String> = None;
    for (index, owner) in metadata["ownerReferences"].as_array().into_iter().flatten().enumerate() {
        let path = format!("metadata.ownerReferences[{index}]");
        for (field, told) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                causes.push(Cause::invalid(format!("{path}.{field}"), &owner[field], told));
            }
        }
        if owner["controller"] == true {
            let name = format!(
                "{}/{}",
                owner["kind"].as_str().unwrap_or_default(),
                owner["name"].as_str().unwrap_or_default()
            );
            if let Some(first) = &controller {
                let told = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                );
                causes.push(Cause::invalid("metadata.ownerReferences", &metadata["ownerReferences"], &told));
            }
            controller.get_or_insert(name);
        }
    }
}

/// Takes from the stored object what an update cannot change and usually does not repeat.
pub(crate) fn carry_over(new: &mut Value, old: &Value) {
    let Some(old) = old["metadata"].as_object() else { return };
    if new["metadata"].is_null() {
        new["metadata"] = Value::Object(Map::new());
    }
    for field in ["generation", "selfLink"] {
        match old.get(field) {
            Some(value) => set(new, field, value.clone()),
            None => remove(new, field),
        }
    }
    // Nobody can take these back, or say otherwise.
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(value) = old.get(field) {
            set(new, field, value.clone());
        }
    }
    // These may be left out.
    for field in ["uid", "deletionGracePeriodSeconds"] {
        if let Some(value) = old.get(field)
            && new["metadata"][field].is_null()
        {
            set(new, field, value.clone());
        }
    }
}

/// What an update may not do to the metadata.
pub(crate) fn validate_update(resource: &Resource, new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = validate(resource, new);
    for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if new["metadata"][field] != old["metadata"][field] {
            let told = "field is immutable";
            causes.push(Cause::invalid(format!("metadata.{field}"), &new["metadata"][field], told));
        }
    }
    if is_deleting(old) {
        let known = finalizers(old);
        let added: Vec<String> = finalizers(new).into_iter().filter(|entry| !known.contains(entry)).collect();
        if !added.is_empty() {
            let told = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
            );
            causes.push(Cause::forbidden("metadata.finalizers", &told));
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::Registry;

    fn fields(causes: &[Cause]) -> Vec<&str> {
        causes.iter().map(|cause| cause.field.as_str()).collect()
    }

    #[test]
    fn metadata_is_judged_field_by_field() {
        let registry = Registry::built_in();
        let jobs = registry.find("batch", "v1", "jobs").unwrap();
        let namespaces = registry.find("", "v1", "namespaces").unwrap();
        let cases = [
            (json!({"name": "a.b"}), &jobs, vec![]),
            (json!({"name": "a.b"}), &namespaces, vec!["metadata.name"]),
            (json!({}), &jobs, vec!["metadata.name"]),
            (json!({"name": "a", "labels": {"x y": "z", "ok": "not ok"}}), &jobs, vec!["metadata.labels"; 2]),
            (json!({"name": "a", "annotations": {"Example.com/A": "anything at all"}}), &jobs, vec![]),
            (json!({"name": "a", "finalizers": ["no slash is fine", "b/c"]}), &jobs, vec!["metadata.finalizers[0]"]),
            (
                json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}),
                &jobs,
                vec!["metadata.ownerReferences[0].uid"],
            ),
        ];
        for (metadata, resource, expected) in cases {
            let object = json!({"metadata": metadata});
            assert_eq!(fields(&validate(resource, &object)), expected, "{object}");
        }
    }

    #[test]
    fn an_object_under_deletion_takes_no_new_finalizers() {
        let registry = Registry::built_in();
        let jobs = registry.find("batch", "v1", "jobs").unwrap();
        let old =
            json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}});
        let mut new = old.clone();
        set_finalizers(&mut new, &["x/y".into(), "x/z".into()]);
        assert_eq!(fields(&validate_update(&jobs, &new, &old)), ["metadata.finalizers"]);
        set_finalizers(&mut new, &[]);
        assert!(validate_update(&jobs, &new, &old).is_empty());
    }
}
