//! What a custom resource keeps of what was sent, and what is filled in.

use serde_json::Value;

use crate::schema::{Schema, Shape, normalise};

/// Removes fields that the schema does not know, and brings `metadata` into its normal form. Returns what was removed;
/// the error is a type mismatch in the metadata.
pub(crate) fn prune(schema: &Schema, object: &mut Value) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    if let (Some(field), Some(metadata)) = (schema.field("metadata"), object.get_mut("metadata")) {
        let found = normalise(&field.schema, metadata)?.unknown;
        unknown.extend(found.into_iter().map(|path| format!("metadata.{path}")));
    }
    visit(schema, object, "", &mut unknown);
    Ok(unknown)
}

fn visit(schema: &Schema, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match (&schema.shape, value) {
        (Shape::Object(object), Value::Object(entries)) => {
            if !object.preserve_unknown {
                entries.retain(|key, _| {
                    let known = object.fields.contains_key(key);
                    if !known {
                        unknown.push(join(path, key));
                    }
                    known
                });
            }
            for (name, field) in &object.fields {
                if let Some(entry) = entries.get_mut(name).filter(|_| !(path.is_empty() && name == "metadata")) {
                    visit(&field.schema, entry, &join(path, name), unknown);
                }
            }
        }
        (Shape::Map { value: inner, .. }, Value::Object(entries)) => {
            for (key, entry) in entries.iter_mut() {
                visit(inner, entry, &join(path, key), unknown);
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                visit(&list.item, item, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Fills in the defaults of the schema. A null where null is not allowed counts as absent if there is a default.
pub(crate) fn default(schema: &Schema, value: &mut Value) {
    match (&schema.shape, value) {
        (Shape::Object(object), Value::Object(entries)) => {
            for (name, field) in &object.fields {
                let rules = field.schema.rules.as_deref();
                if let Some(value) = rules.and_then(|rules| rules.default.as_ref()) {
                    let nullable = rules.is_some_and(|rules| rules.nullable);
                    if entries.get(name).is_none_or(|entry| entry.is_null() && !nullable) {
                        entries.insert(name.clone(), value.clone());
                    }
                }
                if let Some(entry) = entries.get_mut(name) {
                    default(&field.schema, entry);
                }
            }
        }
        (Shape::Map { value: inner, .. }, Value::Object(entries)) => {
            entries.values_mut().for_each(|entry| default(inner, entry));
        }
        (Shape::List(list), Value::Array(items)) => items.iter_mut().for_each(|item| default(&list.item, item)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::crd::structural::root;

    #[test]
    fn unknown_fields_go_and_defaults_come() {
        let schema = root(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "cordoned": {"type": "boolean", "default": false},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}}
        }}}}))
        .unwrap();
        let mut object = json!({
            "apiVersion": "a/v1", "kind": "K", "metadata": {"name": "x", "colour": 1},
            "spec": {"free": {"a": {"b": 1}}, "labels": {"x": "y"}, "typo": 1}, "extra": {}
        });
        let mut unknown = prune(&schema, &mut object).unwrap();
        unknown.sort();
        assert_eq!(unknown, ["extra", "metadata.colour", "spec.typo"]);
        default(&schema, &mut object);
        assert_eq!(object["spec"], json!({"cordoned": false, "free": {"a": {"b": 1}}, "labels": {"x": "y"}}));
    }
}
