//! Does a cluster leave delegated Jobs alone? A canary tells before any work is at stake.
//!
//! The canary is a suspended Job with a `managedBy` of its own, which nobody serves. A server that is too old drops the
//! field; a Job controller that is too old (an API server may be newer than its controller-manager for a while, in every
//! upgrade) acts on the Job all the same. Either way delegated Jobs would run here *and* on a worker: nothing is placed
//! until it is over.

use jobferry_api::managed_by;
use serde::Deserialize;
use serde_json::{Value, json};

/// The canary's name, in the dispatcher's own namespace.
pub const NAME: &str = "jobferry-canary";

/// The canary, as far as it tells something.
#[derive(Debug, Deserialize)]
pub struct Canary {
    /// Which canary it is, and which state of it.
    pub metadata: Meta,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

/// The part of its metadata that is read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// Of this one canary.
    pub uid: String,
    /// Of this state.
    pub resource_version: String,
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

/// The Job to create.
pub fn body(namespace: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": NAME, "namespace": namespace, "annotations": {
            "kubernetes.io/description": "Shows Jobferry whether this cluster leaves delegated Jobs alone. It never runs.",
        }},
        "spec": {
            "managedBy": managed_by::CANARY, "suspend": true,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "canary", "image": "none"}]}},
        },
    })
}

/// What a canary has told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Which one.
    pub uid: String,
    /// Why nothing may be placed, if so.
    pub why: Option<&'static str>,
}

impl Verdict {
    /// What this canary tells.
    pub fn of(canary: &Canary) -> Self {
        Self { uid: canary.metadata.uid.clone(), why: why_not(canary) }
    }

    /// A canary that was acted on does not get well again: another one must be hatched.
    pub fn is_news_after(&self, before: &Self) -> bool {
        self != before && (self.uid != before.uid || before.why.is_none())
    }
}

fn why_not(canary: &Canary) -> Option<&'static str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told by a canary with other fields than it was hatched with.
    fn told_by(spec: &Value, status: &Value) -> Option<&'static str> {
        let canary = json!({"metadata": {"uid": "c", "resourceVersion": "1"}, "spec": spec, "status": status});
        Verdict::of(&serde_json::from_value(canary).unwrap()).why
    }

    #[test]
    fn a_canary_that_nobody_touches_lets_work_be_placed() {
        assert_eq!(told_by(&body("jobferry-system")["spec"], &json!({})), None);
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
            let why = told_by(&spec, &status).unwrap_or_default();
            assert!(why.contains(word), "{spec}: {why}");
        }
    }
}
