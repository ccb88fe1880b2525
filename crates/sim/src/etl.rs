//! A kind of a user's own beside Jobs, `EtlRun`: its definition, the rules that the dispatcher knows it by, and the operator
//! that runs it. An object of it is one pod that runs to its end.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt, stream};
use jobferry_api::managed_by;
use jobferry_kubeio::{self as kubeio, Collection, Event, Patch};
use jobferry_testkit::{EXIT_CODE, RUN_SECONDS};
use kube::Client;
use serde_json::{Value, json};

use crate::actors::{self, JOBS};
use crate::dice::Dice;

/// Where objects of the kind are.
const ETL_RUNS: &str = "/apis/workloads.example.dev/v1alpha1/namespaces/default/etlruns";
/// What the kind's own operator is called in `managedBy`.
pub(crate) const OPERATOR: &str = "workloads.example.dev/etl-operator";
/// The kind's group and version.
pub(crate) const GROUP: &str = "/apis/workloads.example.dev/v1alpha1";
/// All objects of the kind.
pub(crate) const EVERYWHERE: &str = "/apis/workloads.example.dev/v1alpha1/etlruns";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Names tell the kinds apart, in logs as well.
const PREFIX: &str = "etl-";

/// The name of the EtlRun with this number.
pub(crate) fn name(number: u64) -> String {
    format!("{PREFIX}{number}")
}

/// Where workloads of the kind that this name belongs to are.
pub(crate) fn collection_of(name: &str) -> &'static str {
    if name.starts_with(PREFIX) { ETL_RUNS } else { JOBS }
}

/// Where the workload of this name is.
pub(crate) fn path_of(name: &str) -> String {
    format!("{}/{name}", collection_of(name))
}

/// The change that suspends a workload, or resumes it.
pub(crate) fn suspend(name: &str, suspend: bool) -> Value {
    match collection_of(name) {
        ETL_RUNS => json!({"spec": {"control": {"paused": suspend}}}),
        _ => json!({"spec": {"suspend": suspend}}),
    }
}

/// Installs the definition.
pub(crate) async fn install(admin: &Client) {
    let text = json!({"type": "string"});
    let control = json!({"type": "object", "properties": {
        "managedBy": text, "paused": {"type": "boolean", "default": false}, "keepSeconds": {"type": "integer"},
    }});
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let spec = json!({"type": "object", "properties": {"control": control, "stages": open}});
    // What is not in here is dropped: the dispatcher must not take that for a change.
    let status = json!({"type": "object", "properties": {"phase": text, "observedGeneration": {"type": "integer"}}});
    let version = json!({
        "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
    });
    let names = json!({"kind": "EtlRun", "listKind": "EtlRunList", "plural": "etlruns", "singular": "etlrun"});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "etlruns.workloads.example.dev"},
        "spec": {"group": "workloads.example.dev", "scope": "Namespaced", "names": names, "versions": [version]},
    });
    let _ = actors::create(admin, DEFINITIONS, &definition).await;
}

/// What the dispatcher must know of the kind.
pub(crate) fn rules() -> Value {
    let ends =
        |outcome: &str, phase: &str| json!({"outcome": outcome, "when": [{"path": "status.phase", "is": [phase]}]});
    json!({
        "apiVersion": "jobferry.dev/v1alpha1", "kind": "WorkloadKind", "metadata": {"name": "etlruns.workloads.example.dev"},
        "spec": {
            "group": "workloads.example.dev", "version": "v1alpha1", "kind": "EtlRun", "plural": "etlruns",
            "managedBy": {"path": "spec.control.managedBy", "operator": OPERATOR, "guard": "Everything"},
            "suspended": {"path": "spec.control.paused", "is": ["true"]},
            "finished": [ends("Succeeded", "Done"), ends("Failed", "Broken")],
            "ttl": [{"path": "spec.control.keepSeconds"}],
            "podTemplates": ["spec.stages.*.template"],
            "forward": [{"path": "spec.control.paused"}],
        },
    })
}

/// An EtlRun of some shape.
pub(crate) fn etl_run(name: &str, suspended: bool, dice: &mut Dice) -> Value {
    let mut script = json!({ RUN_SECONDS: dice.pick(&[0, 1, 5, 20, 60, 200]).to_string() });
    if dice.per_mille(250) {
        script[EXIT_CODE] = "1".into();
    }
    let mut run = object(name, &script, suspended);
    run["spec"]["control"]["managedBy"] = managed_by::DISPATCHER.into();
    if dice.per_mille(150) {
        run["spec"]["control"]["keepSeconds"] = dice.pick(&[0, 5, 60, 600]).into();
    }
    run
}

/// An object of somebody else's that has this name on a worker.
pub(crate) fn squatter(name: &str) -> Value {
    object(name, &json!({}), true)
}

fn object(name: &str, script: &Value, paused: bool) -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]});
    let template = json!({"metadata": {"annotations": script}, "spec": pod});
    json!({"apiVersion": "workloads.example.dev/v1alpha1", "kind": "EtlRun", "metadata": {"name": name, "namespace": "default"},
           "spec": {"control": {"paused": paused}, "stages": {"main": {"template": template}}}})
}

/// The operator: runs what is its own, for ever.
pub(crate) async fn operate(client: Client) {
    let watch = |path: &str| kubeio::watch(client.clone(), Collection::new(path, version));
    let runs = watch(EVERYWHERE).map(|event| (true, event));
    let pods = watch("/api/v1/pods").map(|event| (false, event));
    let mut events = pin!(stream::select(runs, pods));
    let mut cache = Cache::default();
    while let Some((is_run, event)) = events.next().await {
        cache.take_over(is_run, event);
        for run in cache.runs.values() {
            let pod =
                cache.pods.values().find(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == run["metadata"]["uid"]);
            run_or_hold(&client, run, pod).await;
        }
    }
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

#[derive(Default)]
struct Cache {
    runs: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
}

impl Cache {
    fn take_over(&mut self, is_run: bool, event: Event<Value>) {
        let objects = if is_run { &mut self.runs } else { &mut self.pods };
        let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        match event {
            Event::Reset(all) => *objects = all.into_iter().map(|object| (uid(&object), object)).collect(),
            Event::Applied(object) => drop(objects.insert(uid(&object), object)),
            Event::Deleted(object) => drop(objects.remove(&uid(&object))),
            Event::Interrupted(_) | Event::Resumed => {}
        }
    }
}

/// One step towards what an EtlRun asks for.
async fn run_or_hold(client: &Client, run: &Value, pod: Option<&Value>) {
    let (meta, control) = (&run["metadata"], &run["spec"]["control"]);
    let is_ours = control["managedBy"].as_str().is_none_or(|name| name == OPERATOR);
    let has_ended = ["Done", "Broken"].iter().any(|phase| run["status"]["phase"] == *phase);
    if !is_ours || has_ended || meta["deletionTimestamp"].is_string() {
        return;
    }
    let ended = pod.and_then(|pod| match pod["status"]["phase"].as_str()? {
        "Succeeded" => Some("Done"),
        "Failed" => Some("Broken"),
        _ => None,
    });
    let phase = match (ended, pod, control["paused"] == true) {
        (Some(_), Some(pod), _) if pod["metadata"]["deletionTimestamp"].is_string() => "Queued",
        (Some(phase), ..) => phase,
        (None, Some(pod), true) => {
            let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap_or_default());
            actors::delete(client, &path, "Background").await;
            "Queued"
        }
        (None, None, true) => "Queued",
        (None, Some(_), false) => "Running",
        (None, None, false) => {
            let _ = actors::create(client, PODS, &pod_of(run)).await;
            "Running"
        }
    };
    if run["status"]["phase"] != phase {
        let path = format!("{}/status", path_of(meta["name"].as_str().unwrap_or_default()));
        let body = json!({"metadata": {"uid": meta["uid"]},
                          "status": {"phase": phase, "observedGeneration": meta["generation"]}});
        let _ = kubeio::patch(client, &path, Patch::Merge, body.to_string().into_bytes(), ANSWER_WITHIN).await;
    }
}

/// The pod of an EtlRun. It has another name after every pause; two looks at the same state make the same pod.
fn pod_of(run: &Value) -> Value {
    let meta = &run["metadata"];
    let name = meta["name"].as_str().unwrap_or_default();
    let mut pod = run["spec"]["stages"]["main"]["template"].clone();
    pod["metadata"]["name"] = format!("{name}-{}", meta["generation"]).into();
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "workloads.example.dev/v1alpha1", "kind": "EtlRun", "name": name, "uid": meta["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    (pod["apiVersion"], pod["kind"]) = ("v1".into(), "Pod".into());
    pod
}
