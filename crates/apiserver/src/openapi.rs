//! OpenAPI v3: what kubectl reads before it creates, applies or explains something. Made from the same shapes that
//! requests are judged by.

mod words;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Map, Value, json};

use crate::discovery::{group_names, of_version, versions};
use crate::error::ApiError;
use crate::http::Reply;
use crate::registry::{Registry, Resource};
use crate::schema::{Field, ListKind, ListShape, ObjectShape, Scalar, Schema, Shape};

/// `/openapi/v3`: where the documents are. The hash lets clients cache them.
pub(crate) fn index(registry: &Registry) -> Reply {
    let mut paths = Map::new();
    for group in std::iter::once(String::new()).chain(group_names(registry)) {
        for version in versions(registry, &group) {
            let path = group_path(&group, &version);
            let hash = fingerprint(&make_document(&of_version(registry, &group, &version)));
            paths.insert(path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash:016X}")}));
        }
    }
    Reply::value(&json!({"paths": paths}))
}

/// `/openapi/v3/apis/batch/v1`
pub(crate) fn document(registry: &Registry, group: &str, version: &str) -> Result<Reply, ApiError> {
    let resources = of_version(registry, group, version);
    if resources.is_empty() {
        return Err(ApiError::no_such_page());
    }
    Ok(Reply::value(&make_document(&resources)))
}

fn group_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn fingerprint(document: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    document.to_string().hash(&mut hasher);
    hasher.finish()
}

fn make_document(resources: &[impl AsRef<Resource>]) -> Value {
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for resource in resources.iter().map(AsRef::as_ref) {
        add_root(resource, &mut schemas);
        add_paths(resource, &mut paths);
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.35.8"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn kind_of(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

/// The component of a kind, with the extension by which clients find it.
fn add_root(resource: &Resource, schemas: &mut Map<String, Value>) {
    let Shape::Object(object) = &resource.schema.shape else { return };
    let name = root_name(resource, object);
    let mut root = object_json(object, &resource.schema, schemas);
    for field in ["apiVersion", "kind"] {
        root["properties"][field] = json!({"type": "string"});
    }
    root["x-kubernetes-group-version-kind"] = json!([kind_of(resource)]);
    schemas.insert(name, root);
}

/// `io.k8s.api.batch.v1.Job` for built-in kinds; the reversed group for custom ones.
fn root_name(resource: &Resource, object: &ObjectShape) -> String {
    if object.name.is_empty() {
        let reversed: Vec<&str> = resource.group.split('.').rev().collect();
        return format!("{}.{}.{}", reversed.join("."), resource.version, resource.kind);
    }
    component_name(&object.name)
}

fn component_name(go_name: &str) -> String {
    let package = match go_name.split('.').next() {
        Some("meta") => "io.k8s.apimachinery.pkg.apis",
        Some("apiextensions") => "io.k8s.apiextensions-apiserver.pkg.apis",
        _ => "io.k8s.api",
    };
    format!("{package}.{go_name}")
}

fn add_paths(resource: &Resource, paths: &mut Map<String, Value>) {
    let base = format!("/{}", group_path(&resource.group, &resource.version));
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let kind = kind_of(resource);
    let validation = json!([{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]);
    let operation = |action: &str| json!({"x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind, "parameters": validation});
    let collection = format!("{base}{scope}/{}", resource.plural);
    paths.insert(collection.clone(), json!({"get": operation("list"), "post": operation("post")}));
    paths.insert(
        format!("{collection}/{{name}}"),
        json!({"get": operation("get"), "put": operation("put"), "patch": operation("patch"), "delete": operation("delete")}),
    );
}

/// A value: inline, or a reference to a component that is added on the way.
fn value_json(schema: &Schema, schemas: &mut Map<String, Value>) -> Value {
    match &schema.shape {
        Shape::Any => json!({"x-kubernetes-preserve-unknown-fields": true}),
        Shape::Scalar(scalar) => scalar_json(*scalar),
        Shape::Map { value, atomic } => {
            let mut body = json!({"type": "object", "additionalProperties": value_json(value, schemas)});
            if *atomic {
                body["x-kubernetes-map-type"] = "atomic".into();
            }
            body
        }
        Shape::List(list) => list_json(list, schemas),
        Shape::Object(object) if object.name.is_empty() => object_json(object, schema, schemas),
        Shape::Object(object) => {
            let name = component_name(&object.name);
            if !schemas.contains_key(&name) {
                // Placed first, so that the walk below does not come back to it.
                schemas.insert(name.clone(), Value::Null);
                let body = object_json(object, schema, schemas);
                schemas.insert(name.clone(), body);
            }
            json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]})
        }
    }
}

fn object_json(object: &ObjectShape, schema: &Schema, schemas: &mut Map<String, Value>) -> Value {
    let properties: Map<String, Value> = object
        .fields
        .iter()
        .map(|(name, Field { schema, .. })| {
            let mut property = value_json(schema, schemas);
            describe(&mut property, words::of_field(&object.name, name).or_else(|| schema.description()));
            (name.clone(), property)
        })
        .collect();
    let mut required: Vec<&str> =
        object.fields.iter().filter(|(_, field)| field.required).map(|(name, _)| name.as_str()).collect();
    if let Some(rules) = &schema.rules {
        required.extend(rules.required.iter().map(String::as_str));
    }
    let mut body = json!({"type": "object"});
    describe(&mut body, words::of_type(&object.name).or_else(|| schema.description()));
    if !properties.is_empty() {
        body["properties"] = Value::Object(properties);
    }
    if !required.is_empty() {
        body["required"] = required.into();
    }
    if object.preserve_unknown {
        body["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    if object.atomic {
        body["x-kubernetes-map-type"] = "atomic".into();
    }
    body
}

fn describe(body: &mut Value, text: Option<&str>) {
    if let Some(text) = text {
        body["description"] = text.into();
    }
}

fn list_json(list: &ListShape, schemas: &mut Map<String, Value>) -> Value {
    let mut body = json!({"type": "array", "items": value_json(&list.item, schemas)});
    match &list.kind {
        ListKind::Atomic => body["x-kubernetes-list-type"] = "atomic".into(),
        ListKind::Set => body["x-kubernetes-list-type"] = "set".into(),
        ListKind::Map(keys) => {
            body["x-kubernetes-list-type"] = "map".into();
            body["x-kubernetes-list-map-keys"] = keys.clone().into();
        }
    }
    if list.patch_merge {
        body["x-kubernetes-patch-strategy"] = "merge".into();
    }
    if let Some(key) = &list.merge_key {
        body["x-kubernetes-patch-merge-key"] = key.clone().into();
    }
    body
}

fn scalar_json(scalar: Scalar) -> Value {
    match scalar {
        Scalar::String => json!({"type": "string"}),
        Scalar::Bool => json!({"type": "boolean"}),
        Scalar::Int32 => json!({"type": "integer", "format": "int32"}),
        Scalar::Int64 => json!({"type": "integer", "format": "int64"}),
        Scalar::Number => json!({"type": "number", "format": "double"}),
        Scalar::Bytes => json!({"type": "string", "format": "byte"}),
        Scalar::Time | Scalar::MicroTime => json!({"type": "string", "format": "date-time"}),
        Scalar::Quantity | Scalar::IntOrString => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_of_batch_describes_a_job_down_to_its_containers() {
        let registry = Registry::built_in();
        let document = make_document(&of_version(&registry, "batch", "v1"));
        let schemas = &document["components"]["schemas"];
        let job = &schemas["io.k8s.api.batch.v1.Job"];
        assert_eq!(job["x-kubernetes-group-version-kind"][0]["kind"], "Job");
        let reference = job["properties"]["spec"]["allOf"][0]["$ref"].as_str().unwrap();
        assert_eq!(reference, "#/components/schemas/io.k8s.api.batch.v1.JobSpec");
        let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        assert!(schemas.as_object().unwrap().values().all(Value::is_object));
        let managed_by = &schemas["io.k8s.api.batch.v1.JobSpec"]["properties"]["managedBy"]["description"];
        assert!(managed_by.as_str().unwrap().starts_with("Who runs this Job"));
    }
}
