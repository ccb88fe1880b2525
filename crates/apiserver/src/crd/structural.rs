//! From the OpenAPI v3 schema in a definition to our shapes and rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::Regex;
use serde_json::Value;

use crate::schema::{Field, ListKind, ListShape, ObjectShape, Presence, Scalar, Schema, Shape, built_in};

/// What a schema demands of a value beyond its shape.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    /// For people, by way of `kubectl explain`.
    pub(crate) description: Option<String>,
    pub(crate) default: Option<Value>,
    pub(crate) nullable: bool,
    pub(crate) allowed: Option<Vec<Value>>,
    pub(crate) minimum: Option<Bound>,
    pub(crate) maximum: Option<Bound>,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) length: Range,
    pub(crate) items: Range,
    pub(crate) properties: Range,
    pub(crate) pattern: Option<Regex>,
    pub(crate) format: String,
    pub(crate) unique_items: bool,
    pub(crate) required: Vec<String>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Schema>,
    /// The value is a whole Kubernetes object with apiVersion, kind and metadata of its own.
    pub(crate) embedded: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) limit: f64,
    pub(crate) exclusive: bool,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Range {
    pub(crate) min: Option<u64>,
    pub(crate) max: Option<u64>,
}

/// Why a schema cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SchemaError {
    /// Path below the schema, e.g. `.properties[spec]`.
    pub(crate) at: String,
    pub(crate) message: String,
}

/// The schema of a whole object: apiVersion, kind and metadata have the shape they always have.
pub(crate) fn root(schema: &Value) -> Result<Schema, SchemaError> {
    if schema["type"] != "object" {
        return Err(fault("", "type: must be object at the root"));
    }
    let mut root = read(schema, "")?;
    if let Shape::Object(object) = &mut root.shape {
        for (name, schema) in [
            ("apiVersion", Arc::new(Schema::of(Shape::Scalar(Scalar::String)))),
            ("kind", Arc::new(Schema::of(Shape::Scalar(Scalar::String)))),
            ("metadata", built_in("meta.v1.ObjectMeta")),
        ] {
            object.fields.insert(name.to_owned(), plain_field(schema));
        }
    }
    Ok(root)
}

fn fault(at: &str, message: impl Into<String>) -> SchemaError {
    SchemaError { at: at.to_owned(), message: message.into() }
}

fn plain_field(schema: Arc<Schema>) -> Field {
    Field { schema, presence: Presence::AsGiven, required: false, protobuf: 0 }
}

fn read(schema: &Value, at: &str) -> Result<Schema, SchemaError> {
    if !schema.is_object() {
        return Err(fault(at, "must be an object"));
    }
    if !schema["$ref"].is_null() {
        return Err(fault(at, "$ref: Forbidden: references are not allowed in structural schemas"));
    }
    Ok(Schema { shape: shape(schema, at)?, rules: Some(Box::new(rules(schema, at)?)) })
}

fn shape(schema: &Value, at: &str) -> Result<Shape, SchemaError> {
    if schema["x-kubernetes-int-or-string"] == true {
        return Ok(Shape::Scalar(Scalar::IntOrString));
    }
    match schema["type"].as_str().unwrap_or_default() {
        "object" => object_shape(schema, at),
        "array" => {
            let kind = match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => ListKind::Set,
                Some("map") => ListKind::Map(texts(&schema["x-kubernetes-list-map-keys"])),
                _ => ListKind::Atomic,
            };
            if schema["items"].is_null() {
                return Err(fault(&format!("{at}.items"), "Required value: must be specified"));
            }
            let item = Arc::new(read(&schema["items"], &format!("{at}.items"))?);
            Ok(Shape::List(ListShape { item, kind, merge_key: None, patch_merge: false }))
        }
        "string" => Ok(Shape::Scalar(Scalar::String)),
        "boolean" => Ok(Shape::Scalar(Scalar::Bool)),
        "integer" => Ok(Shape::Scalar(Scalar::Int64)),
        "number" => Ok(Shape::Scalar(Scalar::Number)),
        // Inside of anyOf and the like a schema need not repeat the type.
        "" => Ok(Shape::Any),
        other => Err(fault(&format!("{at}.type"), format!("Unsupported value: {other:?}"))),
    }
}

fn object_shape(schema: &Value, at: &str) -> Result<Shape, SchemaError> {
    let atomic = schema["x-kubernetes-map-type"] == "atomic";
    match &schema["additionalProperties"] {
        Value::Object(_) => {
            let value = read(&schema["additionalProperties"], &format!("{at}.additionalProperties"))?;
            return Ok(Shape::Map { value: Arc::new(value), atomic });
        }
        Value::Bool(true) => return Ok(Shape::Map { value: Arc::new(Schema::any()), atomic }),
        _ => {}
    }
    let mut fields = BTreeMap::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let property = read(property, &format!("{at}.properties[{name}]"))?;
        fields.insert(name.clone(), plain_field(Arc::new(property)));
    }
    let preserve_unknown = schema["x-kubernetes-preserve-unknown-fields"] == true;
    if schema["x-kubernetes-embedded-resource"] == true {
        for (name, schema) in [
            ("apiVersion", Arc::new(Schema::of(Shape::Scalar(Scalar::String)))),
            ("kind", Arc::new(Schema::of(Shape::Scalar(Scalar::String)))),
            ("metadata", built_in("meta.v1.ObjectMeta")),
        ] {
            fields.insert(name.to_owned(), plain_field(schema));
        }
    }
    Ok(Shape::Object(ObjectShape { name: String::new(), fields, preserve_unknown, atomic }))
}

fn rules(schema: &Value, at: &str) -> Result<Rules, SchemaError> {
    let bound = |limit: &str, exclusive: &str| {
        schema[limit].as_f64().map(|limit| Bound { limit, exclusive: schema[exclusive] == true })
    };
    let range = |min: &str, max: &str| Range { min: schema[min].as_u64(), max: schema[max].as_u64() };
    let many = |key: &str| -> Result<Vec<Schema>, SchemaError> {
        let list = schema[key].as_array().into_iter().flatten().enumerate();
        list.map(|(index, schema)| read(schema, &format!("{at}.{key}[{index}]"))).collect()
    };
    let pattern = schema["pattern"]
        .as_str()
        .map(|pattern| {
            Regex::new(pattern).map_err(|error| {
                fault(&format!("{at}.pattern"), format!("must be a valid regular expression: {error}"))
            })
        })
        .transpose()?;
    let not = if schema["not"].is_null() { None } else { Some(read(&schema["not"], &format!("{at}.not"))?) };
    Ok(Rules {
        description: schema["description"].as_str().map(str::to_owned),
        default: schema.get("default").cloned(),
        nullable: schema["nullable"] == true,
        allowed: schema["enum"].as_array().cloned(),
        minimum: bound("minimum", "exclusiveMinimum"),
        maximum: bound("maximum", "exclusiveMaximum"),
        multiple_of: schema["multipleOf"].as_f64(),
        length: range("minLength", "maxLength"),
        items: range("minItems", "maxItems"),
        properties: range("minProperties", "maxProperties"),
        pattern,
        format: schema["format"].as_str().unwrap_or_default().to_owned(),
        unique_items: schema["uniqueItems"] == true,
        required: texts(&schema["required"]),
        all_of: many("allOf")?,
        any_of: many("anyOf")?,
        one_of: many("oneOf")?,
        not,
        embedded: schema["x-kubernetes-embedded-resource"] == true,
    })
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|entry| entry.as_str().map(str::to_owned)).collect()
}
