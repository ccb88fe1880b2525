//! The cluster under test.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use futures::StreamExt;
use jobferry_apiserver::ApiServer;
use jobferry_cluster::{run, system_clock};
use jobferry_kubeio::{self as kubeio, Patch};
use jobferry_node::{LogQuery, Logs, Node};
use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::setting::node_options;

const DEADLINE: Duration = Duration::from_secs(20);

/// An API server, the controllers, one node.
pub(crate) struct Cluster {
    client: Client,
    directory: TempDir,
    logs: Logs,
    shutdown: CancellationToken,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let cluster = Self::start_without_node();
        cluster.start_node();
        cluster
    }

    pub(crate) fn start_without_node() -> Self {
        let clock = system_clock();
        let server_clock = clock.clone();
        let server = ApiServer::new(jobferry_apiserver::Options::new(move || server_clock(), 1));
        let client = Client::new(server.service(), "default");
        let directory = TempDir::new().unwrap();
        let shutdown = CancellationToken::new();
        tokio::spawn(run(client.clone(), jobferry_cluster::Options::new(clock, 1), shutdown.clone()));
        let logs = Node::new(client.clone(), node_options(directory.path())).logs();
        Self { client, directory, logs, shutdown }
    }

    /// Starts the node; it stops with the cluster, or when the token is cancelled.
    pub(crate) fn start_node(&self) -> CancellationToken {
        let node = Node::new(self.client.clone(), node_options(self.directory.path()));
        let stop = self.shutdown.child_token();
        let stopping = stop.clone();
        tokio::spawn(async move { node.run(stopping).await.unwrap() });
        stop
    }

    /// A place that the test may use.
    pub(crate) fn scratch(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) async fn create_job(&self, name: &str, spec: Value) {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});
        self.create("/apis/batch/v1/namespaces/default/jobs", job).await;
    }

    pub(crate) async fn create_pod(&self, name: &str, spec: Value) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        self.create("/api/v1/namespaces/default/pods", pod).await;
    }

    pub(crate) async fn create(&self, path: &str, object: Value) {
        kubeio::create(&self.client, path, object.to_string().into_bytes(), DEADLINE).await.unwrap();
    }

    /// The pod, as soon as it has this phase.
    pub(crate) async fn pod_in_phase(&self, name: &str, phase: &str) -> Value {
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        poll(async || self.get(&path).await.filter(|pod| pod["status"]["phase"] == phase)).await
    }

    pub(crate) async fn edit_job(&self, name: &str, change: &Value) {
        let path = format!("/apis/batch/v1/namespaces/default/jobs/{name}");
        kubeio::patch(&self.client, &path, Patch::Merge, change.to_string().into_bytes(), DEADLINE).await.unwrap();
    }

    pub(crate) async fn delete_pod(&self, name: &str) {
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        kubeio::delete(&self.client, &path, b"{}".to_vec(), DEADLINE).await.unwrap();
    }

    async fn get(&self, path: &str) -> Option<Value> {
        kubeio::get(&self.client, path, DEADLINE).await.ok()
    }

    pub(crate) async fn gone(&self, path: &str) {
        poll(async || self.get(path).await.is_none().then_some(())).await;
    }

    pub(crate) async fn finished(&self, name: &str) -> Value {
        poll(async || {
            let job = self.get(&format!("/apis/batch/v1/namespaces/default/jobs/{name}")).await?;
            (has_condition(&job, "Complete") || has_condition(&job, "Failed")).then_some(job)
        })
        .await
    }

    pub(crate) async fn job_with_condition(&self, name: &str, condition: &str) -> Value {
        poll(async || {
            let job = self.get(&format!("/apis/batch/v1/namespaces/default/jobs/{name}")).await?;
            has_condition(&job, condition).then_some(job)
        })
        .await
    }

    /// The pods of a Job.
    pub(crate) async fn pods(&self, job: &str) -> Vec<Value> {
        let path = format!("/api/v1/namespaces/default/pods?labelSelector=job-name%3D{job}");
        self.get(&path).await.unwrap()["items"].as_array().unwrap().clone()
    }

    pub(crate) async fn logs(&self, job: &str) -> Vec<String> {
        let mut logs = Vec::new();
        for pod in self.pods(job).await {
            logs.push(self.log(pod["metadata"]["uid"].as_str().unwrap()).await);
        }
        logs
    }

    pub(crate) async fn log_of_first_pod(&self, job: &str) -> String {
        self.logs(job).await.remove(0)
    }

    async fn log(&self, uid: &str) -> String {
        let stream = self.logs.open(uid, "main", LogQuery::default()).await.unwrap();
        let chunks: Vec<_> = stream.collect().await;
        String::from_utf8(chunks.concat()).unwrap()
    }

    pub(crate) async fn wait_for_log(&self, pod: &str, text: &str) {
        poll(async || {
            let pod = self.get(&format!("/api/v1/namespaces/default/pods/{pod}")).await?;
            (self.log(pod["metadata"]["uid"].as_str()?).await == text).then_some(())
        })
        .await;
    }
}

/// How a Job ended: terminal condition, succeeded, failed.
pub(crate) fn ending(job: &Value) -> (&'static str, i64, i64) {
    let condition = ["Complete", "Failed"].into_iter().find(|kind| has_condition(job, kind)).unwrap_or("Running");
    let count = |field: &str| job["status"][field].as_i64().unwrap_or(0);
    (condition, count("succeeded"), count("failed"))
}

fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == kind && c["status"] == "True")
}

/// Asks until there is an answer.
pub(crate) async fn eventually<T>(ask: impl Fn() -> Option<T>) -> T {
    poll(async || ask()).await
}

async fn poll<T>(ask: impl AsyncFn() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, asking).await.expect("it should have happened by now")
}

/// The process that is killed: this program again, with one argument, as a cluster with one endless pod.
pub(crate) const VICTIM: &str = "__victim";

pub(crate) async fn be_the_victim(pid_file: PathBuf) {
    let cluster = Cluster::start();
    let script = format!("(setsid sleep 600 & echo $! > {0}.2); echo $$$$ > {0}.1; exec sleep 600", pid_file.display());
    let spec = json!({
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", script]}],
    });
    cluster.create_pod("endless", spec).await;
    std::future::pending::<()>().await;
}

/// Killed with `kill -9`, at the latest when the test is over.
struct Victim(Child);

impl Victim {
    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) async fn containers_die_with_a_killed_node() {
    let directory = TempDir::new().unwrap();
    let pid_file = directory.path().join("pid");
    let victim = Command::new(std::env::current_exe().unwrap())
        .args([VICTIM, pid_file.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut victim = Victim(victim);
    let mut processes = Vec::new();
    for number in [1, 2] {
        let file = format!("{}.{number}", pid_file.display());
        let pid = eventually(|| std::fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'))).await;
        processes.push(PathBuf::from(format!("/proc/{}", pid.trim())));
    }
    assert!(processes.iter().all(|process| process.exists()));
    victim.kill();
    for process in processes {
        eventually(|| (!process.exists()).then_some(())).await;
    }
}
