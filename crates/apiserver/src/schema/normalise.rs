//! What a decode into the Go type and an encode out of it would make of an object: unknown fields vanish, nulls and
//! empty values do where Go omits them, always-written fields appear, times and quantities get their one spelling.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value};

use super::{Field, ObjectShape, Presence, Scalar, Schema, Shape, zero};
use crate::quantity;

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
    let mut pass = Pass { unknown: Vec::new(), path: Vec::new(), extent };
    pass.visit(schema, value, "")?;
    Ok(Normalised { unknown: pass.unknown })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    Part,
}

struct Pass {
    unknown: Vec<String>,
    /// Where we are: `spec`, `.template`, `[0]`; joined only when something has to be said about it.
    path: Vec<String>,
    extent: Extent,
}

impl Pass {
    /// `owner` is the short Go name of the struct around the value, as it appears in messages.
    fn visit(&mut self, schema: &Schema, value: &mut Value, owner: &str) -> Result<(), String> {
        match &schema.shape {
            Shape::Any => Ok(()),
            Shape::Scalar(scalar) => match spell(*scalar, value) {
                Ok(()) => Ok(()),
                Err(Mismatch::Type) => Err(self.mismatch(schema, value, owner)),
                Err(Mismatch::Form(message)) => Err(message),
            },
            Shape::List(list) => {
                let Value::Array(items) = value else { return Err(self.mismatch(schema, value, owner)) };
                for (index, item) in items.iter_mut().enumerate() {
                    self.path.push(format!("[{index}]"));
                    if item.is_null() {
                        *item = zero(&list.item);
                    }
                    self.visit(&list.item, item, owner)?;
                    self.path.pop();
                }
                Ok(())
            }
            Shape::Map { value: inner, .. } => {
                let Value::Object(entries) = value else { return Err(self.mismatch(schema, value, owner)) };
                for (key, entry) in entries.iter_mut() {
                    self.path.push(format!(".{key}"));
                    if entry.is_null() {
                        *entry = zero(inner);
                    }
                    if !entry.is_null() {
                        self.visit(inner, entry, owner)?;
                    }
                    self.path.pop();
                }
                Ok(())
            }
            Shape::Object(object) => {
                let Value::Object(entries) = value else { return Err(self.mismatch(schema, value, owner)) };
                self.object(object, entries)
            }
        }
    }

    fn object(&mut self, object: &ObjectShape, entries: &mut Map<String, Value>) -> Result<(), String> {
        let is_root = self.path.is_empty();
        if !object.preserve_unknown {
            let path = self.path.concat();
            let unknown = &mut self.unknown;
            entries.retain(|key, _| {
                let known = object.fields.contains_key(key) || (is_root && (key == "kind" || key == "apiVersion"));
                if !known {
                    unknown.push(format!("{path}{}{key}", if path.is_empty() { "" } else { "." }));
                }
                known
            });
        }
        let owner = short_name(&object.name).to_owned();
        for (name, field) in &object.fields {
            self.field(name, field, entries, &owner)?;
        }
        Ok(())
    }

    fn field(
        &mut self,
        name: &str,
        field: &Field,
        entries: &mut Map<String, Value>,
        owner: &str,
    ) -> Result<(), String> {
        if matches!(entries.get(name), None | Some(Value::Null)) {
            if field.presence != Presence::Always || self.extent == Extent::Part {
                entries.remove(name);
                return Ok(());
            }
            entries.insert(name.to_owned(), zero(&field.schema));
        }
        let Some(value) = entries.get_mut(name) else { return Ok(()) };
        if value.is_null() {
            return Ok(());
        }
        let dot = if self.path.is_empty() { "" } else { "." };
        self.path.push(format!("{dot}{name}"));
        self.visit(&field.schema, value, owner)?;
        self.path.pop();
        if field.presence == Presence::OmitZero && self.extent == Extent::Whole && is_empty(value) {
            entries.remove(name);
        }
        Ok(())
    }

    fn mismatch(&self, schema: &Schema, value: &Value, owner: &str) -> String {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(number) if !number.is_i64() => {
                return self.unmarshal(&format!("number {number}"), schema, owner);
            }
            Value::Number(number) if matches!(schema.shape, Shape::Scalar(Scalar::Int32)) => {
                return self.unmarshal(&format!("number {number}"), schema, owner);
            }
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        self.unmarshal(found, schema, owner)
    }

    fn unmarshal(&self, found: &str, schema: &Schema, owner: &str) -> String {
        // Go names the path without list positions.
        let path: String = self.path.iter().filter(|part| !part.starts_with('[')).map(String::as_str).collect();
        format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {}", go_type(schema))
    }
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
