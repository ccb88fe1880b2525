//! Custom resources: from a CustomResourceDefinition to served resources, and the rules of their objects.

#[cfg(feature = "cel")]
mod expression;
#[cfg(not(feature = "cel"))]
#[path = "crd/no_expression.rs"]
mod expression;
mod prune;
mod structural;
mod validate;

use std::sync::Arc;

use serde_json::Value;

use expression::Expressions;
pub(crate) use prune::{default, prune};
pub(crate) use structural::{Rules, SchemaError};

use crate::error::Cause;
use crate::metadata;
use crate::registry::{Resource, Strategy, Subresource};
use crate::strategy::{Part, keep};

/// What a definition says about a resource beyond what built-in ones have.
#[derive(Debug, Clone)]
pub(crate) struct Custom {
    pub(crate) list_kind: String,
    pub(crate) columns: Vec<PrinterColumn>,
    expressions: Expressions,
}

/// An entry of `additionalPrinterColumns`.
#[derive(Debug, Clone)]
pub(crate) struct PrinterColumn {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    pub(crate) path: String,
}

/// The resources that a definition offers, one a served version, the storage version first.
pub(crate) fn resources(definition: &Value) -> Vec<Arc<Resource>> {
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut served: Vec<&Value> = versions.iter().filter(|version| version["served"] == true).collect();
    served.sort_by_key(|version| version["storage"] != true);
    served.iter().filter_map(|version| resource(definition, version).map(Arc::new)).collect()
}

fn resource(definition: &Value, version: &Value) -> Option<Resource> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let list = |value: &Value| -> Vec<String> { value.as_array().into_iter().flatten().filter_map(text).collect() };
    let (group, plural) = (text(&spec["group"])?, text(&names["plural"])?);
    let schema = structural::root(&version["schema"]["openAPIV3Schema"]).ok()?;
    let selectable = version["selectableFields"].as_array().into_iter().flatten();
    let has_status = !version["subresources"]["status"].is_null();
    Some(Resource {
        table: format!("{plural}.{group}"),
        group,
        version: text(&version["name"])?,
        kind: text(&names["kind"])?,
        plural,
        singular: text(&names["singular"]).unwrap_or_default(),
        short_names: list(&names["shortNames"]),
        categories: list(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        schema: Arc::new(schema),
        strategy: Strategy::Custom,
        subresources: if has_status { vec![Subresource::Status] } else { Vec::new() },
        selectable: selectable
            .filter_map(|field| text(&field["jsonPath"]))
            .map(|path| path.trim_start_matches('.').to_owned())
            .collect(),
        custom: Some(Custom {
            list_kind: text(&names["listKind"]).unwrap_or_default(),
            columns: columns(&version["additionalPrinterColumns"]),
            expressions: Expressions::compile(&version["schema"]["openAPIV3Schema"]).ok()?,
        }),
    })
}

fn columns(list: &Value) -> Vec<PrinterColumn> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let column = |column: &Value| PrinterColumn {
        name: text(&column["name"]),
        kind: text(&column["type"]),
        format: text(&column["format"]),
        description: text(&column["description"]),
        priority: column["priority"].as_i64().unwrap_or(0),
        path: text(&column["jsonPath"]),
    };
    list.as_array().into_iter().flatten().map(column).collect()
}

/// A new object: defaults and schema.
pub(crate) fn create(resource: &Resource, object: &mut Value) -> Vec<Cause> {
    default(&resource.schema, object);
    judge(resource, object, None)
}

/// A new state of an object.
pub(crate) fn update(resource: &Resource, part: Part, new: &mut Value, old: &Value) -> Vec<Cause> {
    default(&resource.schema, new);
    if part == Part::Main && without_metadata_and_status(resource, new) != without_metadata_and_status(resource, old) {
        metadata::bump_generation(new);
    }
    judge(resource, new, Some(old))
}

fn judge(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    validate::validate(&resource.schema, object, "", &mut causes);
    // Rules may take for granted what the schema says.
    if let (true, Some(custom)) = (causes.is_empty(), &resource.custom) {
        custom.expressions.check(object, old, &mut causes);
    }
    causes
}

/// What is told about a definition whose rules this build does not evaluate.
pub(crate) fn warning(definition: &Value) -> Option<String> {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let has_rules = versions.map(|version| &version["schema"]).any(has_rules);
    (has_rules && !expression::EVALUATED).then(|| {
        "x-kubernetes-validations are stored, but this server was built without CEL and does not evaluate them".into()
    })
}

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(entries) => entries.contains_key("x-kubernetes-validations") || entries.values().any(has_rules),
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

/// Whether resources can be served with this schema.
pub(crate) fn check_schema(schema: &Value) -> Result<(), SchemaError> {
    structural::root(schema)?;
    Expressions::compile(schema).map(drop)
}

/// Status updates change nothing but the status; others do not touch it where it is a subresource.
pub(crate) fn keep_parts(resource: &Resource, part: Part, new: &mut Value, old: &Value) {
    if part == Part::Status {
        let status = new.get("status").cloned();
        let managed_fields = new["metadata"].get("managedFields").cloned();
        *new = old.clone();
        match status {
            Some(status) => new["status"] = status,
            None => drop(new.as_object_mut().map(|entries| entries.remove("status"))),
        }
        if let Some(managed_fields) = managed_fields {
            metadata::set(new, "managedFields", managed_fields);
        }
    } else if resource.has_status() {
        keep(new, old, "status");
    }
}

fn without_metadata_and_status(resource: &Resource, object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(entries) = object.as_object_mut() {
        entries.remove("metadata");
        if resource.has_status() {
            entries.remove("status");
        }
    }
    object
}
