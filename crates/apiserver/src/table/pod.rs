//! Pods in a table.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::duration::since;
use super::{Column, age, name, or_none, text};

pub(super) fn columns() -> Vec<Column> {
    vec![
        Column::new("Name", name),
        Column::new("Ready", |pod, _| {
            let ready = list(&pod["status"]["containerStatuses"]).iter().filter(|status| is_running(status)).count();
            format!("{ready}/{}", list(&pod["spec"]["containers"]).len()).into()
        }),
        Column::new("Status", |pod, _| status(pod).into()),
        Column::new("Restarts", restarts),
        Column::new("Age", age),
        Column::wide("IP", |pod, _| or_none(&pod["status"]["podIPs"][0]["ip"])),
        Column::wide("Node", |pod, _| or_none(&pod["spec"]["nodeName"])),
        Column::wide("Nominated Node", |pod, _| or_none(&pod["status"]["nominatedNodeName"])),
        Column::wide("Readiness Gates", |_, _| "<none>".into()),
    ]
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn is_running(status: &Value) -> bool {
    status["ready"] == true && !status["state"]["running"].is_null()
}

/// One word for the whole pod: the most telling state of its containers.
fn status(pod: &Value) -> String {
    let phase = text(&pod["status"]["phase"]);
    let ended = matches!(phase, "Succeeded" | "Failed");
    if !pod["metadata"]["deletionTimestamp"].is_null() && !ended {
        return "Terminating".into();
    }
    if let Some(word) = initializing(pod) {
        return word;
    }
    let mut word = match text(&pod["status"]["reason"]) {
        "" => phase.to_owned(),
        reason => reason.to_owned(),
    };
    if list(&pod["status"]["conditions"])
        .iter()
        .any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated")
    {
        word = "SchedulingGated".into();
    }
    let statuses = list(&pod["status"]["containerStatuses"]);
    let mut failure = None;
    for status in statuses.iter().rev() {
        let waiting = text(&status["state"]["waiting"]["reason"]);
        let terminated = &status["state"]["terminated"];
        if !waiting.is_empty() {
            waiting.clone_into(&mut word);
        } else if !terminated.is_null() {
            word = ended_word(terminated);
            if terminated["exitCode"].as_i64() != Some(0) {
                failure = Some(word.clone());
            }
        }
    }
    if word == "Completed" {
        let is_ready = list(&pod["status"]["conditions"])
            .iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        match (statuses.iter().any(is_running), failure) {
            (true, _) if is_ready => word = "Running".into(),
            (_, Some(failure)) => word = failure,
            (true, None) => word = "NotReady".into(),
            (false, None) => {}
        }
    }
    word
}

fn ended_word(terminated: &Value) -> String {
    match (text(&terminated["reason"]), terminated["signal"].as_i64().unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// What an init container that is not through says about the pod.
fn initializing(pod: &Value) -> Option<String> {
    let done = list(&pod["status"]["conditions"])
        .iter()
        .any(|condition| condition["type"] == "Initialized" && condition["status"] == "True");
    if done {
        return None;
    }
    let total = list(&pod["spec"]["initContainers"]).len();
    let statuses = list(&pod["status"]["initContainerStatuses"]);
    let (index, status) = statuses
        .iter()
        .enumerate()
        .find(|(_, status)| status["state"]["terminated"]["exitCode"].as_i64() != Some(0))?;
    let terminated = &status["state"]["terminated"];
    Some(match text(&status["state"]["waiting"]["reason"]) {
        _ if !terminated.is_null() => format!("Init:{}", ended_word(terminated)),
        "" | "PodInitializing" => format!("Init:{index}/{total}"),
        reason => format!("Init:{reason}"),
    })
}

fn restarts(pod: &Value, now: Timestamp) -> Value {
    let statuses = list(&pod["status"]["containerStatuses"]);
    let count: i64 = statuses.iter().filter_map(|status| status["restartCount"].as_i64()).sum();
    let last = statuses.iter().filter_map(|status| status["lastState"]["terminated"]["finishedAt"].as_str()).max();
    match last.and_then(|last| since(&last.into(), now)) {
        Some(ago) if count > 0 => format!("{count} ({ago} ago)").into(),
        _ => count.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_word_tells_the_most_important_thing() {
        let pod = |status: Value| json!({"metadata": {}, "spec": {"containers": [{}], "initContainers": [{}, {}]}, "status": status});
        let container = |state: Value| json!({"phase": "Running", "containerStatuses": [{"state": state}]});
        let cases = [
            (json!({"phase": "Pending"}), "Pending"),
            (container(json!({"waiting": {"reason": "ImagePullBackOff"}})), "ImagePullBackOff"),
            (container(json!({"terminated": {"exitCode": 0, "reason": "Completed"}})), "Completed"),
            (container(json!({"terminated": {"exitCode": 3}})), "ExitCode:3"),
            (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"state": {"terminated": {"exitCode": 0}}}, {"state": {"running": {}}}]}),
                "Init:1/2",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}),
                "Init:Error",
            ),
        ];
        for (given, expected) in cases {
            assert_eq!(status(&pod(given.clone())), expected, "{given}");
        }
    }
}
