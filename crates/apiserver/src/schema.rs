//! The shape of objects: one description for built-in kinds and custom resources alike. Pruning, defaulting,
//! validation, strategic merge, server-side apply, protobuf and OpenAPI all read it.
//!
//! Built-in shapes come from `schema/kubernetes-1.35.schema`, a table generated from the Go types; custom ones from
//! the OpenAPI schema inside of a CustomResourceDefinition (`crd::structural`).

mod builtin;
mod normalise;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub(crate) use builtin::built_in;
pub(crate) use normalise::{normalise, normalise_part, seconds};

use crate::crd::Rules;

/// One node of a shape.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    pub(crate) shape: Shape,
    /// What a custom resource's schema asks for beyond its shape. Built-in kinds are validated in code.
    pub(crate) rules: Option<Box<Rules>>,
}

#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Object(ObjectShape),
    Map {
        value: Arc<Schema>,
        atomic: bool,
    },
    List(ListShape),
    Scalar(Scalar),
    /// Anything is kept as it came.
    Any,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ObjectShape {
    /// Go's name of the type (`batch.v1.JobSpec`); empty for custom resources.
    pub(crate) name: String,
    pub(crate) fields: BTreeMap<String, Field>,
    pub(crate) preserve_unknown: bool,
    pub(crate) atomic: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) schema: Arc<Schema>,
    pub(crate) presence: Presence,
    pub(crate) required: bool,
    /// Number in the protobuf message; 0: has none.
    pub(crate) protobuf: u32,
}

/// What a decode and encode through the Go type makes of an absent or zero value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// A pointer: absent and zero are different, both are kept.
    AsGiven,
    /// A plain value with `omitempty`: zero disappears.
    OmitZero,
    /// A plain value without `omitempty`, or a struct: written also when nobody gave it.
    Always,
}

#[derive(Debug, Clone)]
pub(crate) struct ListShape {
    pub(crate) item: Arc<Schema>,
    pub(crate) kind: ListKind,
    /// Key under which a strategic merge finds an element; `None`: the list is replaced, or a set if `patch_merge`.
    pub(crate) merge_key: Option<String>,
    pub(crate) patch_merge: bool,
}

/// How server-side apply treats a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum ListKind {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    String,
    Bool,
    Int32,
    Int64,
    Number,
    /// base64 in JSON.
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
}

impl ObjectShape {
    /// The fields that Go writes also when nobody gave them.
    fn always(&self) -> impl Iterator<Item = (&String, &Field)> {
        self.fields.iter().filter(|(_, field)| field.presence == Presence::Always)
    }
}

impl Schema {
    pub(crate) fn of(shape: Shape) -> Self {
        Self { shape, rules: None }
    }

    pub(crate) fn any() -> Self {
        Self::of(Shape::Any)
    }

    /// What a custom resource's schema says about itself.
    pub(crate) fn description(&self) -> Option<&str> {
        self.rules.as_ref()?.description.as_deref()
    }

    /// The field `name` of an object, if it is one and has it.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        match &self.shape {
            Shape::Object(object) => object.fields.get(name),
            _ => None,
        }
    }

    /// The shape of what lies under `key`: an object's field or a map's value.
    pub(crate) fn child(&self, key: &str) -> Option<&Arc<Self>> {
        match &self.shape {
            Shape::Object(object) => object.fields.get(key).map(|field| &field.schema),
            Shape::Map { value, .. } => Some(value),
            _ => None,
        }
    }
}

/// The zero value Go would print for a field that is always present.
pub(crate) fn zero(schema: &Schema) -> Value {
    match &schema.shape {
        Shape::Object(_) => Value::Object(serde_json::Map::new()),
        Shape::Scalar(Scalar::String) => "".into(),
        Shape::Scalar(Scalar::Bool) => false.into(),
        Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::IntOrString) => 0.into(),
        Shape::Scalar(Scalar::Quantity) => "0".into(),
        _ => Value::Null,
    }
}
