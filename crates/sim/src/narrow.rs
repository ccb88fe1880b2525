//! The kinds that a simulated cluster's garbage collector is shown: those that own or are owned in these worlds. It would
//! watch forty, at half of the cost of a run.

use serde_json::{Value, json};

/// The answer to a discovery request.
pub(crate) fn discovery(path: &str) -> Option<Value> {
    let verbs = json!(["delete", "list", "watch"]);
    let resource = |plural: &str, kind: &str| json!({"name": plural, "singularName": "", "namespaced": true, "kind": kind, "verbs": verbs});
    let list = |version: &str, resources: Value| json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources});
    match path {
        "/apis" => {
            let version = json!({"groupVersion": "batch/v1", "version": "v1"});
            let batch = json!({"name": "batch", "versions": [version], "preferredVersion": version});
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [batch]}))
        }
        "/api/v1" => Some(list("v1", json!([resource("pods", "Pod")]))),
        "/apis/batch/v1" => Some(list("batch/v1", json!([resource("jobs", "Job")]))),
        _ => None,
    }
}
