//! An embedded cluster in virtual time, with a node that does what an annotation of the pod says.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, pin_mut};
use jobferry_apiserver::ApiServer;
use jobferry_cluster::{Clock, Options, run};
use jobferry_kubeio::{self as kubeio, Collection, Event, Patch};
use k8s_openapi::{
    api::core::v1::Pod,
    jiff::{SignedDuration, Timestamp},
};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const DEADLINE: Duration = Duration::from_secs(15);
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) started: Instant,
    pub(crate) server: ApiServer,
    pub(crate) clock: Clock,
}

impl World {
    /// A cluster with one node of four CPUs.
    pub(crate) async fn start() -> Self {
        let world = Self::start_without_controllers().await;
        let options = Options::new(Clock::clone(&world.clock), 7);
        tokio::spawn(run(world.client.clone(), options, CancellationToken::new()));
        world
    }

    /// The API server and the node.
    pub(crate) async fn start_without_controllers() -> Self {
        let started = Instant::now();
        let clock: Clock = Arc::new(move || {
            let elapsed = SignedDuration::try_from(started.elapsed()).unwrap();
            Timestamp::from_second(1_800_000_000).unwrap().checked_add(elapsed).unwrap()
        });
        let server_clock = Arc::clone(&clock);
        let server = ApiServer::new(jobferry_apiserver::Options::new(move || server_clock(), 7));
        let client = Client::new(server.service(), "default");
        let world = Self { client: client.clone(), started, server, clock };
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"},
            "status": {
                "allocatable": {"cpu": "4", "pods": "1000"}, "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        world.create("/api/v1/nodes", &node).await;
        tokio::spawn(play_the_node(client));
        world
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Value {
        let answer = kubeio::create(&self.client, path, object.to_string().into_bytes(), DEADLINE).await.unwrap();
        serde_json::from_slice(&answer).unwrap()
    }

    /// A Job whose pods run for so many seconds and end with this code.
    pub(crate) async fn create_job(&self, name: &str, mut spec: Value, seconds: u64, code: i32) -> Value {
        spec["template"] = json!({
            "metadata": {"annotations": {"seconds": seconds.to_string(), "code": code.to_string()}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
        });
        self.create(JOBS, &json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}))
            .await
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        match kubeio::get(&self.client, path, DEADLINE).await {
            Ok(object) => Some(object),
            Err(error) if error.is_not_found() => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    pub(crate) async fn job(&self, name: &str) -> Option<Value> {
        self.get(&format!("{JOBS}/{name}")).await
    }

    pub(crate) async fn pods(&self) -> Vec<Value> {
        self.get("/api/v1/namespaces/default/pods").await.unwrap()["items"].as_array().unwrap().clone()
    }

    pub(crate) async fn edit(&self, path: &str, change: &Value) {
        let change = change.to_string().into_bytes();
        kubeio::patch(&self.client, path, Patch::Merge, change, DEADLINE).await.unwrap();
    }

    pub(crate) async fn delete(&self, path: &str, propagation: &str) {
        let options = json!({"propagationPolicy": propagation}).to_string().into_bytes();
        kubeio::delete(&self.client, path, options, DEADLINE).await.unwrap();
    }

    pub(crate) async fn delete_job(&self, name: &str, propagation: &str) {
        self.delete(&format!("{JOBS}/{name}"), propagation).await;
    }

    /// Seconds of virtual time since the start.
    pub(crate) fn elapsed(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// Asks until there is an answer; gives up after an hour of virtual time.
    pub(crate) async fn eventually<T>(&self, ask: impl AsyncFn() -> Option<T>) -> T {
        let asking = async {
            loop {
                if let Some(answer) = ask().await {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_hours(1), asking).await.expect("it should have happened within an hour")
    }

    pub(crate) async fn job_with(&self, name: &str, condition: &str) -> Value {
        self.eventually(async || self.job(name).await.filter(|job| has(job, condition))).await
    }

    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
}

/// Whether a condition is true.
pub(crate) fn has(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == kind && c["status"] == "True")
}

async fn play_the_node(client: Client) {
    let collection =
        Collection::new("/api/v1/pods", |pod: &Pod| pod.metadata.resource_version.as_deref().unwrap_or(""))
            .fields("spec.nodeName=node-1");
    let stream = kubeio::watch(client.clone(), collection);
    pin_mut!(stream);
    while let Some(event) = stream.next().await {
        let pods = match event {
            Event::Reset(list) => list,
            Event::Applied(pod) => vec![pod],
            _ => continue,
        };
        for pod in pods {
            let status = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
            if pod.metadata.deletion_timestamp.is_some() {
                tokio::spawn(remove(client.clone(), pod));
            } else if status == "Pending" {
                tokio::spawn(run_pod(client.clone(), pod));
            }
        }
    }
}

fn pod_path(pod: &Pod) -> String {
    let meta = &pod.metadata;
    format!("/api/v1/namespaces/{}/pods/{}", meta.namespace.as_ref().unwrap(), meta.name.as_ref().unwrap())
}

async fn run_pod(client: Client, pod: Pod) {
    let note =
        |key: &str| pod.metadata.annotations.as_ref().and_then(|notes| notes.get(key)).cloned().unwrap_or_default();
    let running = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    write_status(&client, &pod, running).await;
    tokio::time::sleep(Duration::from_secs(note("seconds").parse().unwrap_or(0))).await;
    let code: i32 = note("code").parse().unwrap_or(0);
    let ended = json!({"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": code}}});
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    write_status(
        &client,
        &pod,
        json!({"phase": phase, "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [ended]}),
    )
    .await;
}

async fn write_status(client: &Client, pod: &Pod, status: Value) {
    let body = json!({"metadata": {"uid": pod.metadata.uid}, "status": status}).to_string().into_bytes();
    // The pod may be gone by now.
    let _ = kubeio::patch(client, &format!("{}/status", pod_path(pod)), Patch::Strategic, body, DEADLINE).await;
}

/// Containers take two seconds to stop.
async fn remove(client: Client, pod: Pod) {
    tokio::time::sleep(Duration::from_secs(2)).await;
    write_status(&client, &pod, json!({"phase": "Failed"})).await;
    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}}).to_string().into_bytes();
    let _ = kubeio::delete(&client, &pod_path(&pod), options, DEADLINE).await;
}
