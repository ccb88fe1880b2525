//! Protobuf request bodies: kubectl's typed commands (`create job`, `create ns`, `auth can-i`) send nothing else.
//!
//! Messages are read by the same shapes as JSON: the table of built-in types carries the field numbers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Number, Value, json};

use crate::schema::{ObjectShape, Scalar, Schema, Shape, seconds};

/// What every Kubernetes protobuf body starts with; a `runtime.Unknown` message follows.
const MAGIC: &[u8] = b"k8s\0";

/// Why a body cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ProtobufError {
    #[error("it does not start with the Kubernetes protobuf prefix")]
    Prefix,
    #[error("the message ends in the middle of a field")]
    Truncated,
    #[error("field {0} has a wire type that does not fit")]
    WireType(u32),
    #[error("a text is not UTF-8")]
    Text,
    #[error("it is encoded as {0:?}, which is not supported")]
    Encoding(String),
}

/// Reads an enveloped message of the shape `object` into the JSON it stands for.
pub(crate) fn decode(object: &ObjectShape, body: &[u8]) -> Result<Value, ProtobufError> {
    let unknown = body.strip_prefix(MAGIC).ok_or(ProtobufError::Prefix)?;
    let (mut kind, mut api_version, mut raw) = (String::new(), String::new(), [].as_slice());
    for entry in Entries(unknown) {
        match entry? {
            (1, Wire::Bytes(type_meta)) => {
                for entry in Entries(type_meta) {
                    match entry? {
                        (1, Wire::Bytes(bytes)) => api_version = text(bytes)?,
                        (2, Wire::Bytes(bytes)) => kind = text(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            (3, Wire::Bytes(bytes)) if !bytes.is_empty() => return Err(ProtobufError::Encoding(text(bytes)?)),
            _ => {}
        }
    }
    let mut value = message(object, raw)?;
    value["kind"] = kind.into();
    value["apiVersion"] = api_version.into();
    Ok(value)
}

/// A field as it is on the wire.
enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// The fields of a message, one after the other.
struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(u32, Wire<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.0 = &[];
        }
        Some(entry)
    }
}

impl<'a> Entries<'a> {
    fn entry(&mut self) -> Result<(u32, Wire<'a>), ProtobufError> {
        let tag = varint(&mut self.0)?;
        let number = u32::try_from(tag >> 3).map_err(|_| ProtobufError::Truncated)?;
        let wire = match tag & 7 {
            0 => Wire::Varint(varint(&mut self.0)?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().map_err(|_| ProtobufError::Truncated)?)),
            2 => {
                let length = usize::try_from(varint(&mut self.0)?).map_err(|_| ProtobufError::Truncated)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().map_err(|_| ProtobufError::Truncated)?)),
            _ => return Err(ProtobufError::WireType(number)),
        };
        Ok((number, wire))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }
}

fn varint(bytes: &mut &[u8]) -> Result<u64, ProtobufError> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or(ProtobufError::Truncated)?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ProtobufError::Truncated)
}

fn text(bytes: &[u8]) -> Result<String, ProtobufError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| ProtobufError::Text)
}

fn message(object: &ObjectShape, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut entries = Map::new();
    for entry in Entries(bytes) {
        let (number, wire) = entry?;
        let Some((name, field)) = object.fields.iter().find(|(_, field)| field.protobuf == number && number > 0) else {
            continue;
        };
        match &field.schema.shape {
            Shape::List(list) => {
                let items = entries.entry(name.clone()).or_insert_with(|| json!([]));
                if let Value::Array(items) = items {
                    repeated(&list.item, number, &wire, items)?;
                }
            }
            Shape::Map { value, .. } => {
                let (key, value) = map_entry(value, number, &wire)?;
                entries.entry(name.clone()).or_insert_with(|| json!({}))[key] = value;
            }
            _ => drop(entries.insert(name.clone(), single(&field.schema, number, &wire)?)),
        }
    }
    Ok(Value::Object(entries))
}

/// Numbers in a list may be packed into one field.
fn repeated(item: &Schema, number: u32, wire: &Wire<'_>, items: &mut Vec<Value>) -> Result<(), ProtobufError> {
    let is_number = matches!(item.shape, Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Bool));
    if let (true, Wire::Bytes(packed)) = (is_number, wire) {
        let mut rest: &[u8] = packed;
        while !rest.is_empty() {
            items.push(single(item, number, &Wire::Varint(varint(&mut rest)?))?);
        }
    } else {
        items.push(single(item, number, wire)?);
    }
    Ok(())
}

fn map_entry(value: &Schema, number: u32, wire: &Wire<'_>) -> Result<(String, Value), ProtobufError> {
    let Wire::Bytes(bytes) = wire else { return Err(ProtobufError::WireType(number)) };
    let (mut key, mut found) = (String::new(), crate::schema::zero(value));
    for entry in Entries(bytes) {
        match entry? {
            (1, Wire::Bytes(bytes)) => key = text(bytes)?,
            (2, wire) => found = single(value, number, &wire)?,
            _ => {}
        }
    }
    Ok((key, found))
}

fn single(schema: &Schema, number: u32, wire: &Wire<'_>) -> Result<Value, ProtobufError> {
    Ok(match (&schema.shape, wire) {
        (Shape::Object(object), Wire::Bytes(bytes)) => message(object, bytes)?,
        // Raw JSON in a message of its own.
        (Shape::Any, Wire::Bytes(bytes)) => {
            let raw = only(bytes, 1)?;
            serde_json::from_slice(raw.unwrap_or(b"null")).unwrap_or_default()
        }
        (Shape::Scalar(scalar), wire) => scalar_value(*scalar, number, wire)?,
        (Shape::List(list), wire) => {
            let mut items = Vec::new();
            repeated(&list.item, number, wire, &mut items)?;
            Value::Array(items)
        }
        _ => return Err(ProtobufError::WireType(number)),
    })
}

fn scalar_value(scalar: Scalar, number: u32, wire: &Wire<'_>) -> Result<Value, ProtobufError> {
    Ok(match (scalar, wire) {
        (Scalar::String, Wire::Bytes(bytes)) => text(bytes)?.into(),
        (Scalar::Bytes, Wire::Bytes(bytes)) => BASE64.encode(bytes).into(),
        (Scalar::Bool, Wire::Varint(value)) => (*value != 0).into(),
        (Scalar::Int32 | Scalar::Int64, Wire::Varint(value)) => value.cast_signed().into(),
        (Scalar::Int32 | Scalar::Int64, Wire::Fixed32(value)) => value.cast_signed().into(),
        (Scalar::Number, Wire::Fixed64(value)) => {
            Number::from_f64(f64::from_bits(*value)).map_or(Value::Null, Value::Number)
        }
        (Scalar::Quantity, Wire::Bytes(bytes)) => text(only(bytes, 1)?.unwrap_or(b"0"))?.into(),
        (Scalar::IntOrString, Wire::Bytes(bytes)) => int_or_string(bytes)?,
        (Scalar::Time | Scalar::MicroTime, Wire::Bytes(bytes)) => time(bytes)?,
        _ => return Err(ProtobufError::WireType(number)),
    })
}

/// The last value of one length-delimited field of a message.
fn only(bytes: &[u8], wanted: u32) -> Result<Option<&[u8]>, ProtobufError> {
    let mut found = None;
    for entry in Entries(bytes) {
        if let (number, Wire::Bytes(bytes)) = entry?
            && number == wanted
        {
            found = Some(bytes);
        }
    }
    Ok(found)
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut words) = (false, 0, String::new());
    for entry in Entries(bytes) {
        match entry? {
            (1, Wire::Varint(kind)) => is_text = kind == 1,
            (2, Wire::Varint(value)) => number = value.cast_signed(),
            (3, Wire::Bytes(bytes)) => words = text(bytes)?,
            _ => {}
        }
    }
    Ok(if is_text { words.into() } else { number.into() })
}

/// An empty message is the zero time, which is null in JSON.
fn time(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut secs, mut nanos) = (None, 0);
    for entry in Entries(bytes) {
        match entry? {
            (1, Wire::Varint(value)) => secs = Some(value.cast_signed()),
            (2, Wire::Varint(value)) => nanos = i32::try_from(value).unwrap_or_default(),
            _ => {}
        }
    }
    let time = secs.and_then(|secs| Timestamp::new(secs, nanos).ok());
    Ok(time.map_or(Value::Null, |time| if nanos == 0 { seconds(time) } else { time.to_string() }.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::built_in;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend(bytes);
        out
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &type_meta), field(2, raw)].concat()
    }

    fn read(of: &str, body: &[u8]) -> Result<Value, ProtobufError> {
        match &built_in(of).shape {
            Shape::Object(object) => decode(object, body),
            _ => panic!("{of} is no object"),
        }
    }

    #[test]
    fn a_job_comes_out_of_its_message() {
        let container = [field(1, b"main"), field(2, b"app:1")].concat();
        let template = field(2, &field(2, &container));
        let mut spec = vec![1 << 3, 3];
        spec.extend(field(6, &template));
        let labels = field(11, &[field(1, b"app"), field(2, b"web")].concat());
        let metadata = [field(1, b"train"), labels, field(8, &[])].concat();
        let body = envelope("batch/v1", "Job", &[field(1, &metadata), field(2, &spec)].concat());
        assert_eq!(
            read("batch.v1.Job", &body).unwrap(),
            json!({"apiVersion": "batch/v1", "kind": "Job",
                "metadata": {"name": "train", "labels": {"app": "web"}, "creationTimestamp": null},
                "spec": {"parallelism": 3, "template": {"spec": {"containers": [{"name": "main", "image": "app:1"}]}}}})
        );
    }

    #[test]
    fn secrets_keep_their_bytes_and_rubbish_is_refused() {
        let data = field(2, &[field(1, b"k"), field(2, &[0, 255])].concat());
        let secret = read("core.v1.Secret", &envelope("v1", "Secret", &data)).unwrap();
        assert_eq!(secret["data"], json!({"k": "AP8="}));
        assert_eq!(read("core.v1.Secret", b"{}"), Err(ProtobufError::Prefix));
        let cut = envelope("v1", "Secret", &[0x12, 0x7f, 1]);
        assert_eq!(read("core.v1.Secret", &cut), Err(ProtobufError::Truncated));
        for length in 0..cut.len() {
            let _ = read("core.v1.Secret", &cut[..length]);
        }
    }
}
