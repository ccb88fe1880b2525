//! Does this cluster leave delegated Jobs alone? A canary tells before any work is at stake.
//!
//! The canary is a suspended Job with a `managedBy` of its own, which nobody serves. A server that is too old drops the
//! field; a Job controller that is too old (an API server may be newer than its controller-manager for a while, in every
//! upgrade) acts on the Job all the same. Either way delegated Jobs would run here *and* on a worker: nothing is placed
//! until it is over.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use jobferry_api::{events as reasons, managed_by};
use jobferry_core::time::WRITE_DEADLINE;
use jobferry_kubeio::{
    self as kubeio, Collection, Event,
    events::{Happening, Severity},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Shared, events::about_job, paths};

/// The canary's name, in our own namespace.
const NAME: &str = "jobferry-canary";
/// After a failure to create the canary. It is not urgent: without one we know as little as before.
const CREATE_AGAIN: Duration = Duration::from_secs(30);

/// The canary, as far as it tells something.
#[derive(Debug, Deserialize)]
struct Canary {
    metadata: Meta,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    uid: String,
    resource_version: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    managed_by: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Vec<Value>,
    start_time: Option<String>,
}

/// What the canary tells: `Some` is why nothing may be placed.
fn verdict(canary: &Canary) -> Option<&'static str> {
    if canary.spec.managed_by.as_deref() != Some(managed_by::CANARY) {
        return Some(
            "the API server drops spec.managedBy, so Jobs would run here as well; Kubernetes 1.32 or newer is needed",
        );
    }
    let touched = !canary.status.conditions.is_empty() || canary.status.start_time.is_some();
    touched.then_some(
        "a Job controller of this cluster acts on Jobs that are delegated by spec.managedBy, so they would run here as \
         well; upgrade kube-controller-manager to the API server's version, then delete the Job jobferry-canary",
    )
}

/// Keeps a canary in `namespace` and watches it for ever.
pub(crate) async fn keep(shared: Arc<Shared>, namespace: String) {
    let canaries = Collection::new(paths::jobs(&namespace), |canary: &Canary| &canary.metadata.resource_version)
        .fields(format!("metadata.name={NAME}"))
        .seed(shared.options.seed);
    let mut events = std::pin::pin!(kubeio::watch(shared.manager.clone(), canaries));
    let mut halted = None;
    while let Some(event) = events.next().await {
        let canary = match event {
            Event::Reset(canaries) => canaries.into_iter().next(),
            Event::Applied(canary) => Some(canary),
            Event::Deleted(_) => None,
            Event::Interrupted(_) | Event::Resumed => continue,
        };
        let Some(canary) = canary else {
            create(&shared, &namespace).await;
            continue;
        };
        let why = verdict(&canary);
        if std::mem::replace(&mut halted, why) != why {
            heed(&shared, &namespace, &canary, why);
        }
    }
}

async fn create(shared: &Shared, namespace: &str) {
    let canary = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": NAME, "namespace": namespace, "annotations": {
            "kubernetes.io/description": "Shows Jobferry whether this cluster leaves delegated Jobs alone. It never runs.",
        }},
        "spec": {
            "managedBy": managed_by::CANARY, "suspend": true,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "canary", "image": "none"}]}},
        },
    });
    let (path, body) = (paths::jobs(namespace), canary.to_string().into_bytes());
    loop {
        match kubeio::create(&shared.manager, &path, body.clone(), WRITE_DEADLINE).await {
            Ok(_) => return,
            Err(error) if error.is_already_exists() => return,
            Err(error) => tracing::warn!(namespace, %error, "the canary cannot be created"),
        }
        tokio::time::sleep(CREATE_AGAIN).await;
    }
}

fn heed(shared: &Shared, namespace: &str, canary: &Canary, why: Option<&'static str>) {
    match why {
        None => tracing::info!("delegated Jobs are left alone again: placing goes on"),
        Some(why) => {
            tracing::error!(why, "placing is halted; what runs goes on");
            let reason = reasons::DELEGATION_BROKEN.into();
            let happening = Happening { severity: Severity::Warning, reason, message: why.into() };
            shared.recorder.tell(about_job(namespace, NAME, &canary.metadata.uid), happening);
        }
    }
    shared.lanes.plan_all(shared.index.halt(why.map(str::to_owned)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_on(spec: &Value, status: &Value) -> Option<&'static str> {
        let canary = json!({"metadata": {"uid": "c", "resourceVersion": "1"}, "spec": spec, "status": status});
        verdict(&serde_json::from_value(canary).unwrap())
    }

    #[test]
    fn a_canary_that_nobody_touches_lets_work_be_placed() {
        assert_eq!(verdict_on(&json!({"managedBy": "jobferry.dev/canary"}), &json!({})), None);
    }

    #[test]
    fn a_canary_that_lost_its_mark_or_was_acted_on_halts_placing() {
        for (spec, status, word) in [
            (json!({}), json!({}), "drops spec.managedBy"),
            (json!({"managedBy": "kubernetes.io/job-controller"}), json!({}), "drops spec.managedBy"),
            (
                json!({"managedBy": "jobferry.dev/canary"}),
                json!({"conditions": [{"type": "Suspended", "status": "True"}]}),
                "acts on Jobs",
            ),
            (json!({"managedBy": "jobferry.dev/canary"}), json!({"startTime": "2026-01-01T00:00:00Z"}), "acts on Jobs"),
        ] {
            let why = verdict_on(&spec, &status).unwrap_or_default();
            assert!(why.contains(word), "{spec}: {why}");
        }
    }
}
