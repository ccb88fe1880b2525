//! A management cluster and its workers, embedded in this program and served over TLS.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::Request;
use jobferry_api::{KUBECONFIG_KEY, SYSTEM_NAMESPACE, managed_by};
use jobferry_apiserver::{ApiServer, Credentials, Options, Serving};
use jobferry_cluster::system_clock;
use jobferry_kubeio as kubeio;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

const NAMESPACE: &str = "bench";
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Of each Job: so many changes there are to tell while it runs.
pub(crate) const PODS: i32 = 2;
/// Changes that a watch can be resumed over: as many as a burst has.
const HISTORY: usize = 200_000;

pub(crate) struct World {
    pub(crate) manager: Cluster,
    pub(crate) workers: Vec<Cluster>,
    directory: TempDir,
}

pub(crate) struct Cluster {
    pub(crate) name: String,
    /// Without sockets.
    pub(crate) client: Client,
    pub(crate) server: ApiServer,
    kubeconfig: String,
    _serving: Serving,
}

impl World {
    /// Clusters with a namespace; workers are registered as a user would.
    pub(crate) async fn start(jobferry: &PathBuf, workers: usize) -> Self {
        let manager = Cluster::start("manager".to_owned(), 0).await;
        let mut all = Vec::new();
        for number in 1..=workers {
            all.push(Cluster::start(format!("worker-{number:03}"), number as u64).await);
        }
        let world = Self { manager, workers: all, directory: TempDir::new().unwrap() };
        fs::write(world.kubeconfig(), &world.manager.kubeconfig).unwrap();
        let mut install = tokio::process::Command::from(Command::new(jobferry));
        install.args(["install", "--no-deployment", "--kubeconfig"]).arg(world.kubeconfig());
        let installed = install.output().await.unwrap();
        assert!(installed.status.success(), "jobferry install: {}", String::from_utf8_lossy(&installed.stderr));
        for worker in &world.workers {
            world.register(worker).await;
        }
        world
    }

    async fn register(&self, worker: &Cluster) {
        let (name, kubeconfig) = (&worker.name, BASE64_STANDARD.encode(&worker.kubeconfig));
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {KUBECONFIG_KEY: kubeconfig},
        });
        self.manager.create(&format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets"), &secret).await;
        let worker = json!({
            "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker",
            "metadata": {"name": name}, "spec": {"kubeconfigSecret": name},
        });
        self.manager.create("/apis/jobferry.dev/v1alpha1/workers", &worker).await;
    }

    /// The kubeconfig of the management cluster.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// A file of this run.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes to Jobs that any of the clusters has answered so far.
    pub(crate) async fn writes_to_jobs(&self) -> u64 {
        let mut writes = self.manager.writes_to_jobs().await;
        for worker in &self.workers {
            writes += worker.writes_to_jobs().await;
        }
        writes
    }
}

impl Cluster {
    async fn start(name: String, seed: u64) -> Self {
        let clock = system_clock();
        let options = Options { history: HISTORY, ..Options::new(move || clock(), seed) };
        let server = ApiServer::new(options);
        let credentials = Credentials::generate().unwrap();
        let serving = server.serve(TcpListener::bind(("127.0.0.1", 0)).await.unwrap(), &credentials).unwrap();
        let kubeconfig = credentials.access(serving.address()).kubeconfig(&name);
        let client = Client::new(server.service(), "default");
        let cluster = Self { name, client, server, kubeconfig, _serving: serving };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        cluster.create("/api/v1/namespaces", &namespace).await;
        cluster
    }

    pub(crate) async fn create(&self, collection: &str, object: &Value) {
        kubeio::create(&self.client, collection, object.to_string().into_bytes(), ANSWER_WITHIN).await.unwrap();
    }

    /// To create Jobs by, from many tasks.
    pub(crate) fn jobs(&self) -> Jobs {
        Jobs(self.client.clone())
    }

    async fn writes_to_jobs(&self) -> u64 {
        let request = Request::get("/metrics").body(Body::empty()).unwrap();
        let answer = kubeio::call(&self.client, request, ANSWER_WITHIN).await.unwrap();
        let text = String::from_utf8_lossy(&answer).into_owned();
        let writes = text.lines().filter(|line| {
            line.starts_with("apiserver_request_total")
                && line.contains("resource=\"jobs.batch\"")
                && !line.contains("method=\"GET\"")
        });
        writes.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }
}

/// The Jobs of a cluster.
pub(crate) struct Jobs(Client);

impl Jobs {
    pub(crate) async fn create(&self, name: &str) {
        kubeio::create(&self.0, &jobs_path(), job(name).to_string().into_bytes(), ANSWER_WITHIN).await.unwrap();
    }
}

pub(crate) fn jobs_path() -> String {
    format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
}

/// About as much as people write: a few labels, resources, an environment.
fn job(name: &str) -> Value {
    let container = json!({
        "name": "main", "image": "registry.example/team/train:1.0", "command": ["train", "--epochs", "10"],
        "env": [{"name": "DATA", "value": "/data/train"}, {"name": "SEED", "value": "7"}],
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}},
    });
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"team": "ml", "app": "train"}},
        "spec": {
            "managedBy": managed_by::DISPATCHER, "parallelism": PODS, "backoffLimit": 3,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    })
}
