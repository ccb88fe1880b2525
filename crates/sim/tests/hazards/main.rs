//! The event sequences that could break a promise, one test for each, on the clusters and the dispatcher of the seeded
//! runs. The names say the row of the list of hazards, if it is there; H12 was withdrawn. Every checker watches every test;
//! those that look at what rests look where a test lets everything come to rest.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests say what went wrong by panicking")]

mod admission;
mod creates;
mod loss;
mod records;
mod trouble;
mod views;

use jobferry_sim::Truth;
use jobferry_sim::stage::Stage;
use serde_json::json;

const MANAGER: &str = "manager";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const WORKERS: &str = "/apis/jobferry.dev/v1alpha1/workers";

/// Whether a process of this workload runs in that cluster now.
fn runs_in(truth: &Truth, cluster: &str, name: &str) -> bool {
    let workload = truth.job(MANAGER, name).map(|job| job.uid.clone()).unwrap_or_default();
    truth.running_in(&workload).contains(&cluster)
}

/// Waits until a process of this workload runs in that cluster.
async fn until_running(stage: &Stage, cluster: &str, name: &str) {
    stage.until(&format!("{name} runs in {cluster}"), |truth| runs_in(truth, cluster, name)).await;
}

/// How many mirrors a worker has been given, whether or not it took them.
fn creates_on(stage: &Stage, worker: &str) -> usize {
    stage.written(worker, "POST /jobs").len()
}

/// Of two workers that fit, w1 is chosen.
async fn prefer_w1(stage: &Stage) {
    stage.policy(json!({"prefer": [{"workers": {"matchLabels": {"zone": "a"}}, "weight": 10}]})).await;
}
