//! Jobs of all shapes: each ends through Jobferry exactly as it ends without it.

use futures::future::try_join_all;
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use super::dispatch::Outcome;
use super::{JobManifest, condition, has_active, is_complete, is_failed, is_suspended};
use crate::fleet::{Fleet, Place, ScenarioError};

/// How a Job ends, as far as it may not depend on who ran it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Type, status and reason of Kubernetes' own conditions, sorted.
    pub conditions: Vec<(String, String, String)>,
    /// Succeeded, failed, active, ready and terminating pods; absent and 0 are the same.
    pub pods: [i32; 5],
    /// Completed and failed indexes.
    pub indexes: [String; 2],
    /// Whether it was ever started, and whether it completed.
    pub times: [bool; 2],
}

impl Ending {
    /// Reads it from a finished Job.
    pub fn of(job: &Job) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let own = status.conditions.iter().flatten().filter(|condition| !condition.type_.contains('/'));
        let mut conditions: Vec<_> =
            own.map(|c| (c.type_.clone(), c.status.clone(), c.reason.clone().unwrap_or_default())).collect();
        conditions.sort();
        let pods = [status.succeeded, status.failed, status.active, status.ready, status.terminating];
        Self {
            conditions,
            pods: pods.map(Option::unwrap_or_default),
            indexes: [status.completed_indexes, status.failed_indexes].map(Option::unwrap_or_default),
            times: [status.start_time.is_some(), status.completion_time.is_some()],
        }
    }
}

/// A Job and the reason with which it ends.
struct Shape {
    manifest: JobManifest,
    /// `Complete` or `Failed`, and why.
    end: (&'static str, &'static str),
}

fn shape(name: &str, spec: &Value, end: (&'static str, &'static str)) -> Shape {
    let fields = spec.as_object().into_iter().flatten();
    let manifest = fields.fold(JobManifest::new(name), |job, (field, value)| job.spec(field, value.clone()));
    Shape { manifest, end }
}

fn shapes() -> Vec<Shape> {
    const DONE: (&str, &str) = ("Complete", "CompletionsReached");
    const BACKOFF: (&str, &str) = ("Failed", "BackoffLimitExceeded");
    let exit_42 = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]});
    let fail_index = json!({"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}]});
    let on = |mut shape: Shape, change: fn(JobManifest) -> JobManifest| {
        shape.manifest = change(shape.manifest);
        shape
    };
    vec![
        shape("plain", &json!({}), DONE),
        shape("several", &json!({"completions": 5, "parallelism": 2}), DONE),
        shape("queue", &json!({"parallelism": 3, "completions": null}), DONE),
        shape("nothing", &json!({"completions": 0}), DONE),
        shape("indexed", &json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4}), DONE),
        shape("replaced", &json!({"podReplacementPolicy": "Failed", "completions": 2}), DONE),
        on(shape("failing", &json!({"backoffLimit": 0}), BACKOFF), |job| job.exits(3)),
        on(shape("retried", &json!({"backoffLimit": 1}), BACKOFF), |job| job.exits(3)),
        on(
            shape(
                "per-index",
                &json!({"completionMode": "Indexed", "completions": 6, "parallelism": 6, "backoffLimitPerIndex": 0}),
                ("Failed", "FailedIndexes"),
            ),
            |job| job.failing_indexes("1,2,5"),
        ),
        on(
            shape(
                "too-many-failed",
                &json!({"completionMode": "Indexed", "completions": 4, "parallelism": 1, "backoffLimitPerIndex": 0,
                    "maxFailedIndexes": 0}),
                ("Failed", "MaxFailedIndexesExceeded"),
            ),
            |job| job.failing_indexes("0"),
        ),
        shape(
            "leader-succeeds",
            &json!({"completionMode": "Indexed", "completions": 3, "parallelism": 1,
                "successPolicy": {"rules": [{"succeededIndexes": "0"}]}}),
            ("Complete", "SuccessPolicy"),
        ),
        on(
            shape(
                "fatal-code",
                &json!({"backoffLimit": 6, "podFailurePolicy": exit_42}),
                ("Failed", "PodFailurePolicy"),
            ),
            |job| job.exits(42),
        ),
        on(
            shape(
                "fatal-index",
                &json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 3,
                    "podFailurePolicy": fail_index}),
                ("Failed", "FailedIndexes"),
            ),
            |job| job.failing_indexes("1").exits(42),
        ),
        on(
            shape("late", &json!({"activeDeadlineSeconds": 2}), ("Failed", "DeadlineExceeded")),
            JobManifest::runs_for_ever,
        ),
        on(shape("held", &json!({"suspend": true}), DONE), |job| job),
        on(shape("paused", &json!({"completions": 2}), DONE), |job| job.runs_for("2")),
    ]
}

/// Submits a Job, does to it what its name says, and waits for its end.
async fn end_of(place: &Place, manifest: &JobManifest) -> Result<Job, ScenarioError> {
    let name = manifest.manifest()["metadata"]["name"].as_str().unwrap_or_default();
    place.create(manifest.manifest()).await?;
    if name == "paused" {
        place.until(name, "active", has_active(1)).await?;
        place.change(name, &json!({"spec": {"suspend": true}})).await?;
    }
    if matches!(name, "paused" | "held") {
        place.until(name, "suspended", is_suspended).await?;
        place.change(name, &json!({"spec": {"suspend": false}})).await?;
    }
    place.until(name, "ended", |job| is_complete(job) || is_failed(job)).await
}

/// The same Jobs, once on a worker without Jobferry and once through it: the ends are equal.
pub async fn parity_jobs_of_all_shapes_end_as_they_do_without_jobferry(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let without = fleet.namespace("parity-without").await?.worker(first);
    let through = fleet.namespace("parity-through").await?.manager();
    let runs = shapes().into_iter().map(|Shape { manifest, end: (type_, reason) }| {
        let (without, through) = (without.clone(), through.clone());
        async move {
            let ferried = manifest.clone().for_dispatcher();
            let (expected, job) = futures::try_join!(end_of(&without, &manifest), end_of(&through, &ferried))?;
            let name = job.metadata.name.clone().unwrap_or_default();
            assert_eq!(Ending::of(&job), Ending::of(&expected), "Job {name}");
            let told = condition(&job, type_).and_then(|condition| condition.reason.as_deref());
            assert_eq!(told, Some(reason), "Job {name}");
            Ok::<_, ScenarioError>(())
        }
    });
    try_join_all(runs).await.map(drop)
}
