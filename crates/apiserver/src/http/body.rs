//! Request bodies: from bytes of some media type to an object in its normal form.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::FieldValidation;
use crate::crd::prune;
use crate::error::ApiError;
use crate::path::Path;
use crate::protobuf;
use crate::registry::{Resource, api_version};
use crate::schema::{Schema, Shape, normalise, normalise_part};

/// What is told to clients that send something else.
pub(crate) const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// An object as a client sent it, in normal form, and what it should be told about it.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
}

/// The media type of the request body without its parameters; JSON when nothing is said.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let full = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("application/json");
    full.split(';').next().unwrap_or_default().trim()
}

/// Reads an object of `resource` from a request body.
pub(crate) fn decode(
    resource: &Resource,
    media: &str,
    bytes: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, ApiError> {
    let (object, duplicates) = match media {
        "application/vnd.kubernetes.protobuf" => (protobuf(&resource.schema, bytes)?, Vec::new()),
        _ => parse(media, bytes)?,
    };
    settle(resource, object, &duplicates, validation)
}

/// A body as a JSON tree, and the paths of keys that occur twice in it.
pub(crate) fn parse(media: &str, bytes: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    match media {
        "application/json" | "" => parse_json(bytes).map_err(|error| unreadable(&error)),
        "application/yaml" => {
            let text = std::str::from_utf8(bytes).map_err(|error| unreadable(&error))?;
            let object = serde_saphyr::from_str(text).map_err(|error| unreadable(&error))?;
            Ok((object, Vec::new()))
        }
        _ => Err(ApiError::unsupported_media_type(ACCEPTED)),
    }
}

/// A protobuf body whose message has the shape `schema`. Custom resources have no message.
pub(crate) fn protobuf(schema: &Schema, bytes: &[u8]) -> Result<Value, ApiError> {
    match &schema.shape {
        Shape::Object(object) if !object.name.is_empty() => protobuf::decode(object, bytes).map_err(|error| {
            ApiError::bad_request(format!("the body of the request is not what its type says: {error}"))
        }),
        _ => Err(ApiError::unsupported_media_type(ACCEPTED)),
    }
}

fn unreadable(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::bad_request(format!(
        "couldn't get version/kind; json parse error: the body of the request is not an object: {error}"
    ))
}

/// Brings a tree into the normal form of `resource`: right kind, known fields, canonical values.
pub(crate) fn settle(
    resource: &Resource,
    mut object: Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<Decoded, ApiError> {
    adopt_type(resource, &mut object)?;
    let unknown = if resource.is_custom() {
        prune(&resource.schema, &mut object)
    } else {
        normalise(&resource.schema, &mut object).map(|pass| pass.unknown)
    };
    let unknown = unknown.map_err(|why| cannot_handle(resource, &why))?;
    judge(resource, object, duplicates, &unknown, validation)
}

/// The configuration of a server-side apply: the right kind, known fields, nothing filled in.
pub(crate) fn decode_configuration(
    resource: &Resource,
    bytes: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, ApiError> {
    // YAML is the notation of apply, and JSON is read as JSON so that duplicate keys are found.
    let is_json = bytes.trim_ascii_start().starts_with(b"{");
    let media = if is_json { "application/json" } else { "application/yaml" };
    let (mut object, duplicates) = parse(media, bytes)?;
    adopt_type(resource, &mut object)?;
    if !object["metadata"]["managedFields"].is_null() {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let unknown = if resource.is_custom() {
        prune(&resource.schema, &mut object)
    } else {
        normalise_part(&resource.schema, &mut object).map(|pass| pass.unknown)
    };
    let unknown = unknown.map_err(|why| cannot_handle(resource, &why))?;
    judge(resource, object, &duplicates, &unknown, validation)
}

/// Tells about unknown and duplicate fields as strictly as was asked for.
fn judge(
    resource: &Resource,
    object: Value,
    duplicates: &[String],
    unknown: &[String],
    validation: FieldValidation,
) -> Result<Decoded, ApiError> {
    let mut complaints: Vec<String> = Vec::new();
    complaints.extend(duplicates.iter().map(|path| format!("duplicate field \"{path}\"")));
    complaints.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => complaints,
        FieldValidation::Strict if complaints.is_empty() => Vec::new(),
        FieldValidation::Strict => {
            return Err(cannot_handle(resource, &format!("strict decoding error: {}", complaints.join(", "))));
        }
    };
    Ok(Decoded { object, warnings })
}

fn cannot_handle(resource: &Resource, why: &str) -> ApiError {
    let Resource { kind, version, .. } = resource;
    ApiError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
}

/// The type of the object must be the path's; a missing one is filled in.
fn adopt_type(resource: &Resource, object: &mut Value) -> Result<(), ApiError> {
    let Value::Object(entries) = object else {
        return Err(unreadable(&"expected a JSON object"));
    };
    let given = |entries: &Map<String, Value>, key: &str| entries.get(key).and_then(Value::as_str).map(str::to_owned);
    let expected = resource.api_version();
    let kind = given(entries, "kind").filter(|kind| !kind.is_empty()).unwrap_or_else(|| resource.kind.clone());
    let version = given(entries, "apiVersion").filter(|text| !text.is_empty()).unwrap_or_else(|| expected.clone());
    if kind != resource.kind || version != expected {
        let (group, plain) = version.rsplit_once('/').unwrap_or(("", &version));
        return Err(ApiError::bad_request(format!(
            "{kind} in version \"{plain}\" cannot be handled as a {}: no kind \"{kind}\" is registered for version \"{}\" here, which takes {expected}",
            resource.kind,
            api_version(group, plain),
        )));
    }
    entries.insert("kind".into(), kind.into());
    entries.insert("apiVersion".into(), version.into());
    if entries.get("metadata").is_none_or(Value::is_null) {
        entries.insert("metadata".into(), Value::Object(Map::new()));
    }
    Ok(())
}

/// JSON with duplicate keys noticed: the last value counts, as in Go.
pub(crate) fn parse_json(bytes: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Tracked { path: &Path::Root, duplicates: &mut duplicates }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, duplicates))
}

struct Tracked<'a> {
    path: &'a Path<'a>,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Tracked<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tracked<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        let Self { path, duplicates } = self;
        while let Some(item) = {
            let path = &Path::Item(path, items.len());
            seq.next_element_seed(Tracked { path, duplicates: &mut *duplicates })?
        } {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        let Self { path, duplicates } = self;
        while let Some(key) = map.next_key::<String>()? {
            let path = &Path::Field(path, &key);
            let value = map.next_value_seed(Tracked { path, duplicates: &mut *duplicates })?;
            if entries.contains_key(&key) && !duplicates.contains(&path.to_string()) {
                duplicates.push(path.to_string());
            }
            entries.insert(key, value);
        }
        Ok(Value::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicate_keys_are_found_wherever_they_are() {
        let (value, duplicates) = parse_json(br#"{"a": 1, "b": [{"c": 1, "c": 2}], "a": 3}"#).unwrap();
        assert_eq!(value, json!({"a": 3, "b": [{"c": 2}]}));
        assert_eq!(duplicates, ["b[0].c", "a"]);
    }

    #[test]
    fn rubbish_is_refused() {
        for bad in ["", "{", "[1", "{\"a\":1}x", "nul"] {
            assert!(parse_json(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
