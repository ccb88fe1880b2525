//! Does this cluster leave delegated Jobs alone? A canary tells before any work is at stake.
//!
//! The canary is a suspended Job with a `managedBy` of its own, which nobody serves. A server that is too old drops the
//! field; a Job controller that is too old (an API server may be newer than its controller-manager for a while, in every
//! upgrade) acts on the Job all the same. Either way delegated Jobs would run here *and* on a worker: nothing is placed
//! until it is over.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use jobferry_api::{events as reasons, managed_by};
use jobferry_core::{knowledge::Halt, time::WRITE_DEADLINE};
use jobferry_kubeio::{
    self as kubeio, CallError, Collection, Event,
    events::{Happening, Severity},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Shared, events::about_job, paths};

/// The canary's name, in our own namespace.
const NAME: &str = "jobferry-canary";
/// After a failure to create the canary. Nothing is placed without one.
const CREATE_AGAIN: Duration = Duration::from_secs(10);
/// A Job controller acts on a new Job within milliseconds; one that is busy gets a little longer.
const TIME_TO_ACT: Duration = Duration::from_secs(3);

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

/// Keeps a canary in `namespace` and watches it for ever. Nothing is placed before it has told something.
pub(crate) async fn keep(shared: Arc<Shared>, namespace: String) {
    let canaries = Collection::new(paths::jobs(&namespace), |canary: &Canary| &canary.metadata.resource_version)
        .fields(format!("metadata.name={NAME}"))
        .seed(shared.options.seed);
    let mut events = std::pin::pin!(kubeio::watch(shared.manager.clone(), canaries));
    let mut judged = None;
    while let Some(event) = events.next().await {
        let canary = match event {
            Event::Reset(canaries) => canaries.into_iter().next(),
            Event::Applied(canary) => Some(canary),
            Event::Deleted(_) => None,
            Event::Interrupted(_) | Event::Resumed => continue,
        };
        let canary = match canary {
            Some(canary) => canary,
            None => hatch(&shared, &namespace).await,
        };
        let verdict = Verdict { uid: canary.metadata.uid.clone(), why: verdict(&canary) };
        if judged.as_ref().is_none_or(|before| verdict.is_news_after(before)) {
            heed(&shared, &namespace, &verdict);
            judged = Some(verdict);
        }
    }
}

/// What a canary has told.
#[derive(PartialEq, Eq)]
struct Verdict {
    uid: String,
    why: Option<&'static str>,
}

impl Verdict {
    /// A canary that was acted on does not get well again: another one must be hatched.
    fn is_news_after(&self, before: &Self) -> bool {
        self != before && (self.uid != before.uid || before.why.is_none())
    }
}

/// Creates a canary, and looks at it after it had the time to be acted on.
async fn hatch(shared: &Shared, namespace: &str) -> Canary {
    let body = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": NAME, "namespace": namespace, "annotations": {
            "kubernetes.io/description": "Shows Jobferry whether this cluster leaves delegated Jobs alone. It never runs.",
        }},
        "spec": {
            "managedBy": managed_by::CANARY, "suspend": true,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "canary", "image": "none"}]}},
        },
    });
    loop {
        match try_to_hatch(shared, namespace, body.to_string().into_bytes()).await {
            Ok(canary) => return canary,
            Err(error) => {
                tracing::error!(namespace, %error, "there is no canary: nothing is placed");
                let why = format!(
                    "it is not known whether this cluster leaves delegated Jobs alone: the Job {namespace}/{NAME}, \
                     which would show it, cannot be created: {error}"
                );
                shared.lanes.plan_all(shared.index.heed_canary(Some(Halt::Because(why))));
            }
        }
        tokio::time::sleep(CREATE_AGAIN).await;
    }
}

async fn try_to_hatch(shared: &Shared, namespace: &str, body: Vec<u8>) -> Result<Canary, CallError> {
    if shared.leadership.holds() {
        match kubeio::create(&shared.manager, &paths::jobs(namespace), body, WRITE_DEADLINE).await {
            Err(error) if !error.is_already_exists() => return Err(error),
            _ => tokio::time::sleep(TIME_TO_ACT).await,
        }
    }
    kubeio::get(&shared.manager, &paths::job(namespace, NAME), WRITE_DEADLINE).await
}

fn heed(shared: &Shared, namespace: &str, verdict: &Verdict) {
    match verdict.why {
        None => tracing::info!("delegated Jobs are left alone: work may be placed"),
        Some(why) => {
            tracing::error!(why, "placing is halted; what runs goes on");
            let reason = reasons::DELEGATION_BROKEN.into();
            let happening = Happening { severity: Severity::Warning, reason, message: why.into() };
            shared.recorder.tell(about_job(namespace, NAME, &verdict.uid), happening);
        }
    }
    let halt = verdict.why.map(|why| Halt::Because(why.to_owned()));
    shared.lanes.plan_all(shared.index.heed_canary(halt));
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
    fn a_canary_that_was_acted_on_does_not_get_well_again() {
        let told = |uid: &str, why| Verdict { uid: uid.into(), why };
        let broken = told("c", Some("acted on"));
        assert!(broken.is_news_after(&told("c", None)));
        assert!(!told("c", None).is_news_after(&broken), "an event that was overtaken");
        assert!(told("d", None).is_news_after(&broken), "another canary");
        assert!(!told("c", None).is_news_after(&told("c", None)));
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
