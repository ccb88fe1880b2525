//! Where Jobs live: a namespace of one cluster.

use std::time::Duration;

use jobferry_kubeio::{self as kubeio, Collection};
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use serde_json::{Value, json};

use super::wait::{create, follow, missed};
use super::{ANSWER_WITHIN, Fleet, HAPPENS_WITHIN, ScenarioError};

/// Between two looks at a set of objects.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// One namespace, in all clusters of a fleet.
pub struct Namespace<'a> {
    fleet: &'a Fleet,
    name: String,
}

/// A place in one cluster where Jobs live.
#[derive(Clone)]
pub struct Place {
    client: Client,
    namespace: String,
}

/// What becomes of the pods of a Job that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

impl<'a> Namespace<'a> {
    pub(super) fn new(fleet: &'a Fleet, name: &str) -> Self {
        Self { fleet, name: name.to_owned() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its part on the management cluster.
    pub fn manager(&self) -> Place {
        Place { client: self.fleet.manager.clone(), namespace: self.name.clone() }
    }

    /// Its part on a worker.
    pub fn worker(&self, name: &str) -> Place {
        Place { client: self.fleet.worker(name).clone(), namespace: self.name.clone() }
    }

    /// Its parts on all workers.
    pub fn workers(&self) -> impl Iterator<Item = Place> {
        self.fleet.workers.values().map(|client| Place { client: client.clone(), namespace: self.name.clone() })
    }

    /// Labels it on the management cluster.
    pub async fn label(&self, key: &str, value: &str) -> Result<(), ScenarioError> {
        let change = json!({"metadata": {"labels": {key: value}}});
        self.fleet.change_on_manager(&format!("/api/v1/namespaces/{}", self.name), &change).await
    }

    /// How many pods there are on all workers together: more than a Job asks for means that it ran twice.
    pub async fn pods_on_workers(&self) -> Result<usize, ScenarioError> {
        let mut sum = 0;
        for worker in self.workers() {
            sum += worker.pods().await?;
        }
        Ok(sum)
    }

    /// Waits until there are so many, no more and no fewer: the pods of deleted Jobs go a moment after them.
    pub async fn until_pods_on_workers(&self, wanted: usize) -> Result<(), ScenarioError> {
        let wait = async {
            while self.pods_on_workers().await? != wanted {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Ok(())
        };
        let met = tokio::time::timeout(HAPPENS_WITHIN, wait).await;
        met.unwrap_or_else(|_| Err(missed(&format!("{wanted} pods in {}", self.name), None::<()>)))
    }

    /// How many Jobs there are on all workers together.
    pub async fn mirrors(&self) -> Result<usize, ScenarioError> {
        let mut sum = 0;
        for worker in self.workers() {
            sum += worker.jobs().await?.len();
        }
        Ok(sum)
    }
}

impl Place {
    /// Submits a Job.
    pub async fn create(&self, job: &Value) -> Result<(), ScenarioError> {
        create(&self.client, &self.path("batch/v1", "jobs"), job).await
    }

    /// Creates another object of this namespace.
    pub async fn create_other(&self, version: &str, plural: &str, object: &Value) -> Result<(), ScenarioError> {
        create(&self.client, &self.path(version, plural), object).await
    }

    /// Reads another object of this namespace.
    pub async fn get_other(&self, version: &str, plural: &str, name: &str) -> Result<Value, ScenarioError> {
        let path = format!("{}/{name}", self.path(version, plural));
        let read = kubeio::get(&self.client, &path, ANSWER_WITHIN).await;
        read.map_err(|source| ScenarioError::Call { what: format!("read {path}"), source })
    }

    /// Waits until one of the objects of a kind is as wanted.
    pub async fn until_any(
        &self,
        version: &str,
        plural: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<(), ScenarioError> {
        let path = self.path(version, plural);
        let wait = async {
            loop {
                let list: Result<Value, _> = kubeio::get(&self.client, &path, ANSWER_WITHIN).await;
                let list = list.map_err(|source| ScenarioError::Call { what: format!("list {path}"), source })?;
                if list["items"].as_array().is_some_and(|items| items.iter().any(&wanted)) {
                    return Ok(());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let found = tokio::time::timeout(HAPPENS_WITHIN, wait).await;
        found.unwrap_or_else(|_| Err(missed(&format!("{what} in {path}"), None::<()>)))
    }

    /// Reads a Job.
    pub async fn get(&self, name: &str) -> Result<Job, ScenarioError> {
        let read = kubeio::get(&self.client, &self.job(name), ANSWER_WITHIN).await;
        read.map_err(|source| ScenarioError::Call { what: format!("read Job {name}"), source })
    }

    /// All Jobs.
    pub async fn jobs(&self) -> Result<Vec<Job>, ScenarioError> {
        #[derive(serde::Deserialize)]
        struct List {
            items: Vec<Job>,
        }
        let read = kubeio::get::<List>(&self.client, &self.path("batch/v1", "jobs"), ANSWER_WITHIN).await;
        let list = read.map_err(|source| ScenarioError::Call { what: "list Jobs".into(), source })?;
        Ok(list.items)
    }

    /// Merges a change into a Job.
    pub async fn change(&self, name: &str, change: &Value) -> Result<(), ScenarioError> {
        self.patch(&self.job(name), change).await
    }

    /// Merges a change into the status of a Job.
    pub async fn change_status(&self, name: &str, status: &Value) -> Result<(), ScenarioError> {
        self.patch(&format!("{}/status", self.job(name)), &json!({ "status": status })).await
    }

    async fn patch(&self, path: &str, change: &Value) -> Result<(), ScenarioError> {
        let body = change.to_string().into_bytes();
        let changed = kubeio::patch(&self.client, path, kubeio::Patch::Merge, body, ANSWER_WITHIN).await;
        changed.map(drop).map_err(|source| ScenarioError::Call { what: format!("change {path}"), source })
    }

    /// Deletes a Job, its pods in the background.
    pub async fn delete(&self, name: &str) -> Result<(), ScenarioError> {
        self.delete_with(name, Propagation::Background).await
    }

    /// Deletes a Job.
    pub async fn delete_with(&self, name: &str, pods: Propagation) -> Result<(), ScenarioError> {
        let options = json!({"propagationPolicy": format!("{pods:?}")}).to_string().into_bytes();
        let deleted = kubeio::delete(&self.client, &self.job(name), options, ANSWER_WITHIN).await;
        deleted.map(drop).map_err(|source| ScenarioError::Call { what: format!("delete Job {name}"), source })
    }

    /// How many pods there are.
    pub async fn pods(&self) -> Result<usize, ScenarioError> {
        let list: Result<Value, _> = kubeio::get(&self.client, &self.path("v1", "pods"), ANSWER_WITHIN).await;
        let list = list.map_err(|source| ScenarioError::Call { what: "list pods".into(), source })?;
        Ok(list["items"].as_array().map_or(0, Vec::len))
    }

    /// Waits until no pod is left.
    pub async fn until_no_pods(&self) -> Result<(), ScenarioError> {
        let wait = async {
            while self.pods().await? > 0 {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Ok(())
        };
        let gone = tokio::time::timeout(HAPPENS_WITHIN, wait).await;
        gone.unwrap_or_else(|_| Err(missed(&format!("no pods left in {}", self.namespace), None::<()>)))
    }

    /// Waits until the Job is as wanted, and returns it.
    pub async fn until(&self, name: &str, what: &str, wanted: impl Fn(&Job) -> bool) -> Result<Job, ScenarioError> {
        let mut last = None;
        let wait = follow(&self.client, self.collection(), name, |job| {
            last = job.cloned();
            job.is_some_and(&wanted)
        });
        let met = tokio::time::timeout(HAPPENS_WITHIN, wait).await.is_ok();
        match last {
            Some(job) if met => Ok(job),
            last => Err(missed(&format!("Job {name}: {what}"), last.map(|job| job.status))),
        }
    }

    /// Waits until there is no Job of that name.
    pub async fn until_gone(&self, name: &str) -> Result<(), ScenarioError> {
        let wait = follow(&self.client, self.collection(), name, |job| job.is_none());
        let gone = tokio::time::timeout(HAPPENS_WITHIN, wait).await;
        gone.map_err(|_| missed(&format!("Job {name}: gone"), None::<()>))
    }

    fn collection(&self) -> Collection<Job> {
        Collection::new(self.path("batch/v1", "jobs"), |job: &Job| {
            job.metadata.resource_version.as_deref().unwrap_or_default()
        })
    }

    fn job(&self, name: &str) -> String {
        format!("{}/{name}", self.path("batch/v1", "jobs"))
    }

    fn path(&self, version: &str, plural: &str) -> String {
        let root = if version.contains('/') { "apis" } else { "api" };
        format!("/{root}/{version}/namespaces/{}/{plural}", self.namespace)
    }
}
