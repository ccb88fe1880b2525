//! The committed custom resource definitions are the ones that the types make. After a change of a type:
//! `BLESS=1 cargo test -p jobferry-api --test definitions`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what went wrong by panicking")]

use std::path::Path;

use serde_json::Value;

fn definitions() -> Vec<(String, Value)> {
    jobferry_api::custom_resource_definitions()
        .into_iter()
        .map(|definition| (definition.spec.names.plural.clone(), serde_json::to_value(definition).unwrap()))
        .collect()
}

#[test]
fn the_committed_definitions_are_up_to_date() {
    for (plural, definition) in definitions() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../manifests/crds/{plural}.yaml"));
        let generated = serde_saphyr::to_string(&definition).unwrap();
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &generated).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == generated,
            "manifests/crds/{plural}.yaml is not what the types say; see the top of this test"
        );
    }
}

/// Those of Rust's unsigned numbers are not among the formats that API servers know: newer ones warn of them.
#[test]
fn no_field_has_a_format_that_api_servers_do_not_know() {
    for (plural, definition) in definitions() {
        assert!(!definition.to_string().contains(r#""format":"uint"#), "{plural}: use #[schemars(with = \"i32\")]");
    }
}

/// `kubectl explain` prints these; a field without one leaves its reader alone.
#[test]
fn every_field_is_explained() {
    for (plural, definition) in definitions() {
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let whole = schema["description"].as_str().unwrap_or_default();
        assert!(!whole.starts_with("Auto-generated"), "{plural} itself has no description");
        explained(schema, &plural);
    }
}

fn explained(schema: &Value, path: &str) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        assert!(field["description"].is_string(), "{path}.{name} has no description");
        explained(field, &format!("{path}.{name}"));
    }
    if schema["items"].is_object() {
        explained(&schema["items"], &format!("{path}[]"));
    }
}
