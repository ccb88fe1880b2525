//! The custom resources, field by field, from their schemas.

use std::fmt::Write as _;

use serde_json::Value;

use super::{cell, opening};

pub(super) fn page() -> String {
    let about = "The custom resources of the management cluster; all are cluster-scoped. `jobferry crds` prints their \
                 definitions, and `kubectl explain` knows them.";
    let mut text = opening("Custom resources", about);
    for definition in jobferry_api::custom_resource_definitions() {
        let kind = definition.spec.names.kind.clone();
        for version in definition.spec.versions {
            let schema = version.schema.and_then(|schema| schema.open_api_v3_schema);
            let schema = serde_json::to_value(schema).unwrap();
            let group = &definition.spec.group;
            let _ = write!(text, "\n## {kind} ({group}/{})\n\n{}\n", version.name, words(&schema));
            text.push_str("\n| field | type | |\n| --- | --- | --- |\n");
            for part in ["spec", "status"] {
                fields(part, &schema["properties"][part], &mut text);
            }
            for rule in rules(&schema) {
                let _ = write!(text, "\nRule: {rule}.\n");
            }
        }
    }
    text
}

fn words(schema: &Value) -> String {
    cell(schema["description"].as_str().unwrap_or_default())
}

fn fields(path: &str, schema: &Value, text: &mut String) {
    let required = |name: &str| {
        let required = schema["required"].as_array().into_iter().flatten();
        if required.into_iter().any(|one| one == name) { ", required" } else { "" }
    };
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let _ = writeln!(text, "| `{path}` | {}{} | {} |", type_of(inner), required(name), words(inner));
        // Conditions and selectors are Kubernetes' own types.
        if inner["type"] == "array" && name != "conditions" {
            fields(&format!("{path}[]"), &inner["items"], text);
        } else if inner["properties"]["matchLabels"].is_null() {
            fields(&path, inner, text);
        }
    }
}

fn type_of(schema: &Value) -> String {
    let name = schema["type"].as_str().unwrap_or("any");
    let choices: Vec<&str> = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match name {
        _ if !choices.is_empty() => format!("one of {}", choices.join(", ")),
        "array" => format!("list of {}", type_of(&schema["items"])),
        "object" if !schema["properties"]["matchLabels"].is_null() => "label selector".to_owned(),
        "string" if schema["format"] == "date-time" => "time".to_owned(),
        name => name.to_owned(),
    }
}

/// What the API server checks beyond types, wherever it stands in the schema.
fn rules(schema: &Value) -> Vec<String> {
    let own = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    let own = own.filter_map(|rule| rule["message"].as_str().map(str::to_owned));
    let inner = schema["properties"].as_object().into_iter().flatten().flat_map(|(_, inner)| rules(inner));
    own.chain(inner).collect()
}
