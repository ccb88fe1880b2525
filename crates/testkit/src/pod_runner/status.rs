//! The statuses that a kubelet would write.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// The time in the form of the API: whole seconds.
#[allow(clippy::disallowed_methods, reason = "a node lives in real time; real servers compare with their own clocks")]
pub(super) fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// All containers run and are ready.
pub(super) fn running(pod: &Pod, since: &str) -> Value {
    json!({
        "phase": "Running",
        "hostIP": "127.0.0.1",
        "startTime": since,
        "conditions": [
            condition("Initialized", true, since),
            condition("ContainersReady", true, since),
            condition("Ready", true, since),
        ],
        "containerStatuses": containers(pod, true, &json!({"running": {"startedAt": since}})),
    })
}

/// All containers have ended with `exit_code`.
pub(super) fn ended(pod: &Pod, started_at: &str, exit_code: i32) -> Value {
    let finished_at = now();
    let (phase, reason) = if exit_code == 0 { ("Succeeded", "Completed") } else { ("Failed", "Error") };
    let terminated =
        json!({"exitCode": exit_code, "reason": reason, "startedAt": started_at, "finishedAt": &finished_at});
    json!({
        "phase": phase,
        "conditions": [
            condition("ContainersReady", false, &finished_at),
            condition("Ready", false, &finished_at),
        ],
        // `running` is named so that a strategic merge takes the earlier state away.
        "containerStatuses": containers(pod, false, &json!({"running": null, "terminated": terminated})),
    })
}

fn condition(kind: &str, holds: bool, since: &str) -> Value {
    json!({"type": kind, "status": if holds { "True" } else { "False" }, "lastTransitionTime": since})
}

fn containers(pod: &Pod, ready: bool, state: &Value) -> Vec<Value> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let status = containers.map(|container| {
        json!({
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "restartCount": 0,
            "ready": ready,
            "started": ready,
            "state": state,
        })
    });
    status.collect()
}
