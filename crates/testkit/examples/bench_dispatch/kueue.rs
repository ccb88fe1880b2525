//! Kueue's MultiKueue, unmodified, as an opponent: one Kueue on the manager and one on every worker, as it wants to be.
//!
//! It runs outside of the clusters, so its webhooks are called at loopback addresses. Only its Job integration is on, and
//! only the webhooks for Jobs and for its own kinds are registered: less than it ships with.

use std::{fs, net::TcpListener, path::PathBuf, process::Command, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use jobferry_kubeio::{self as kubeio, CallError};
use jobferry_testkit::{RealCluster, User};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    fleet::{Fleet, NAMESPACE},
    measure::process::Process,
};

/// The queue that Jobs name.
pub(crate) const QUEUE: &str = "bench";
/// The label by which they do.
pub(crate) const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

const OWN_NAMESPACE: &str = "kueue-system";
const API: &str = "/apis/kueue.x-k8s.io/v1beta2";
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const READY_WITHIN: Duration = Duration::from_secs(120);

/// How it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tuning {
    /// As it ships.
    Shipped,
    /// Without a limit on requests to the own cluster. There is none to lift on those to workers in this version.
    Best,
}

/// Where it was built, and where its manifests are.
pub(crate) struct Kueue {
    pub(crate) binary: PathBuf,
    pub(crate) manifests: PathBuf,
}

impl Kueue {
    /// Starts it everywhere and waits until Jobs can be submitted. The manager's comes first.
    pub(crate) async fn start(&self, fleet: &Fleet, tuning: Tuning) -> Vec<Process> {
        let mut processes = vec![self.start_on(&fleet.manager, User::Dispatcher, tuning).await];
        for worker in &fleet.workers {
            processes.push(self.start_on(worker, User::Admin, tuning).await);
            queues(&Fleet::client(worker).await, &[]).await;
        }
        let manager = Fleet::client(&fleet.manager).await;
        for worker in &fleet.workers {
            let (name, kubeconfig) = (worker.name(), BASE64_STANDARD.encode(worker.kubeconfig(User::Dispatcher)));
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"kubeconfig": kubeconfig},
            });
            create(&manager, &format!("/api/v1/namespaces/{OWN_NAMESPACE}/secrets"), &secret).await;
            let source = json!({"kubeConfig": {"locationType": "Secret", "location": name}});
            create_own(&manager, "MultiKueueCluster", name, json!({ "clusterSource": source })).await;
        }
        let clusters: Vec<&str> = fleet.workers.iter().map(RealCluster::name).collect();
        create_own(&manager, "MultiKueueConfig", QUEUE, json!({ "clusters": clusters })).await;
        let config = json!({"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": QUEUE});
        let check = json!({"controllerName": "kueue.x-k8s.io/multikueue", "parameters": config});
        create_own(&manager, "AdmissionCheck", QUEUE, check).await;
        queues(&manager, &[QUEUE]).await;
        for cluster in fleet.workers.iter().chain([&fleet.manager]) {
            until_active(&Fleet::client(cluster).await, &format!("{API}/clusterqueues/{QUEUE}")).await;
        }
        processes
    }

    async fn start_on(&self, cluster: &RealCluster, user: User, tuning: Tuning) -> Process {
        let client = Fleet::client(cluster).await;
        for definition in self.read("config/components/crd/bases") {
            create(&client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN_NAMESPACE}});
        create(&client, "/api/v1/namespaces", &namespace).await;

        let directory = cluster.directory().join("kueue");
        fs::create_dir(&directory).unwrap();
        let certificate = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        fs::write(directory.join("tls.crt"), certificate.cert.pem()).unwrap();
        fs::write(directory.join("tls.key"), certificate.signing_key.serialize_pem()).unwrap();
        let [webhook, health, metrics] = [(); 3].map(|()| free_port());
        let limit = match tuning {
            Tuning::Shipped => json!({"qps": 300, "burst": 500}),
            // A negative rate is none.
            Tuning::Best => json!({"qps": -1, "burst": 1}),
        };
        let configuration = json!({
            "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "namespace": OWN_NAMESPACE,
            "health": {"healthProbeBindAddress": format!("127.0.0.1:{health}")},
            "metrics": {"bindAddress": format!("127.0.0.1:{metrics}")},
            "webhook": {"port": webhook, "host": "127.0.0.1", "certDir": directory},
            "leaderElection": {"leaderElect": false},
            "internalCertManagement": {"enable": false},
            "clientConnection": limit,
            "controller": {"groupKindConcurrency": {
                "Job.batch": 5, "Workload.kueue.x-k8s.io": 10, "LocalQueue.kueue.x-k8s.io": 5,
                "Cohort.kueue.x-k8s.io": 1, "ClusterQueue.kueue.x-k8s.io": 5, "ResourceFlavor.kueue.x-k8s.io": 1,
            }},
            "integrations": {"frameworks": ["batch/job"]},
        });
        let file = directory.join("configuration.yaml");
        fs::write(&file, configuration.to_string()).unwrap();
        let mut command = Command::new(&self.binary);
        command.arg("--config").arg(file).arg("--feature-gates=VisibilityOnDemand=false");
        command.arg("--kubeconfig").arg(cluster.kubeconfig_path(user));
        let process = Process::start(command, directory.join("kueue.log"));
        until_listening(&process, webhook).await;
        self.register_webhooks(&client, webhook, &certificate.cert.pem()).await;
        process
    }

    async fn register_webhooks(&self, client: &Client, port: u16, certificate: &str) {
        for mut configuration in self.read("config/components/webhook/manifests.yaml") {
            let webhooks = configuration["webhooks"].as_array_mut().unwrap();
            webhooks.retain(|webhook| {
                let group = &webhook["rules"][0]["apiGroups"][0];
                group == "kueue.x-k8s.io" || group == "batch"
            });
            for webhook in webhooks {
                let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap();
                let url = format!("https://127.0.0.1:{port}{path}");
                webhook["clientConfig"] = json!({"url": url, "caBundle": BASE64_STANDARD.encode(certificate)});
            }
            let kind = configuration["kind"].as_str().unwrap().to_lowercase();
            create(client, &format!("/apis/admissionregistration.k8s.io/v1/{kind}s"), &configuration).await;
        }
    }

    /// All documents of a file, or of the files in a directory.
    fn read(&self, path: &str) -> Vec<Value> {
        let path = self.manifests.join(path);
        let files = if path.is_dir() {
            let mut files: Vec<PathBuf> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
            files.sort();
            files
        } else {
            vec![path]
        };
        let texts = files.into_iter().map(|file| fs::read_to_string(file).unwrap());
        let documents = |text: String| {
            let parts = text.split("\n---").map(str::trim).filter(|part| !part.trim_matches('-').trim().is_empty());
            parts.map(|part| serde_saphyr::from_str(part).unwrap()).collect::<Vec<Value>>()
        };
        texts.flat_map(documents).collect()
    }
}

/// More room than any bench fills, and who admits.
async fn queues(client: &Client, checks: &[&str]) {
    create_own(client, "ResourceFlavor", "default", json!({})).await;
    let resource = json!({"name": "cpu", "nominalQuota": "1000000"});
    let group = json!({"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [resource]}]});
    let mut queue = json!({"namespaceSelector": {}, "resourceGroups": [group]});
    if !checks.is_empty() {
        let checks: Vec<Value> = checks.iter().map(|name| json!({ "name": name })).collect();
        queue["admissionChecksStrategy"] = json!({ "admissionChecks": checks });
    }
    create_own(client, "ClusterQueue", QUEUE, queue).await;
    let local = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": QUEUE},
        "spec": {"clusterQueue": QUEUE},
    });
    create(client, &format!("{API}/namespaces/{NAMESPACE}/localqueues"), &local).await;
}

async fn create_own(client: &Client, kind: &str, name: &str, spec: Value) {
    let object =
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec});
    create(client, &format!("{API}/{}s", kind.to_lowercase()), &object).await;
}

/// Tries again while CRDs are not served yet, or webhooks do not answer yet.
async fn create(client: &Client, collection: &str, object: &Value) {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        match kubeio::create(client, collection, object.to_string().into_bytes(), ANSWER_WITHIN).await {
            Ok(_) => return,
            Err(error) if error.is_already_exists() => return,
            Err(CallError::Refused(refusal)) if matches!(refusal.code, 404 | 500) && Instant::now() < deadline => {
                sleep(Duration::from_millis(200)).await;
            }
            Err(error) => panic!("creating {} in {collection}: {error}", object["metadata"]["name"]),
        }
    }
}

async fn until_active(client: &Client, path: &str) {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        let object: Value = kubeio::get(client, path, ANSWER_WITHIN).await.unwrap();
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|condition| condition["type"] == "Active" && condition["status"] == "True") {
            return;
        }
        assert!(Instant::now() < deadline, "{path} is not active: {conditions:?}");
        sleep(Duration::from_millis(200)).await;
    }
}

async fn until_listening(process: &Process, port: u16) {
    let deadline = Instant::now() + READY_WITHIN;
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        assert!(Instant::now() < deadline, "Kueue does not listen:\n{}", process.log());
        sleep(Duration::from_millis(100)).await;
    }
}

/// Free a moment ago; nobody else here asks for ports.
fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
