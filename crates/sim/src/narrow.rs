//! The kinds that a simulated cluster's garbage collector is shown: those that own or are owned in these worlds. It would
//! watch forty, at half of the cost of a run.

use serde_json::{Value, json};

/// The answer to a discovery request. `mixed`: there are other kinds than Job.
pub(crate) fn discovery(path: &str, mixed: bool) -> Option<Value> {
    let verbs = json!(["delete", "list", "watch"]);
    let resource = |plural: &str, kind: &str| json!({"name": plural, "singularName": "", "namespaced": true, "kind": kind, "verbs": verbs});
    let list = |version: &str, resource: Value| json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [resource]});
    let group = |name: &str, version: &str| {
        let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
        json!({"name": name, "versions": [version], "preferredVersion": version})
    };
    match path {
        "/apis" => {
            let more = mixed.then(|| group("workloads.example.dev", "v1alpha1"));
            let groups: Vec<Value> = [group("batch", "v1")].into_iter().chain(more).collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        "/api/v1" => Some(list("v1", resource("pods", "Pod"))),
        "/apis/batch/v1" => Some(list("batch/v1", resource("jobs", "Job"))),
        "/apis/workloads.example.dev/v1alpha1" if mixed => {
            Some(list("workloads.example.dev/v1alpha1", resource("etlruns", "EtlRun")))
        }
        _ => None,
    }
}
