//! A management cluster, its workers and a dispatcher, as a scenario sees them: clients and a few levers, and nothing
//! about what kind of clusters they are.
#![allow(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test that asks for what is not there fails by panicking"
)]

mod objects;
mod place;
mod wait;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jobferry_api::{SYSTEM_NAMESPACE, Worker, conditions};
use jobferry_dispatcher::{Connect, ConnectError, Options};
use jobferry_kubeio::{self as kubeio, CallError};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub use objects::Objects;
pub use place::{Namespace, Place, Propagation};

use crate::controls::{Controls, secret};
use crate::gate::Closed;
use crate::mortal::Life;
use wait::{create, create_namespace, until_object};

/// One answer of a cluster.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// What a scenario waits for must come within this time: the quarantine of a move is over a minute, and real clusters share two
/// busy cores.
const HAPPENS_WITHIN: Duration = Duration::from_secs(180);

const WORKERS: &str = "/apis/jobferry.dev/v1alpha1/workers";
const POLICIES: &str = "/apis/jobferry.dev/v1alpha1/dispatchpolicies";

/// A management cluster with a dispatcher, and its workers.
#[derive(Clone)]
pub struct Fleet {
    /// The management cluster.
    pub manager: Client,
    /// The workers, by name.
    pub workers: BTreeMap<String, Client>,
    pub(crate) controls: Arc<Controls>,
}

/// Something that a scenario expected did not come about.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// A request failed.
    #[error("{what}: {source}")]
    Call {
        /// What was asked.
        what: String,
        /// What came back.
        source: CallError,
    },
    /// It did not happen in time.
    #[error("{what} did not happen in {HAPPENS_WITHIN:?}; last seen: {last}")]
    Missed {
        /// What was waited for.
        what: String,
        /// The object when the wait ended.
        last: String,
    },
}

impl Fleet {
    /// Installs the CRDs and registers all workers on the management cluster.
    pub(crate) async fn set_up(&self) -> Result<(), ScenarioError> {
        install_crds(&self.manager).await?;
        for name in self.workers.keys() {
            self.write_secret(name).await?;
            self.register(name).await?;
        }
        Ok(())
    }

    /// The names of two workers.
    pub fn two_workers(&self) -> [&str; 2] {
        let mut names = self.workers.keys().map(String::as_str);
        match (names.next(), names.next()) {
            (Some(first), Some(second)) => [first, second],
            _ => panic!("this scenario wants two workers"),
        }
    }

    /// What the dispatcher tells of itself, as Prometheus reads it.
    pub fn metrics(&self) -> String {
        self.controls.dispatchers.metrics()
    }

    /// Makes a namespace in every cluster, so that scenarios on a shared fleet do not meet.
    pub async fn namespace(&self, name: &str) -> Result<Namespace<'_>, ScenarioError> {
        let all: Vec<&str> = self.workers.keys().map(String::as_str).collect();
        self.namespace_on(name, &all).await
    }

    /// Makes a namespace on the manager and on these workers only.
    pub async fn namespace_on(&self, name: &str, workers: &[&str]) -> Result<Namespace<'_>, ScenarioError> {
        let chosen = workers.iter().map(|worker| self.worker(worker));
        for client in std::iter::once(&self.manager).chain(chosen) {
            create_namespace(client, name).await?;
        }
        Ok(Namespace::new(self, name))
    }

    /// Makes a namespace on one worker, later than on the others.
    pub async fn add_namespace(&self, name: &str, worker: &str) -> Result<(), ScenarioError> {
        create_namespace(self.worker(worker), name).await
    }

    /// The client of a worker.
    pub fn worker(&self, name: &str) -> &Client {
        self.workers.get(name).unwrap_or_else(|| panic!("there is no worker {name}"))
    }

    /// Registers a worker, labelled with its name.
    pub async fn register(&self, name: &str) -> Result<(), ScenarioError> {
        register(&self.manager, name).await
    }

    /// Changes a `Worker`.
    pub async fn change_worker(&self, name: &str, change: &Value) -> Result<(), ScenarioError> {
        self.change_on_manager(&format!("{WORKERS}/{name}"), change).await
    }

    /// Asks for the deletion of a `Worker`.
    pub async fn delete_worker(&self, name: &str) -> Result<(), ScenarioError> {
        self.delete_on_manager(&format!("{WORKERS}/{name}")).await
    }

    /// Waits until a `Worker` is as wanted (`None`: it does not exist).
    pub async fn until_worker(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(Option<&Value>) -> bool,
    ) -> Result<(), ScenarioError> {
        until_object(&self.manager, WORKERS, name, what, wanted).await
    }

    /// What the dispatcher reports of a worker.
    pub async fn worker_status(&self, name: &str) -> Result<Value, ScenarioError> {
        let worker: Result<Value, _> = kubeio::get(&self.manager, &format!("{WORKERS}/{name}"), ANSWER_WITHIN).await;
        let worker = worker.map_err(|source| ScenarioError::Call { what: format!("read Worker {name}"), source })?;
        Ok(worker["status"].clone())
    }

    /// Takes the finalizers off a `Worker`, if it still exists, as `jobferry worker forget` does.
    pub async fn forget_worker(&self, name: &str) -> Result<(), ScenarioError> {
        match self.change_worker(name, &json!({"metadata": {"finalizers": null}})).await {
            Err(ScenarioError::Call { source, .. }) if source.is_not_found() => Ok(()),
            outcome => outcome,
        }
    }

    /// Makes everything as it was at the start, whatever the last scenario left behind.
    pub async fn restore(&self) -> Result<(), ScenarioError> {
        self.stop_dispatchers().await;
        for worker in self.workers.keys() {
            self.mend(worker);
            self.write_secret(worker).await?;
            self.register(worker).await?;
            self.change_worker(worker, &json!({"spec": {"cordoned": false}})).await?;
            // What an earlier dispatcher reported must not be taken for the next one's word.
            self.change_worker(&format!("{worker}/status"), &json!({"status": {"conditions": null}})).await?;
        }
        self.start_dispatcher().await;
        for worker in self.workers.keys() {
            self.until_connected(worker, true).await?;
        }
        Ok(())
    }

    /// Waits until the dispatcher reports that a worker is connected, or that it is not.
    pub async fn until_connected(&self, name: &str, connected: bool) -> Result<(), ScenarioError> {
        let wanted = if connected { "True" } else { "False" };
        let what = format!("Connected={wanted}");
        self.until_worker(name, &what, |worker| {
            worker.and_then(connected_condition).is_some_and(|c| c["status"] == wanted)
        })
        .await
    }

    /// Creates a `DispatchPolicy`.
    pub async fn create_policy(&self, name: &str, spec: &Value) -> Result<(), ScenarioError> {
        let policy = json!({
            "apiVersion": "jobferry.dev/v1alpha1", "kind": "DispatchPolicy", "metadata": {"name": name}, "spec": spec,
        });
        create(&self.manager, POLICIES, &policy).await
    }

    /// Changes a `DispatchPolicy`.
    pub async fn change_policy(&self, name: &str, change: &Value) -> Result<(), ScenarioError> {
        self.change_on_manager(&format!("{POLICIES}/{name}"), change).await
    }

    /// Deletes a `DispatchPolicy`.
    pub async fn delete_policy(&self, name: &str) -> Result<(), ScenarioError> {
        self.delete_on_manager(&format!("{POLICIES}/{name}")).await
    }

    /// Writes the Secret by which the dispatcher reaches a worker, as it should be.
    pub async fn write_secret(&self, worker: &str) -> Result<(), ScenarioError> {
        self.put_secret(&self.controls.secret(worker)).await
    }

    /// Writes a Secret called `name` with the kubeconfig of `worker`, changed.
    pub async fn write_secret_as(
        &self,
        name: &str,
        worker: &str,
        change: impl FnOnce(&str) -> String,
    ) -> Result<(), ScenarioError> {
        let kubeconfig = self.controls.kubeconfigs.get(worker).map_or("", String::as_str);
        self.put_secret(&secret(name, &change(kubeconfig))).await
    }

    /// Deletes the Secret by which the dispatcher reaches a worker.
    pub async fn delete_secret(&self, worker: &str) -> Result<(), ScenarioError> {
        self.delete_on_manager(&format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets/{worker}")).await
    }

    async fn put_secret(&self, secret: &Value) -> Result<(), ScenarioError> {
        let secrets = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets");
        create(&self.manager, &secrets, secret).await?;
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        self.change_on_manager(&format!("{secrets}/{name}"), secret).await
    }

    async fn change_on_manager(&self, path: &str, change: &Value) -> Result<(), ScenarioError> {
        let body = change.to_string().into_bytes();
        let changed = kubeio::patch(&self.manager, path, kubeio::Patch::Merge, body, ANSWER_WITHIN).await;
        changed.map(drop).map_err(|source| ScenarioError::Call { what: format!("change {path}"), source })
    }

    async fn delete_on_manager(&self, path: &str) -> Result<(), ScenarioError> {
        let deleted = kubeio::delete(&self.manager, path, b"{}".to_vec(), ANSWER_WITHIN).await;
        deleted.map(drop).map_err(|source| ScenarioError::Call { what: format!("delete {path}"), source })
    }

    /// Creates an object on a cluster, unless it exists.
    pub async fn create_on(&self, client: &Client, collection: &str, object: &Value) -> Result<(), ScenarioError> {
        create(client, collection, object).await
    }

    /// Closes the road from the dispatcher to a worker. The worker lives on.
    pub fn cut(&self, worker: &str) {
        self.controls.set_road(worker, false);
    }

    /// Opens it again.
    pub fn mend(&self, worker: &str) {
        self.controls.set_road(worker, true);
    }

    /// Stops every dispatcher of this fleet in an orderly way.
    pub async fn stop_dispatchers(&self) {
        self.controls.dispatchers.stop().await;
    }

    /// Starts a dispatcher, like the one that the fleet came with.
    pub async fn start_dispatcher(&self) {
        self.controls.dispatchers.start().await;
    }

    /// Starts a dispatcher that takes no lease: several of them work at once.
    pub async fn start_dispatcher_without_lease(&self) {
        self.controls.dispatchers.start_without_lease().await;
    }

    /// Starts a dispatcher that ends like a killed process right after this many of its writes to Jobs.
    pub async fn start_mortal_dispatcher(&self, writes: usize) -> Arc<Life> {
        self.controls.dispatchers.start_mortal(writes).await
    }

    /// Makes one worker a manager too, of the workers named, with a dispatcher of its own.
    pub async fn start_second_manager(&self, manager: &str, workers: &[&str]) -> Result<(), ScenarioError> {
        let client = self.worker(manager).clone();
        install_crds(&client).await?;
        for name in workers {
            let worker = json!({
                "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker",
                "metadata": {"name": name}, "spec": {"kubeconfigSecret": name},
            });
            create(&client, WORKERS, &worker).await?;
        }
        let connect = Direct::to(&self.workers);
        self.controls.dispatchers.start_for(client, |options| Options { connect, ..options }).await;
        Ok(())
    }

    /// Starts a dispatcher on the same manager that answers to another value of managedBy. It talks to the clusters by these
    /// clients, and has a Worker of its own for each of them: `other-NAME`.
    pub async fn start_other_dispatcher(
        &self,
        managed_by: &str,
        manager: Client,
        workers: BTreeMap<String, Client>,
    ) -> Result<(), ScenarioError> {
        let workers: BTreeMap<String, Client> =
            workers.into_iter().map(|(name, client)| (format!("other-{name}"), client)).collect();
        for name in workers.keys() {
            let worker = json!({
                "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker",
                "metadata": {"name": name}, "spec": {"kubeconfigSecret": name, "managedBy": managed_by},
            });
            create(&self.manager, WORKERS, &worker).await?;
        }
        let (connect, managed_by) = (Direct::to(&workers), managed_by.to_owned());
        let change = |options| Options { connect, managed_by, vitals: Arc::default(), ..options };
        self.controls.dispatchers.start_for(manager, change).await;
        Ok(())
    }

    /// Closes a namespace of a worker for new Jobs.
    pub async fn close(&self, worker: &str, namespace: &str, why: Closed) -> Result<(), ScenarioError> {
        match self.controls.gates.as_ref().and_then(|gates| gates.get(worker)) {
            Some(gate) => {
                gate.close(namespace, why);
                Ok(())
            }
            None => crate::admission::close(self.worker(worker), namespace, why).await,
        }
    }

    /// Opens it again.
    pub async fn reopen(&self, worker: &str, namespace: &str, why: Closed) -> Result<(), ScenarioError> {
        match self.controls.gates.as_ref().and_then(|gates| gates.get(worker)) {
            Some(gate) => {
                gate.open(namespace);
                Ok(())
            }
            None => crate::admission::reopen(self.worker(worker), namespace, why).await,
        }
    }

    /// Whether the clusters create the Jobs of CronJobs by themselves.
    pub fn runs_cron_jobs(&self) -> bool {
        self.controls.run_cron_jobs
    }
}

/// Installs our CRDs and the dispatcher's namespace, and waits until they are served.
async fn install_crds(manager: &Client) -> Result<(), ScenarioError> {
    for definition in jobferry_api::custom_resource_definitions() {
        let definition = serde_json::to_value(definition).unwrap_or_default();
        create(manager, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    }
    for collection in [WORKERS, POLICIES] {
        // The watch behind this goes on trying until the CRD is served, a moment after it was created.
        until_object(manager, collection, "none", "not there", |object| object.is_none()).await?;
    }
    create_namespace(manager, SYSTEM_NAMESPACE).await
}

fn connected_condition(worker: &Value) -> Option<&Value> {
    let list = worker["status"]["conditions"].as_array()?;
    list.iter().find(|condition| condition["type"] == conditions::CONNECTED)
}

/// Makes a fleet of clusters that are there already: registers the workers, and dispatches to them until `stop`.
pub async fn dispatch_between(
    manager: &Client,
    workers: &BTreeMap<String, Client>,
    wall_clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    stop: CancellationToken,
) -> Result<(), ScenarioError> {
    install_crds(manager).await?;
    for name in workers.keys() {
        register(manager, name).await?;
    }
    let options = Options::new(Direct::to(workers), wall_clock, 1);
    tokio::spawn(jobferry_dispatcher::run(manager.clone(), options, stop));
    Ok(())
}

/// Registers a worker, labelled with its name.
async fn register(manager: &Client, name: &str) -> Result<(), ScenarioError> {
    let worker = json!({
        "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker",
        "metadata": {"name": name, "labels": {"name": name}}, "spec": {"kubeconfigSecret": name},
    });
    create(manager, WORKERS, &worker).await
}

/// Reaches workers by clients that are there already.
pub struct Direct(pub BTreeMap<String, Client>);

impl Direct {
    /// For a dispatcher's options.
    pub fn to(workers: &BTreeMap<String, Client>) -> Arc<dyn Connect> {
        Arc::new(Self(workers.clone()))
    }
}

impl Connect for Direct {
    fn connect<'a>(&'a self, worker: &'a Worker) -> BoxFuture<'a, Result<Client, ConnectError>> {
        let name = worker.metadata.name.as_deref().unwrap_or_default();
        let client = self.0.get(name).cloned();
        let client = client.ok_or_else(|| ConnectError::Kubeconfig(format!("there is no cluster {name}")));
        Box::pin(std::future::ready(client))
    }
}
