//! The pods of a Job: which they are, which of their containers have something to say, and what keeps the others.

use std::pin::pin;

use futures::StreamExt;
use jobferry_api::labels;
use jobferry_kubeio::{self as kubeio, CallError, Collection, Event};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ContainerStatus, Pod, PodStatus},
};
use kube::Client;

use crate::job::is_dispatched;

/// Every pod passes through these: no news for anybody.
const ON_ITS_WAY: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// A container that was never a process has no log.
const NEVER_RAN: [&str; 3] = ["StartError", "ContainerCannotRun", "ContainerStatusUnknown"];

/// The pods of exactly this Job: an earlier one of its name may have left some.
pub(super) fn of(namespace: &str, job: &Job) -> Collection<Pod> {
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let label = if is_dispatched(job) { labels::ORIGIN_UID } else { "batch.kubernetes.io/controller-uid" };
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let pods = Collection::new(path, |pod: &Pod| pod.metadata.resource_version.as_deref().unwrap_or_default());
    pods.labels(format!("{label}={uid}"))
}

/// Those that are there now, in the order of their creation.
pub(super) async fn list(cluster: &Client, namespace: &str, job: &Job) -> Result<Vec<Pod>, CallError> {
    let mut events = pin!(kubeio::watch(cluster.clone(), of(namespace, job)));
    let mut pods = match events.next().await {
        Some(Event::Reset(pods)) => pods,
        Some(Event::Interrupted(error)) => return Err(error),
        _ => Vec::new(),
    };
    let age_and_name = |pod: &Pod| (pod.metadata.creation_timestamp.clone(), pod.metadata.name.clone());
    pods.sort_by_key(age_and_name);
    Ok(pods)
}

/// One run of a container that has a log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) pod: String,
    pub(super) container: String,
    /// Counts the runs of a container within its pod.
    pub(super) restarts: i32,
}

/// The current runs of a pod's containers that have a log.
pub(super) fn runs(pod: &Pod) -> Vec<Run> {
    let run = |status: &ContainerStatus| Run {
        pod: name_of(pod),
        container: status.name.clone(),
        restarts: status.restart_count,
    };
    containers(pod).into_iter().filter(|status| has_log(status)).map(run).collect()
}

/// Where a run of a container stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Running,
    Ended,
    /// The container runs again: the log of this run is that of its previous one.
    Replaced,
    /// The pod, or this run, is not there any more.
    Gone,
}

/// Where this run of one of the pod's containers stands.
pub(super) fn stage(pod: &Pod, run: &Run) -> Stage {
    let Some(status) = containers(pod).into_iter().find(|status| status.name == run.container) else {
        return Stage::Gone;
    };
    let ended = status.state.as_ref().is_some_and(|state| state.terminated.is_some());
    match status.restart_count - run.restarts {
        0 if ended => Stage::Ended,
        0 => Stage::Running,
        1 => Stage::Replaced,
        _ => Stage::Gone,
    }
}

fn containers(pod: &Pod) -> Vec<&ContainerStatus> {
    let Some(status) = &pod.status else { return Vec::new() };
    let lists = [&status.init_container_statuses, &status.container_statuses];
    lists.into_iter().flatten().flatten().collect()
}

fn has_log(status: &ContainerStatus) -> bool {
    let Some(state) = &status.state else { return false };
    let reason = state.terminated.as_ref().map(|ended| ended.reason.as_deref().unwrap_or_default());
    state.running.is_some() || reason.is_some_and(|reason| !NEVER_RAN.contains(&reason))
}

/// What keeps a pod from having logs, in the cluster's words.
pub(super) fn troubles(pod: &Pod) -> Vec<String> {
    let name = name_of(pod);
    let of_pod = pod.status.as_ref().and_then(of_pod).map(|words| format!("pod {name}: {words}"));
    let of_containers = containers(pod).into_iter().filter_map(|status| {
        of_container(status).map(|words| format!("pod {name}, container {}: {words}", status.name))
    });
    of_pod.into_iter().chain(of_containers).collect()
}

fn of_pod(status: &PodStatus) -> Option<String> {
    let unscheduled = status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled" && c.status == "False");
    match (unscheduled, &status.reason) {
        (Some(condition), _) => Some(words(condition.reason.as_deref(), condition.message.as_deref())),
        (None, Some(reason)) => Some(words(Some(reason), status.message.as_deref())),
        (None, None) => None,
    }
}

fn of_container(status: &ContainerStatus) -> Option<String> {
    let state = status.state.as_ref()?;
    let (reason, message) = match (&state.waiting, &state.terminated) {
        (Some(waiting), _) => (waiting.reason.as_deref()?, waiting.message.as_deref()),
        (None, Some(ended)) => (ended.reason.as_deref()?, ended.message.as_deref()),
        (None, None) => return None,
    };
    let is_news = if state.waiting.is_some() { !ON_ITS_WAY.contains(&reason) } else { NEVER_RAN.contains(&reason) };
    is_news.then(|| words(Some(reason), message))
}

fn words(reason: Option<&str>, message: Option<&str>) -> String {
    [reason, message].into_iter().flatten().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(": ")
}

fn name_of(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(state: &Value, rest: &Value) -> Pod {
        let container =
            json!({"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 2, "state": state});
        let mut status = json!({"containerStatuses": [container]});
        for (field, value) in rest.as_object().into_iter().flatten() {
            status[field] = value.clone();
        }
        serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap()
    }

    #[test]
    fn a_container_has_a_log_once_it_was_a_process() {
        for (state, has_log) in [
            (json!({"waiting": {"reason": "ContainerCreating"}}), false),
            (json!({"running": {}}), true),
            (json!({"terminated": {"exitCode": 1, "reason": "Error"}}), true),
            (json!({"terminated": {"exitCode": 128, "reason": "StartError"}}), false),
        ] {
            let expected = Run { pod: "p".into(), container: "main".into(), restarts: 2 };
            let expected: Vec<Run> = has_log.then_some(expected).into_iter().collect();
            assert_eq!(runs(&pod(&state, &json!({}))), expected, "{state}");
        }
    }

    #[test]
    fn a_run_stands_where_its_container_does() {
        let (running, ended) = (json!({"running": {}}), json!({"terminated": {"exitCode": 0}}));
        for (state, restarts, expected) in [
            (&running, 2, Stage::Running),
            (&ended, 2, Stage::Ended),
            (&running, 1, Stage::Replaced),
            (&ended, 0, Stage::Gone),
        ] {
            let run = Run { pod: "p".into(), container: "main".into(), restarts };
            assert_eq!(stage(&pod(state, &json!({})), &run), expected, "{state} {restarts}");
        }
        let other = Run { pod: "p".into(), container: "other".into(), restarts: 2 };
        assert_eq!(stage(&pod(&running, &json!({})), &other), Stage::Gone);
    }

    #[test]
    fn what_keeps_a_pod_is_told_in_the_clusters_words() {
        let unscheduled = json!({"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node fits"}]});
        let restarted = json!({"reason": "NodeRestarted", "message": "m"});
        for (state, rest, told) in [
            (json!({"waiting": {"reason": "ContainerCreating"}}), json!({}), vec![]),
            (json!({"running": {}}), json!({}), vec![]),
            (
                json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}),
                json!({}),
                vec!["pod p, container main: ImagePullBackOff: no such image"],
            ),
            (
                json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": "not found"}}),
                json!({}),
                vec!["pod p, container main: StartError: not found"],
            ),
            (json!({}), unscheduled, vec!["pod p: Unschedulable: no node fits"]),
            (json!({}), restarted, vec!["pod p: NodeRestarted: m"]),
        ] {
            assert_eq!(troubles(&pod(&state, &rest)), told, "{state}");
        }
    }
}
