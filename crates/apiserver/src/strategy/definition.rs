//! CustomResourceDefinitions: names that fit together, at least one served version, exactly one stored.

use serde_json::{Value, json};

use crate::error::Cause;
use crate::metadata;

pub(super) fn create(object: &mut Value) -> Vec<Cause> {
    default(object);
    metadata::set(object, "generation", 1.into());
    establish(object);
    validate(object)
}

pub(super) fn update(new: &mut Value, old: &Value) -> Vec<Cause> {
    default(new);
    if new["spec"] != old["spec"] {
        metadata::bump_generation(new);
    }
    let mut causes = validate(new);
    for field in ["group", "scope"] {
        if new["spec"][field] != old["spec"][field] {
            causes.push(Cause::invalid(format!("spec.{field}"), &new["spec"][field], "field is immutable"));
        }
    }
    for field in ["plural", "kind"] {
        if new["spec"]["names"][field] != old["spec"]["names"][field] {
            let value = &new["spec"]["names"][field];
            causes.push(Cause::invalid(format!("spec.names.{field}"), value, "field is immutable"));
        }
    }
    causes
}

fn default(object: &mut Value) {
    let names = &mut object["spec"]["names"];
    let kind = names["kind"].as_str().unwrap_or_default().to_owned();
    if names["singular"].is_null() {
        names["singular"] = kind.to_lowercase().into();
    }
    if names["listKind"].is_null() && !kind.is_empty() {
        names["listKind"] = format!("{kind}List").into();
    }
    if object["spec"]["conversion"].is_null() {
        object["spec"]["conversion"] = json!({"strategy": "None"});
    }
}

/// Names are accepted and the resource is served from the first moment: there is no controller to wait for.
fn establish(object: &mut Value) {
    let since = object["metadata"]["creationTimestamp"].clone();
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since});
    let stored: Vec<Value> =
        versions(object).iter().filter(|v| v["storage"] == true).map(|v| v["name"].clone()).collect();
    object["status"] = json!({
        "acceptedNames": object["spec"]["names"],
        "storedVersions": stored,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    });
}

fn versions(object: &Value) -> &[Value] {
    object["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn validate(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &object["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    for (field, value) in [("group", &group), ("names.plural", &plural), ("names.kind", &text(&spec["names"]["kind"]))]
    {
        if value.is_empty() {
            causes.push(Cause::required(format!("spec.{field}"), ""));
        }
    }
    let expected = format!("{plural}.{group}");
    if metadata::text(object, "name") != expected {
        let told = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &object["metadata"]["name"], told));
    }
    if !matches!(spec["scope"].as_str(), Some("Cluster" | "Namespaced")) {
        let allowed = ["\"Cluster\"", "\"Namespaced\""].map(str::to_owned);
        causes.push(Cause::not_supported("spec.scope", &spec["scope"], &allowed));
    }
    let stored = versions(object).iter().filter(|version| version["storage"] == true).count();
    if stored != 1 {
        let told = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &spec["versions"], told));
    }
    if spec["conversion"]["strategy"] != "None" {
        let told = "this server converts between versions only by changing apiVersion (strategy None)";
        causes.push(Cause::invalid("spec.conversion.strategy", &spec["conversion"]["strategy"], told));
    }
    for (index, version) in versions(object).iter().enumerate() {
        let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
        if version["schema"]["openAPIV3Schema"].is_null() {
            causes.push(Cause::required(field, "schemas are required"));
        } else if let Err(why) = crate::crd::check_schema(&version["schema"]["openAPIV3Schema"]) {
            causes.push(Cause::invalid(format!("{field}{}", why.at), &Value::Null, &why.message));
        }
    }
    causes
}
