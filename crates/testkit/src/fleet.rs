//! A management cluster and its workers, as a scenario sees them: clients, and nothing about what is behind them.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use jobferry_api::{SYSTEM_NAMESPACE, Worker};
use jobferry_dispatcher::{Connect, ConnectError};
use jobferry_kubeio::{self as kubeio, CallError, Collection, Event};
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use serde_json::{Value, json};

/// One answer of a cluster.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// What a scenario waits for must come within this time: the quarantine of a move is 75 s, and real clusters share two
/// busy cores.
const HAPPENS_WITHIN: Duration = Duration::from_secs(150);

/// A management cluster with a dispatcher, and its workers.
#[derive(Clone)]
pub struct Fleet {
    /// The management cluster.
    pub manager: Client,
    /// The workers, by name.
    pub workers: BTreeMap<String, Client>,
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

/// A place in one cluster where Jobs live.
#[derive(Clone)]
pub struct Place {
    client: Client,
    namespace: String,
}

impl Fleet {
    /// Installs the CRDs and registers the workers on the management cluster. Their Secrets are somebody else's matter.
    pub async fn register_workers(&self) -> Result<(), ScenarioError> {
        for definition in jobferry_api::custom_resource_definitions() {
            let definition = serde_json::to_value(definition).unwrap_or_default();
            create(&self.manager, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
        }
        create_namespace(&self.manager, SYSTEM_NAMESPACE).await?;
        for name in self.workers.keys() {
            let worker = json!({
                "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker",
                "metadata": {"name": name, "labels": {"name": name}}, "spec": {"kubeconfigSecret": name},
            });
            // A CRD is served a moment after it was created.
            for attempt in 0.. {
                match create(&self.manager, "/apis/jobferry.dev/v1alpha1/workers", &worker).await {
                    Err(_) if attempt < 100 => tokio::time::sleep(Duration::from_millis(100)).await,
                    outcome => {
                        outcome?;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Creates an object on the management cluster, unless it exists.
    pub async fn create_on_manager(&self, collection: &str, object: &Value) -> Result<(), ScenarioError> {
        create(&self.manager, collection, object).await
    }

    /// Makes a namespace in every cluster, so that scenarios on a shared fleet do not meet.
    pub async fn namespace(&self, name: &str) -> Result<Namespace<'_>, ScenarioError> {
        for client in std::iter::once(&self.manager).chain(self.workers.values()) {
            create_namespace(client, name).await?;
            // Pods are refused before it exists.
            let account = format!("/api/v1/namespaces/{name}/serviceaccounts");
            until_exists(client, &account, "default").await?;
        }
        Ok(Namespace { fleet: self, name: name.to_owned() })
    }
}

/// One namespace, in all clusters of a fleet.
pub struct Namespace<'a> {
    fleet: &'a Fleet,
    name: String,
}

impl Namespace<'_> {
    /// Its part on the management cluster.
    pub fn manager(&self) -> Place {
        Place { client: self.fleet.manager.clone(), namespace: self.name.clone() }
    }

    /// Its part on a worker.
    pub fn worker(&self, name: &str) -> Option<Place> {
        let client = self.fleet.workers.get(name)?.clone();
        Some(Place { client, namespace: self.name.clone() })
    }

    /// Its parts on all workers.
    pub fn workers(&self) -> impl Iterator<Item = Place> {
        self.fleet.workers.values().map(|client| Place { client: client.clone(), namespace: self.name.clone() })
    }
}

impl Place {
    /// Submits a Job.
    pub async fn create(&self, job: &Value) -> Result<(), ScenarioError> {
        create(&self.client, &self.path("batch/v1", "jobs"), job).await
    }

    /// Reads a Job.
    pub async fn get(&self, name: &str) -> Result<Job, ScenarioError> {
        let path = format!("{}/{name}", self.path("batch/v1", "jobs"));
        let read = kubeio::get(&self.client, &path, ANSWER_WITHIN).await;
        read.map_err(|source| ScenarioError::Call { what: format!("read Job {name}"), source })
    }

    /// Merges a change into a Job.
    pub async fn change(&self, name: &str, change: &Value) -> Result<(), ScenarioError> {
        let path = format!("{}/{name}", self.path("batch/v1", "jobs"));
        let body = change.to_string().into_bytes();
        let changed = kubeio::patch(&self.client, &path, kubeio::Patch::Merge, body, ANSWER_WITHIN).await;
        changed.map(drop).map_err(|source| ScenarioError::Call { what: format!("change Job {name}"), source })
    }

    /// Deletes a Job, its pods in the background.
    pub async fn delete(&self, name: &str) -> Result<(), ScenarioError> {
        let path = format!("{}/{name}", self.path("batch/v1", "jobs"));
        let options = json!({"propagationPolicy": "Background"}).to_string().into_bytes();
        let deleted = kubeio::delete(&self.client, &path, options, ANSWER_WITHIN).await;
        deleted.map(drop).map_err(|source| ScenarioError::Call { what: format!("delete Job {name}"), source })
    }

    /// How many pods there are.
    pub async fn pods(&self) -> Result<usize, ScenarioError> {
        let list: Result<Value, _> = kubeio::get(&self.client, &self.path("v1", "pods"), ANSWER_WITHIN).await;
        let list = list.map_err(|source| ScenarioError::Call { what: "list pods".into(), source })?;
        Ok(list["items"].as_array().map_or(0, Vec::len))
    }

    /// Waits until the Job is as wanted, and returns it.
    pub async fn until(&self, name: &str, what: &str, wanted: impl Fn(&Job) -> bool) -> Result<Job, ScenarioError> {
        let mut last = None;
        let wait = self.watch(name, |job| {
            last = job.cloned();
            job.is_some_and(&wanted)
        });
        let met = tokio::time::timeout(HAPPENS_WITHIN, wait).await.is_ok();
        match last {
            Some(job) if met => Ok(job),
            last => Err(missed(&format!("Job {name}: {what}"), last.as_ref())),
        }
    }

    /// Waits until there is no Job of that name.
    pub async fn until_gone(&self, name: &str) -> Result<(), ScenarioError> {
        let wait = self.watch(name, |job| job.is_none());
        tokio::time::timeout(HAPPENS_WITHIN, wait).await.map_err(|_| missed(&format!("Job {name}: gone"), None))
    }

    /// Follows one Job until `enough` says so of its state (`None`: it does not exist).
    async fn watch(&self, name: &str, mut enough: impl FnMut(Option<&Job>) -> bool) {
        let jobs = Collection::new(self.path("batch/v1", "jobs"), |job: &Job| {
            job.metadata.resource_version.as_deref().unwrap_or_default()
        });
        let mut events = pin!(kubeio::watch(self.client.clone(), jobs.fields(format!("metadata.name={name}"))));
        while let Some(event) = events.next().await {
            let done = match &event {
                Event::Reset(jobs) => enough(jobs.first()),
                Event::Applied(job) => enough(Some(job)),
                Event::Deleted(_) => enough(None),
                Event::Interrupted(_) | Event::Resumed => false,
            };
            if done {
                return;
            }
        }
    }

    fn path(&self, version: &str, plural: &str) -> String {
        let root = if version.contains('/') { "apis" } else { "api" };
        format!("/{root}/{version}/namespaces/{}/{plural}", self.namespace)
    }
}

fn missed(what: &str, last: Option<&Job>) -> ScenarioError {
    let last = last.map_or_else(|| "nothing".into(), |job| serde_json::to_string(&job.status).unwrap_or_default());
    ScenarioError::Missed { what: what.to_owned(), last }
}

async fn create_namespace(client: &Client, name: &str) -> Result<(), ScenarioError> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    create(client, "/api/v1/namespaces", &namespace).await
}

async fn create(client: &Client, path: &str, object: &Value) -> Result<(), ScenarioError> {
    match kubeio::create(client, path, object.to_string().into_bytes(), ANSWER_WITHIN).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_already_exists() => Ok(()),
        Err(source) => {
            Err(ScenarioError::Call { what: format!("create {} in {path}", object["metadata"]["name"]), source })
        }
    }
}

async fn until_exists(client: &Client, collection: &str, name: &str) -> Result<(), ScenarioError> {
    let objects = Collection::new(collection, |object: &Value| {
        object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
    });
    let mut events = pin!(kubeio::watch(client.clone(), objects.fields(format!("metadata.name={name}"))));
    let wait = async {
        while let Some(event) = events.next().await {
            if matches!(&event, Event::Applied(_)) || matches!(&event, Event::Reset(items) if !items.is_empty()) {
                return;
            }
        }
    };
    let what = format!("{name} in {collection}");
    tokio::time::timeout(HAPPENS_WITHIN, wait).await.map_err(|_| missed(&what, None))
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
