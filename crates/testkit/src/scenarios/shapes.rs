//! Jobs of all shapes: each ends through Jobferry exactly as it ends without it.

use futures::future::try_join_all;
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use super::dispatch::Outcome;
use super::{JobManifest, has_active, is_complete, is_failed, is_suspended, reason_of};
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

/// A Job and how it ends.
struct Shape {
    manifest: JobManifest,
    /// `Complete` or `Failed`.
    end: &'static str,
    /// The reason of that condition.
    reason: &'static str,
}

fn job(name: &str, spec: &Value) -> JobManifest {
    let fields = spec.as_object().into_iter().flatten();
    fields.fold(JobManifest::new(name), |job, (field, value)| job.spec(field, value.clone()))
}

/// An Indexed Job all of whose indexes may run at once, unless `spec` says otherwise.
fn indexed(name: &str, completions: i32, spec: &Value) -> JobManifest {
    let base = json!({"completionMode": "Indexed", "completions": completions, "parallelism": completions});
    let fields = spec.as_object().into_iter().flatten();
    fields.fold(job(name, &base), |job, (field, value)| job.spec(field, value.clone()))
}

fn complete(reason: &'static str) -> impl Fn(JobManifest) -> Shape {
    move |manifest| Shape { manifest, end: "Complete", reason }
}

fn failed(reason: &'static str, manifest: JobManifest) -> Shape {
    Shape { manifest, end: "Failed", reason }
}

fn shapes() -> Vec<Shape> {
    let mut all = shapes_that_complete();
    all.extend(shapes_that_fail());
    all
}

fn shapes_that_complete() -> Vec<Shape> {
    let reached = [
        job("plain", &json!({})),
        job("several", &json!({"completions": 5, "parallelism": 2})),
        job("queue", &json!({"parallelism": 3, "completions": null})),
        job("nothing", &json!({"completions": 0})),
        job("replaced", &json!({"podReplacementPolicy": "Failed", "completions": 2})),
        job("idle", &json!({"parallelism": 0})),
        job("held", &json!({"suspend": true})),
        job("paused", &json!({"completions": 2})).runs_for("2"),
        indexed("indexed", 4, &json!({})),
        indexed("grown", 1, &json!({})).runs_for("2"),
        indexed("emptied", 2, &json!({"suspend": true})),
        indexed("dropped", 2, &json!({"suspend": true})).runs_for_ever(),
    ];
    let one_by_one =
        |name: &str, rule: Value| indexed(name, 4, &json!({"parallelism": 1, "successPolicy": {"rules": [rule]}}));
    let by_policy = [
        one_by_one("leader-succeeds", json!({"succeededIndexes": "0"})),
        one_by_one("some-succeed", json!({"succeededIndexes": "0-2", "succeededCount": 2})),
        one_by_one("enough-succeed", json!({"succeededCount": 3})),
    ];
    let reached = reached.into_iter().map(complete("CompletionsReached"));
    reached.chain(by_policy.into_iter().map(complete("SuccessPolicy"))).collect()
}

fn shapes_that_fail() -> Vec<Shape> {
    let on_42 =
        |action: &str| json!({"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": [42]}}]});
    let per_index = json!({"backoffLimitPerIndex": 0});
    let none_may_fail = json!({"parallelism": 1, "backoffLimitPerIndex": 0, "maxFailedIndexes": 0});
    let two_may_fail = json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 2});
    let fatal_index = json!({"backoffLimitPerIndex": 3, "podFailurePolicy": on_42("FailIndex")});
    let fatal_job = json!({"podFailurePolicy": on_42("FailJob")});
    vec![
        failed("BackoffLimitExceeded", job("failing", &json!({"backoffLimit": 0})).exits(3)),
        failed("BackoffLimitExceeded", job("retried", &json!({"backoffLimit": 1})).exits(3)),
        failed("PodFailurePolicy", job("fatal-code", &fatal_job).exits(42)),
        failed("DeadlineExceeded", job("late", &json!({"activeDeadlineSeconds": 2})).runs_for_ever()),
        failed("DeadlineExceeded", job("overdue", &json!({"activeDeadlineSeconds": 0, "suspend": true}))),
        failed("FailedIndexes", indexed("per-index", 6, &per_index).failing_indexes("1,2,5")),
        failed("FailedIndexes", indexed("as-many-as-allowed", 4, &two_may_fail).failing_indexes("1,2")),
        failed("FailedIndexes", indexed("fatal-index", 3, &fatal_index).failing_indexes("1").exits(42)),
        failed("MaxFailedIndexesExceeded", indexed("too-many-failed", 4, &none_may_fail).failing_indexes("0")),
    ]
}

/// Submits a Job, does to it what its name says, and waits for its end.
async fn end_of(place: &Place, manifest: &JobManifest) -> Result<Job, ScenarioError> {
    let name = manifest.manifest()["metadata"]["name"].as_str().unwrap_or_default();
    place.create(manifest.manifest()).await?;
    if matches!(name, "paused" | "grown") {
        place.until(name, "active", has_active(1)).await?;
    }
    match name {
        "idle" => place.change(name, &json!({"spec": {"parallelism": 1}})).await?,
        "grown" => place.change(name, &json!({"spec": {"completions": 3, "parallelism": 3}})).await?,
        "paused" => place.change(name, &json!({"spec": {"suspend": true}})).await?,
        _ => {}
    }
    if matches!(name, "paused" | "held" | "overdue" | "emptied" | "dropped") {
        place.until(name, "suspended", is_suspended).await?;
        let emptied = json!({"suspend": false, "completions": 0, "parallelism": 0});
        let resumed = if name == "emptied" { emptied } else { json!({"suspend": false}) };
        place.change(name, &json!({"spec": resumed})).await?;
    }
    if name == "dropped" {
        place.until(name, "active", has_active(2)).await?;
        place.change(name, &json!({"spec": {"suspend": true, "completions": 0, "parallelism": 0}})).await?;
    }
    place.until(name, "ended", |job| is_complete(job) || is_failed(job)).await
}

/// The same Jobs, once on a worker without Jobferry and once through it: the ends are equal.
pub async fn parity_jobs_of_all_shapes_end_as_they_do_without_jobferry(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let without = fleet.namespace("parity-without").await?.worker(first);
    let through = fleet.namespace("parity-through").await?.manager();
    let runs = shapes().into_iter().map(|Shape { manifest, end, reason }| {
        let (without, through) = (without.clone(), through.clone());
        async move {
            let ferried = manifest.clone().for_dispatcher();
            let (expected, job) = futures::try_join!(end_of(&without, &manifest), end_of(&through, &ferried))?;
            let name = job.metadata.name.clone().unwrap_or_default();
            assert_eq!(Ending::of(&job), Ending::of(&expected), "Job {name}");
            assert_eq!(reason_of(&job, end), Some(reason), "Job {name}");
            Ok::<_, ScenarioError>(())
        }
    });
    try_join_all(runs).await.map(drop)
}
