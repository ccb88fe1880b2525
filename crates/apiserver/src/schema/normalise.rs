//! What a decode into the Go type and an encode out of it would make of an object: unknown fields vanish, nulls and
//! empty values do where Go omits them, always-written fields appear, times and quantities get their one spelling.

use job_api::quantity;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value};

use super::{Field, ObjectShape, Presence, Scalar, Schema, Shape, zero};
use crate::path::Path;

/// The by-product of a pass over an object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Normalised {
    /// Paths of fields that the type does not have, in document order.
    pub(crate) unknown: Vec<String>,
}

/// Brings `value` into the form that is stored and served. The error is Go's own wording of a type mismatch.
pub(crate) fn normalise(schema: &Schema, value: &mut Value) -> Result<Normalised, String> {
    run(schema, value, Extent::Whole)
}

/// The same for an object that says only a part, as an applied configuration does: nothing is filled in, and what is
/// zero was said on purpose.
pub(crate) fn normalise_part(schema: &Schema, value: &mut Value) -> Result<Normalised, String> {
    run(schema, value, Extent::Part)
}

fn run(schema: &Schema, value: &mut Value, extent: Extent) -> Result<Normalised, String> {
    let mut pass = Pass { unknown: Vec::new(), extent };
    pass.visit(schema, value, &Path::Root, "")?;
    Ok(Normalised { unknown: pass.unknown })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    Part,
}

struct Pass {
    unknown: Vec<String>,
    extent: Extent,
}

impl Pass {
    /// `owner` is the short Go name of the struct around the value, as it appears in messages.
    fn visit(&mut self, schema: &Schema, value: &mut Value, path: &Path<'_>, owner: &str) -> Result<(), String> {
        match &schema.shape {
            Shape::Any => Ok(()),
            Shape::Scalar(scalar) => match spell(*scalar, value) {
                Ok(()) => Ok(()),
                Err(Mismatch::Type) => Err(mismatch(schema, value, path, owner)),
                Err(Mismatch::Form(message)) => Err(message),
            },
            Shape::List(list) => {
                let Value::Array(items) = value else { return Err(mismatch(schema, value, path, owner)) };
                for (index, item) in items.iter_mut().enumerate() {
                    if item.is_null() {
                        *item = zero(&list.item);
                    }
                    self.visit(&list.item, item, &Path::Item(path, index), owner)?;
                }
                Ok(())
            }
            Shape::Map { value: inner, .. } => {
                let Value::Object(entries) = value else { return Err(mismatch(schema, value, path, owner)) };
                for (key, entry) in entries.iter_mut() {
                    if entry.is_null() {
                        *entry = zero(inner);
                    }
                    if !entry.is_null() {
                        self.visit(inner, entry, &Path::Field(path, key), owner)?;
                    }
                }
                Ok(())
            }
            Shape::Object(object) => {
                let Value::Object(entries) = value else { return Err(mismatch(schema, value, path, owner)) };
                self.object(object, entries, path)
            }
        }
    }

    fn object(
        &mut self,
        object: &ObjectShape,
        entries: &mut Map<String, Value>,
        path: &Path<'_>,
    ) -> Result<(), String> {
        if self.extent == Extent::Whole {
            for (name, field) in object.always() {
                if matches!(entries.get(name), None | Some(Value::Null)) {
                    entries.insert(name.clone(), zero(&field.schema));
                }
            }
        }
        let owner = short_name(&object.name);
        let mut failed = Ok(());
        entries.retain(|name, value| match object.fields.get(name) {
            _ if failed.is_err() => true,
            Some(field) => {
                let kept = self.field(field, value, &Path::Field(path, name), owner);
                kept.unwrap_or_else(|error| {
                    failed = Err(error);
                    true
                })
            }
            None if path.is_root() && (name == "kind" || name == "apiVersion") => true,
            None => {
                if !object.preserve_unknown {
                    self.unknown.push(Path::Field(path, name).to_string());
                }
                object.preserve_unknown
            }
        });
        failed
    }

    /// Whether the field stays.
    fn field(&mut self, field: &Field, value: &mut Value, path: &Path<'_>, owner: &str) -> Result<bool, String> {
        if value.is_null() {
            return Ok(field.presence == Presence::Always && self.extent == Extent::Whole);
        }
        self.visit(&field.schema, value, path, owner)?;
        if self.extent == Extent::Whole {
            match field.presence {
                Presence::OmitZero => return Ok(!is_empty(value)),
                // The store of the real server does not tell an empty list from none.
                Presence::Always if value.as_array().is_some_and(Vec::is_empty) => *value = Value::Null,
                Presence::Always | Presence::AsGiven => {}
            }
        }
        Ok(true)
    }
}

fn mismatch(schema: &Schema, value: &Value, path: &Path<'_>, owner: &str) -> String {
    let found = match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(number) if !number.is_i64() || matches!(schema.shape, Shape::Scalar(Scalar::Int32)) => {
            format!("number {number}")
        }
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => String::from("object"),
    };
    let (path, wanted) = (path.without_positions(), go_type(schema));
    format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}")
}

fn short_name(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn go_type(schema: &Schema) -> String {
    match &schema.shape {
        Shape::Any => "interface {}".into(),
        Shape::Map { value, .. } => format!("map[string]{}", go_type(value)),
        Shape::List(list) => format!("[]{}", go_type(&list.item)),
        Shape::Object(object) => format!("v1.{}", short_name(&object.name)),
        Shape::Scalar(scalar) => match scalar {
            Scalar::String | Scalar::Time | Scalar::MicroTime => "string",
            Scalar::Bool => "bool",
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Number => "float64",
            Scalar::Bytes => "[]uint8",
            Scalar::Quantity => "resource.Quantity",
            Scalar::IntOrString => "intstr.IntOrString",
        }
        .into(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
}

enum Mismatch {
    Type,
    Form(String),
}

fn spell(scalar: Scalar, value: &mut Value) -> Result<(), Mismatch> {
    let fits = match scalar {
        Scalar::String => value.is_string(),
        Scalar::Bool => value.is_boolean(),
        Scalar::Int32 => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        Scalar::Int64 => value.is_i64(),
        Scalar::Number => value.is_number(),
        Scalar::Bytes => return spell_bytes(value),
        Scalar::IntOrString => value.is_string() || value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        Scalar::Time | Scalar::MicroTime => return spell_time(scalar, value),
        Scalar::Quantity => return spell_quantity(value),
    };
    if fits { Ok(()) } else { Err(Mismatch::Type) }
}

fn spell_bytes(value: &Value) -> Result<(), Mismatch> {
    use base64::Engine as _;
    let text = value.as_str().ok_or(Mismatch::Type)?;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .map(drop)
        .map_err(|_| Mismatch::Form("illegal base64 data at input byte 0".into()))
}

fn spell_time(scalar: Scalar, value: &mut Value) -> Result<(), Mismatch> {
    let text = value.as_str().ok_or(Mismatch::Type)?;
    let time: Timestamp = text.parse().map_err(|_| {
        let layout =
            if scalar == Scalar::Time { "2006-01-02T15:04:05Z07:00" } else { "2006-01-02T15:04:05.000000Z07:00" };
        Mismatch::Form(format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""))
    })?;
    *value = if scalar == Scalar::Time { seconds(time) } else { micros(time) }.into();
    Ok(())
}

fn spell_quantity(value: &mut Value) -> Result<(), Mismatch> {
    let text = match &*value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(Mismatch::Type),
    };
    match quantity::canonical(&text) {
        Some(canonical) => {
            *value = canonical.into();
            Ok(())
        }
        None => Err(Mismatch::Form(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".into(),
        )),
    }
}

/// `metav1.Time` on the wire: whole seconds, UTC.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `metav1.MicroTime` on the wire.
pub(crate) fn micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::built_in;

    #[test]
    fn a_job_comes_out_as_go_would_print_it() {
        let mut job = json!({
            "kind": "Job", "apiVersion": "batch/v1",
            "metadata": {"name": "a", "labels": {}, "creationTimestamp": null},
            "spec": {"parallelism": 0, "colour": "red", "template": {"spec": {
                "hostNetwork": false,
                "containers": [{"name": "c", "image": "i", "args": [], "resources": {"limits": {"cpu": "1000m"}}}]
            }}},
            "status": {"active": 0, "conditions": [{"type": "Complete", "status": "True",
                "lastTransitionTime": "2026-01-02T03:04:05.678+01:00"}]}
        });
        let unknown = normalise(&built_in("batch.v1.Job"), &mut job).unwrap().unknown;
        assert_eq!(unknown, ["spec.colour"]);
        assert_eq!(
            job,
            json!({
                "kind": "Job", "apiVersion": "batch/v1",
                "metadata": {"name": "a"},
                "spec": {"parallelism": 0, "template": {"metadata": {}, "spec": {
                    "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]
                }}},
                "status": {"conditions": [{"type": "Complete", "status": "True", "lastProbeTime": null,
                    "lastTransitionTime": "2026-01-02T02:04:05Z"}]}
            })
        );
    }

    #[test]
    fn a_wrong_type_is_told_in_gos_words() {
        let mut job = json!({"spec": {"parallelism": "two"}});
        assert_eq!(
            normalise(&built_in("batch.v1.Job"), &mut job),
            Err("json: cannot unmarshal string into Go struct field JobSpec.spec.parallelism of type int32".into())
        );
    }
}
