//! Judges a custom resource by its schema, in the words of the API server.

use serde_json::Value;

use super::prune::join;
use super::structural::{Bound, Range, Rules};
use crate::error::Cause;
use crate::schema::{ListKind, Scalar, Schema, Shape};

/// Adds a cause for every rule that `value` breaks.
pub(crate) fn validate(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(rules) = schema.rules.as_deref() else { return };
    if value.is_null() && rules.nullable {
        return;
    }
    if let Some(expected) = wrong_type(schema, value) {
        causes.push(type_cause(path, value, expected));
        return;
    }
    check_value(rules, value, path, causes);
    check_combinations(rules, value, path, causes);
    match (&schema.shape, value) {
        (Shape::Object(object), Value::Object(entries)) => {
            check_embedded(rules, value, path, causes);
            for (name, field) in &object.fields {
                if let Some(entry) = entries.get(name) {
                    validate(&field.schema, entry, &join(path, name), causes);
                }
            }
        }
        (Shape::Map { value: inner, .. }, Value::Object(entries)) => {
            for (key, entry) in entries {
                validate(inner, entry, &join(path, key), causes);
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            check_keys(&list.kind, items, path, causes);
            for (index, item) in items.iter().enumerate() {
                validate(&list.item, item, &format!("{path}[{index}]"), causes);
            }
        }
        _ => {}
    }
}

fn wrong_type(schema: &Schema, value: &Value) -> Option<&'static str> {
    let (fits, name) = match &schema.shape {
        Shape::Any => (true, ""),
        Shape::Object(_) | Shape::Map { .. } => (value.is_object(), "object"),
        Shape::List(_) => (value.is_array(), "array"),
        Shape::Scalar(Scalar::Bool) => (value.is_boolean(), "boolean"),
        Shape::Scalar(Scalar::Int32 | Scalar::Int64) => {
            (value.is_i64() || value.as_f64().is_some_and(|number| number.fract() == 0.0), "integer")
        }
        Shape::Scalar(Scalar::Number) => (value.is_number(), "number"),
        Shape::Scalar(Scalar::IntOrString) => (value.is_string() || value.is_i64(), "integer or string"),
        Shape::Scalar(_) => (value.is_string(), "string"),
    };
    (!fits).then_some(name)
}

fn type_cause(path: &str, value: &Value, expected: &str) -> Cause {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    Cause {
        reason: "FieldValueTypeInvalid".into(),
        message: format!("Invalid value: \"{found}\": {path} in body must be of type {expected}: \"{found}\""),
        field: path.to_owned(),
    }
}

fn check_value(rules: &Rules, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if let Some(allowed) = &rules.allowed
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        causes.push(Cause::not_supported(path, value, &allowed));
    }
    let mut refuse = |detail: String| causes.push(Cause::invalid(path, value, &format!("{path} in body {detail}")));
    if let Some(number) = value.as_f64() {
        for why in out_of_bounds(rules, number) {
            refuse(why);
        }
    }
    if let Some(text) = value.as_str() {
        if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            refuse(format!("should match '{pattern}'"));
        }
        if let Some(why) = bad_format(&rules.format, text) {
            refuse(format!("must be of type {}: {why}", rules.format));
        }
    }
    let sizes = [
        (value.as_str().map(|text| text.chars().count()), rules.length, "chars long"),
        (value.as_array().map(Vec::len), rules.items, "items"),
        (value.as_object().map(serde_json::Map::len), rules.properties, "properties"),
    ];
    for (size, range, unit) in sizes {
        if let Some(cause) = size.and_then(|size| out_of_range(path, value, size as u64, range, unit)) {
            causes.push(cause);
        }
    }
    if rules.unique_items && value.as_array().is_some_and(|items| has_duplicates(items)) {
        causes.push(Cause::invalid(path, value, &format!("{path} in body shouldn't contain duplicates")));
    }
    for name in
        rules.required.iter().filter(|name| value.as_object().is_some_and(|entries| !entries.contains_key(*name)))
    {
        causes.push(Cause::required(join(path, name), ""));
    }
}

fn out_of_bounds(rules: &Rules, number: f64) -> Vec<String> {
    let mut faults = Vec::new();
    if let Some(Bound { limit, exclusive }) = rules.minimum
        && (number < limit || exclusive && number <= limit)
    {
        let or_equal = if exclusive { "" } else { "or equal to " };
        faults.push(format!("should be greater than {or_equal}{limit}"));
    }
    if let Some(Bound { limit, exclusive }) = rules.maximum
        && (number > limit || exclusive && number >= limit)
    {
        let or_equal = if exclusive { "" } else { "or equal to " };
        faults.push(format!("should be less than {or_equal}{limit}"));
    }
    if let Some(factor) = rules.multiple_of.filter(|factor| (number / factor).fract() != 0.0) {
        faults.push(format!("should be a multiple of {factor}"));
    }
    faults
}

fn out_of_range(path: &str, value: &Value, size: u64, range: Range, unit: &str) -> Option<Cause> {
    if let Some(max) = range.max.filter(|max| size > *max) {
        let (reason, message) = match unit {
            "chars long" => ("FieldValueTooLong", format!("Too long: may not be more than {max} bytes")),
            _ => ("FieldValueTooMany", format!("Too many: {size}: must have at most {max} items")),
        };
        return Some(Cause { reason: reason.into(), message, field: path.to_owned() });
    }
    let min = range.min.filter(|min| size < *min)?;
    let verb = if unit == "chars long" { "should be at least" } else { "should have at least" };
    Some(Cause::invalid(path, value, &format!("{path} in body {verb} {min} {unit}")))
}

fn has_duplicates(items: &[Value]) -> bool {
    items.iter().enumerate().any(|(index, item)| items[..index].contains(item))
}

fn bad_format(format: &str, text: &str) -> Option<String> {
    let fine = match format {
        "date-time" => text.parse::<k8s_openapi::jiff::Timestamp>().is_ok(),
        "byte" => {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.decode(text).is_ok()
        }
        _ => true,
    };
    (!fine).then(|| format!("{text:?}"))
}

fn check_combinations(rules: &Rules, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let fits = |schema: &Schema| {
        let mut found = Vec::new();
        validate(schema, value, path, &mut found);
        found.is_empty()
    };
    for schema in &rules.all_of {
        validate(schema, value, path, causes);
    }
    let mut refuse = |detail: &str| causes.push(Cause::invalid(path, value, &format!("{path} in body {detail}")));
    if !rules.any_of.is_empty() && !rules.any_of.iter().any(fits) {
        refuse("must validate at least one schema (anyOf)");
    }
    if !rules.one_of.is_empty() && rules.one_of.iter().filter(|schema| fits(schema)).count() != 1 {
        refuse("must validate one and only one schema (oneOf)");
    }
    if rules.not.as_ref().is_some_and(fits) {
        refuse("must not validate the schema (not)");
    }
}

fn check_embedded(rules: &Rules, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if rules.embedded {
        for field in ["apiVersion", "kind"].iter().filter(|field| !value[**field].is_string()) {
            causes.push(Cause::required(join(path, field), "must not be empty"));
        }
    }
}

/// Elements of a set, and keys of a list map, occur once.
fn check_keys(kind: &ListKind, items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    let identity = |item: &Value| match kind {
        ListKind::Atomic => Value::Null,
        ListKind::Set => item.clone(),
        ListKind::Map(keys) => keys.iter().map(|key| (key.clone(), item[key.as_str()].clone())).collect(),
    };
    if *kind == ListKind::Atomic {
        return;
    }
    let mut seen: Vec<Value> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let identity = identity(item);
        if seen.contains(&identity) {
            causes.push(Cause::duplicate(format!("{path}[{index}]"), &identity));
        }
        seen.push(identity);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::crd::structural::root;

    fn broken(spec: &Value, given: &Value) -> Vec<(String, String)> {
        let schema = root(&json!({"type": "object", "properties": {"spec": spec}})).unwrap();
        let mut causes = Vec::new();
        validate(&schema, &json!({"spec": given}), "", &mut causes);
        causes.into_iter().map(|cause| (cause.field, cause.reason)).collect()
    }

    #[test]
    fn each_rule_of_a_schema_is_checked() {
        let object = |property: Value| json!({"type": "object", "properties": {"x": property}});
        let cases = [
            (json!({"type": "string"}), json!("a"), json!(1), "FieldValueTypeInvalid"),
            (json!({"type": "integer"}), json!(1), json!(1.5), "FieldValueTypeInvalid"),
            (json!({"type": "integer", "minimum": 1}), json!(1), json!(0), "FieldValueInvalid"),
            (
                json!({"type": "number", "maximum": 1, "exclusiveMaximum": true}),
                json!(0.5),
                json!(1),
                "FieldValueInvalid",
            ),
            (
                json!({"type": "string", "enum": ["Wait", "Fail"]}),
                json!("Wait"),
                json!("Redo"),
                "FieldValueNotSupported",
            ),
            (json!({"type": "string", "maxLength": 2}), json!("ab"), json!("abc"), "FieldValueTooLong"),
            (json!({"type": "string", "pattern": "^a+$"}), json!("aa"), json!("b"), "FieldValueInvalid"),
            (
                json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
                json!(["a"]),
                json!(["a", "b"]),
                "FieldValueTooMany",
            ),
            (json!({"x-kubernetes-int-or-string": true}), json!("5%"), json!(true), "FieldValueTypeInvalid"),
            (
                json!({"type": "string", "format": "date-time"}),
                json!("2026-01-01T00:00:00Z"),
                json!("soon"),
                "FieldValueInvalid",
            ),
            (json!({"type": "integer", "not": {"enum": [7]}}), json!(6), json!(7), "FieldValueInvalid"),
            (
                json!({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}),
                json!(0),
                json!(3),
                "FieldValueInvalid",
            ),
        ];
        for (property, good, bad, reason) in cases {
            assert_eq!(broken(&object(property.clone()), &json!({"x": good})), [], "{property}");
            let expected = [("spec.x".to_owned(), reason.to_owned())];
            assert_eq!(broken(&object(property.clone()), &json!({"x": bad})), expected, "{property}");
        }
    }

    #[test]
    fn required_fields_and_list_keys_are_checked() {
        let spec = json!({"type": "object", "required": ["name"], "properties": {"list": {"type": "array",
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}});
        assert_eq!(broken(&spec, &json!({})), [("spec.name".into(), "FieldValueRequired".into())]);
        let twice = json!({"name": 1, "list": [{"k": "a"}, {"k": "a"}]});
        assert_eq!(broken(&spec, &twice), [("spec.list[1]".into(), "FieldValueDuplicate".into())]);
    }
}
