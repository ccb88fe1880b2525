//! Kueue with MultiKueue: one on the manager and one on every worker, as it wants to be.
//!
//! Only its Job integration is on, and only the webhooks for Jobs and for its own kinds are registered: less than it ships
//! with.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jobferry_kubeio::CallError;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::programs::{Program, Webhooks};
use super::{LOOK_EVERY, Operator, OperatorError};
use crate::fleet::{Objects, ScenarioError};
use crate::real_cluster::READY_WITHIN;
use crate::{RealCluster, User};

/// The queue whose Jobs go to workers.
pub const MULTIKUEUE_QUEUE: &str = "multikueue";
/// The label by which Jobs name their queue.
pub const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

const OWN_NAMESPACE: &str = "kueue-system";
const API: &str = "/apis/kueue.x-k8s.io/v1beta2";

macro_rules! configuration {
    ($client_connection:literal) => {
        &[(
            "configuration.yaml",
            concat!(
                "apiVersion: config.kueue.x-k8s.io/v1beta2\n",
                "kind: Configuration\n",
                "namespace: kueue-system\n",
                "leaderElection: {leaderElect: false}\n",
                // Without certificates of its own it wants others at a place where only root can put them. Those of
                // webhooks that do not exist are its own affair; its real ones serve with what is in their directory.
                "internalCertManagement:\n",
                "  enable: true\n",
                "  webhookServiceName: unused-webhook-service\n",
                "  webhookSecretName: unused-certificate\n",
                "metrics: {bindAddress: '0'}\n",
                "health: {healthProbeBindAddress: '127.0.0.1:{health}'}\n",
                "webhook: {host: 127.0.0.1, port: {webhook}, certDir: '{certificates}'}\n",
                "clientConnection: ",
                $client_connection,
                "\n",
                "integrations: {frameworks: [batch/job]}\n",
                "controller:\n",
                "  groupKindConcurrency:\n",
                "    Job.batch: 5\n",
                "    Workload.kueue.x-k8s.io: 10\n",
                "    LocalQueue.kueue.x-k8s.io: 5\n",
                "    Cohort.kueue.x-k8s.io: 1\n",
                "    ClusterQueue.kueue.x-k8s.io: 5\n",
                "    ResourceFlavor.kueue.x-k8s.io: 1\n",
            ),
        )]
    };
}

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const JOB: &str = r#"{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "probe"}, "spec": {"template":
    {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}}}"#;

/// Kueue with the limits that it ships with.
pub const KUEUE: Program = Program {
    name: "kueue",
    manifests: &["config/components/crd/bases"],
    objects: "apiVersion: v1\n\
              kind: Namespace\n\
              metadata: {name: kueue-system}\n\
              ---\n\
              apiVersion: v1\n\
              kind: Secret\n\
              metadata: {name: unused-certificate, namespace: kueue-system}\n",
    webhooks: Some(Webhooks {
        configurations: "config/components/webhook/manifests.yaml",
        but: &[
            "appwrappers",
            "deployments",
            "jaxjobs",
            "jobsets",
            "leaderworkersets",
            "mpijobs",
            "paddlejobs",
            "pods",
            "pytorchjobs",
            "rayclusters",
            "rayjobs",
            "rayservices",
            "sparkapplications",
            "statefulsets",
            "tfjobs",
            "trainjobs",
            "xgboostjobs",
        ],
        converts: true,
        probe: (JOBS, JOB),
    }),
    files: configuration!("{qps: 300, burst: 500}"),
    arguments: &[
        "--config={directory}/configuration.yaml",
        "--kubeconfig={kubeconfig}",
        "--feature-gates=VisibilityOnDemand=false",
    ],
    environment: &[],
    fixed_port: None,
    ray_dashboard: false,
};

/// The same without a limit on requests to the own cluster: a negative rate is none. On those to workers there is none to
/// lift in this version.
pub const KUEUE_UNLIMITED: Program = Program { files: configuration!("{qps: -1, burst: 1}"), ..KUEUE };

/// A Kueue on every cluster: Jobs of the queue [`MULTIKUEUE_QUEUE`] on the manager run on one of the workers.
pub struct MultiKueue {
    /// The manager's comes first.
    operators: Vec<Operator>,
}

impl MultiKueue {
    /// Starts them, as [`User::Kueue`] everywhere, and waits until Jobs can be submitted in `namespace`.
    pub async fn start(
        program: &Program,
        manager: &RealCluster,
        workers: &[RealCluster],
        namespace: &str,
    ) -> Result<Self, OperatorError> {
        let mut operators = Vec::new();
        for cluster in std::iter::once(manager).chain(workers) {
            operators.push(Operator::start_as(User::Kueue, program, cluster).await?);
        }
        for worker in workers {
            Self::add_queue(worker, namespace, MULTIKUEUE_QUEUE).await?;
        }
        let set_up = Setup::of(manager).await?;
        set_up.join(workers).await.map_err(|source| refused(manager, source))?;
        let checks = json!({"admissionChecks": [{"name": MULTIKUEUE_QUEUE}]});
        set_up.queue(namespace, MULTIKUEUE_QUEUE, Some(checks)).await.map_err(|source| refused(manager, source))?;
        Ok(Self { operators })
    }

    /// Makes a queue with more room than any test fills, whose Jobs stay where they are, and waits until it admits.
    pub async fn add_queue(cluster: &RealCluster, namespace: &str, name: &str) -> Result<(), OperatorError> {
        let set_up = Setup::of(cluster).await?;
        set_up.queue(namespace, name, None).await.map_err(|source| refused(cluster, source))
    }

    /// The numbers of all its processes.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.operators.iter().map(Operator::id)
    }

    /// Waits for the end of the manager's.
    pub async fn ended(&mut self) -> OperatorError {
        match self.operators.first_mut() {
            Some(operator) => operator.ended().await,
            None => std::future::pending().await,
        }
    }
}

fn refused(cluster: &RealCluster, source: ScenarioError) -> OperatorError {
    OperatorError::Install { operator: KUEUE.name, cluster: cluster.name().to_owned(), source }
}

/// Kueue's objects on one cluster.
struct Setup(Client);

impl Setup {
    async fn of(cluster: &RealCluster) -> Result<Self, OperatorError> {
        Ok(Self(cluster.client(User::Admin).await?))
    }

    /// Makes the workers known to a manager.
    async fn join(&self, workers: &[RealCluster]) -> Result<(), ScenarioError> {
        let secrets = format!("/api/v1/namespaces/{OWN_NAMESPACE}/secrets");
        for worker in workers {
            let (name, kubeconfig) = (worker.name(), BASE64_STANDARD.encode(worker.kubeconfig(User::Kueue)));
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"kubeconfig": kubeconfig},
            });
            self.create_in(&secrets, &secret).await?;
            let source = json!({"kubeConfig": {"locationType": "Secret", "location": name}});
            self.create("MultiKueueCluster", name, &json!({ "clusterSource": source })).await?;
        }
        let clusters: Vec<&str> = workers.iter().map(RealCluster::name).collect();
        self.create("MultiKueueConfig", MULTIKUEUE_QUEUE, &json!({ "clusters": clusters })).await?;
        let config = json!({"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": MULTIKUEUE_QUEUE});
        let check = json!({"controllerName": "kueue.x-k8s.io/multikueue", "parameters": config});
        self.create("AdmissionCheck", MULTIKUEUE_QUEUE, &check).await
    }

    async fn queue(&self, namespace: &str, name: &str, checks: Option<Value>) -> Result<(), ScenarioError> {
        self.create("ResourceFlavor", "default", &json!({})).await?;
        let resource = json!({"name": "cpu", "nominalQuota": "1000000"});
        let group = json!({"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [resource]}]});
        let mut queue = json!({"namespaceSelector": {}, "resourceGroups": [group]});
        if let Some(checks) = checks {
            queue["admissionChecksStrategy"] = checks;
        }
        self.create("ClusterQueue", name, &queue).await?;
        let local = object("LocalQueue", name, &json!({ "clusterQueue": name }));
        self.create_in(&format!("{API}/namespaces/{namespace}/localqueues"), &local).await?;
        Objects::on(&self.0, &format!("{API}/clusterqueues")).until(name, "active", is_active).await?;
        // Its webhook for Jobs is the last one that it serves.
        self.create_in(&format!("{JOBS}?dryRun=All"), &serde_json::from_str(JOB).unwrap_or_default()).await
    }

    async fn create(&self, kind: &str, name: &str, spec: &Value) -> Result<(), ScenarioError> {
        self.create_in(&format!("{API}/{}s", kind.to_lowercase()), &object(kind, name, spec)).await
    }

    /// It listens a while before it serves its webhooks; until then the API server fails.
    async fn create_in(&self, collection: &str, object: &Value) -> Result<(), ScenarioError> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            match Objects::on(&self.0, collection).create(object).await {
                Err(ScenarioError::Call { source: CallError::Refused(refusal), .. })
                    if refusal.code == 500 && Instant::now() < deadline =>
                {
                    sleep(LOOK_EVERY).await;
                }
                outcome => return outcome,
            }
        }
    }
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn is_active(queue: &Value) -> bool {
    let conditions = queue["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Active" && one["status"] == "True"))
}
