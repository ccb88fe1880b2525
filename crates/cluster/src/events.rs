//! Kubernetes events: what happened to an object, for people who ask `kubectl describe`.

use std::time::Duration;

use jobferry_kubeio as kubeio;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::json;

/// An event is a courtesy: it gets less time than a write that matters.
const DEADLINE: Duration = Duration::from_secs(5);

/// The object that an event is about.
#[derive(Debug, Clone)]
pub(crate) struct About<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

/// What happened.
#[derive(Debug, Clone)]
pub(crate) struct Happening<'a> {
    pub(crate) warning: bool,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// Tells it. A refused or lost event is logged and forgotten.
pub(crate) async fn tell(
    client: &Client,
    component: &str,
    about: About<'_>,
    what: Happening<'_>,
    now: Timestamp,
    random: u64,
) {
    let About { api_version, kind, namespace, name, uid } = about;
    // Names of events are free; the number keeps two of one object apart.
    let event_name = format!("{}.{random:016x}", name.chars().take(200).collect::<String>());
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": event_name, "namespace": namespace},
        "involvedObject": {"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name, "uid": uid},
        "type": if what.warning { "Warning" } else { "Normal" },
        "reason": what.reason,
        "message": what.message.chars().take(1024).collect::<String>(),
        "source": {"component": component}, "reportingComponent": component, "reportingInstance": "",
        "firstTimestamp": seconds(now), "lastTimestamp": seconds(now), "count": 1,
    });
    let path = format!("/api/v1/namespaces/{namespace}/events");
    if let Err(error) = kubeio::create(client, &path, event.to_string().into_bytes(), DEADLINE).await {
        tracing::debug!(namespace, name, reason = what.reason, %error, "an event could not be told");
    }
}

/// A time as the API server stores it.
pub(crate) fn seconds(time: Timestamp) -> String {
    job_api::conditions::whole_seconds(time).to_string()
}
