//! Jobs live their whole life on a real control plane whose pods only follow a script.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use jobferry_kubeio as kubeio;
use jobferry_testkit::{EXIT_CODE, FAILING_INDEXES, RUN_SECONDS, RealFleet, User};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The Job controller waits 10 s before it replaces a failed pod; everything else takes about a second.
const DONE_WITHIN: Duration = Duration::from_secs(60);

/// A namespace of its own on the shared manager.
struct Scene {
    client: kube::Client,
    namespace: &'static str,
}

impl Scene {
    async fn new(namespace: &'static str) -> Self {
        let fleet = RealFleet::shared().await.unwrap_or_else(|error| panic!("{error}"));
        fleet.manager().create_namespace(namespace).await.unwrap();
        Self { client: fleet.manager().client(User::Admin).await.unwrap(), namespace }
    }

    fn jobs(&self) -> String {
        format!("/apis/batch/v1/namespaces/{}/jobs", self.namespace)
    }

    async fn create_job(&self, name: &str, script: &Value, mut spec: Value) {
        spec["template"] = json!({
            "metadata": {"annotations": script},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
        });
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});
        kubeio::create(&self.client, &self.jobs(), job.to_string().into_bytes(), ANSWER_WITHIN).await.unwrap();
    }

    async fn pods(&self) -> Vec<Value> {
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace);
        let list: Value = kubeio::get(&self.client, &path, ANSWER_WITHIN).await.unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// The Job's status once `holds` says so of it.
    async fn status_when(&self, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let path = format!("{}/{name}", self.jobs());
        let deadline = Instant::now() + DONE_WITHIN;
        loop {
            let job: Value = kubeio::get(&self.client, &path, ANSWER_WITHIN).await.unwrap();
            if holds(&job["status"]) {
                return job["status"].clone();
            }
            assert!(Instant::now() < deadline, "{name} did not get there: {}", job["status"]);
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn status_at_end(&self, name: &str) -> Value {
        self.status_when(name, |status| has_condition(status, "Complete") || has_condition(status, "Failed")).await
    }
}

fn has_condition(status: &Value, kind: &str) -> bool {
    status["conditions"].as_array().is_some_and(|all| all.iter().any(|c| c["type"] == kind && c["status"] == "True"))
}

#[tokio::test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn a_job_without_a_script_completes() {
    let scene = Scene::new("plain").await;
    scene.create_job("train", &json!({}), json!({"completions": 3, "parallelism": 2})).await;
    let status = scene.status_at_end("train").await;
    assert!(has_condition(&status, "Complete"), "{status}");
    assert_eq!(status["succeeded"], 3);
}

#[tokio::test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn a_failing_pod_fails_its_job_with_its_exit_code() {
    let scene = Scene::new("failing").await;
    scene.create_job("train", &json!({EXIT_CODE: "42"}), json!({"backoffLimit": 0})).await;
    let status = scene.status_at_end("train").await;
    assert!(has_condition(&status, "Failed"), "{status}");
    let terminated = &scene.pods().await[0]["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&terminated["exitCode"], &terminated["reason"]), (&json!(42), &json!("Error")));
}

#[tokio::test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn only_the_named_indexes_fail() {
    let scene = Scene::new("indexed").await;
    let spec = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimitPerIndex": 0});
    scene.create_job("sweep", &json!({FAILING_INDEXES: "1,3"}), spec).await;
    let status = scene.status_at_end("sweep").await;
    assert_eq!((&status["completedIndexes"], &status["failedIndexes"]), (&json!("0,2"), &json!("1,3")));
}

#[tokio::test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn a_running_pod_is_ready_and_goes_away_with_its_job() {
    let scene = Scene::new("deleted").await;
    scene.create_job("train", &json!({RUN_SECONDS: "3600"}), json!({})).await;
    scene.status_when("train", |status| status["ready"] == 1).await;

    let options = json!({"propagationPolicy": "Foreground"}).to_string().into_bytes();
    kubeio::delete(&scene.client, &format!("{}/train", scene.jobs()), options, ANSWER_WITHIN).await.unwrap();
    let deadline = Instant::now() + DONE_WITHIN;
    while !scene.pods().await.is_empty() {
        assert!(Instant::now() < deadline, "the pod is still there");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn suspending_a_job_ends_its_pods_and_resuming_starts_new_ones() {
    let scene = Scene::new("suspended").await;
    scene.create_job("train", &json!({RUN_SECONDS: "3600"}), json!({})).await;
    scene.status_when("train", |status| status["ready"] == 1).await;
    for (suspend, active) in [(true, 0), (false, 1)] {
        let change = json!({"spec": {"suspend": suspend}}).to_string().into_bytes();
        let path = format!("{}/train", scene.jobs());
        kubeio::patch(&scene.client, &path, kubeio::Patch::Merge, change, ANSWER_WITHIN).await.unwrap();
        scene.status_when("train", |status| status["active"].as_i64().unwrap_or(0) == active).await;
    }
}
