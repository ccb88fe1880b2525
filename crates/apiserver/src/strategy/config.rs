//! ConfigMaps and Secrets: keys are file names, and immutable means immutable.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use crate::error::Cause;

/// Data of one object may not be larger.
const DATA_LIMIT_BYTES: usize = 1024 * 1024;

/// `stringData` is a convenience of writers: it ends up in `data`. A Secret without a type is opaque.
pub(super) fn default_secret(object: &mut Value) {
    if let Some(Value::Object(plain)) = object.as_object_mut().and_then(|entries| entries.remove("stringData")) {
        for (key, value) in plain {
            object["data"][key] = BASE64.encode(value.as_str().unwrap_or_default()).into();
        }
    }
    if object["type"].as_str().unwrap_or_default().is_empty() {
        object["type"] = "Opaque".into();
    }
}

pub(super) fn validate(object: &Value, parts: &[&str]) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut size = 0;
    for part in parts {
        for (key, value) in object[*part].as_object().into_iter().flatten() {
            if let Err(why) = file_name(key) {
                causes.push(Cause::invalid(format!("{part}[{key}]"), &key.as_str().into(), why));
            }
            size += value.as_str().unwrap_or_default().len();
        }
    }
    if size > DATA_LIMIT_BYTES {
        causes.push(Cause {
            reason: "FieldValueTooLong".into(),
            message: format!("Too long: may not be more than {DATA_LIMIT_BYTES} bytes"),
            field: String::new(),
        });
    }
    causes
}

pub(super) fn validate_update(new: &Value, old: &Value, parts: &[&str]) -> Vec<Cause> {
    let mut causes = validate(new, parts);
    if new["type"] != old["type"] {
        causes.push(Cause::invalid("type", &new["type"], "field is immutable"));
    }
    if old["immutable"] == true {
        if new["immutable"] != true {
            causes.push(Cause::forbidden("immutable", "field is immutable when `immutable` is set"));
        }
        for part in parts.iter().filter(|part| new[**part] != old[**part]) {
            causes.push(Cause::forbidden(*part, "field is immutable when `immutable` is set"));
        }
    }
    causes
}

fn file_name(key: &str) -> Result<(), &'static str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if key.is_empty() || key.len() > 253 || !key.chars().all(fits) {
        return Err(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
        );
    }
    if key == "." || key.starts_with("..") {
        return Err("must not be '.' or start with '..'");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn string_data_becomes_data() {
        let mut secret = json!({"stringData": {"token": "abc"}, "data": {"other": "eA=="}});
        default_secret(&mut secret);
        assert_eq!(secret, json!({"type": "Opaque", "data": {"token": "YWJj", "other": "eA=="}}));
    }

    #[test]
    fn what_is_immutable_stays() {
        let old = json!({"immutable": true, "data": {"a": "1"}});
        let new = json!({"immutable": true, "data": {"a": "2"}});
        assert_eq!(validate_update(&new, &old, &["data"])[0].field, "data");
        assert!(validate_update(&old, &old, &["data"]).is_empty());
        assert_eq!(validate(&json!({"data": {"a/b": ""}}), &["data"])[0].field, "data[a/b]");
    }
}
