//! Objects of any kind, in one namespace of one cluster.

use jobferry_kubeio::{self as kubeio, CallError};
use kube::Client;
use serde_json::Value;

use super::wait::{create, until_object, until_one};
use super::{ANSWER_WITHIN, Fleet, ScenarioError};

/// The objects of one kind in a namespace of one cluster.
#[derive(Clone)]
pub struct Objects {
    client: Client,
    collection: String,
}

impl Fleet {
    /// Objects on the management cluster; `collection` is their path.
    pub fn on_manager(&self, collection: &str) -> Objects {
        Objects::on(&self.manager, collection)
    }

    /// Objects on a worker.
    pub fn on_worker(&self, worker: &str, collection: &str) -> Objects {
        Objects::on(self.worker(worker), collection)
    }
}

impl Objects {
    /// Those at this path.
    pub(crate) fn on(client: &Client, collection: &str) -> Self {
        Self { client: client.clone(), collection: collection.to_owned() }
    }

    /// Creates an object, unless it exists.
    pub async fn create(&self, object: &Value) -> Result<(), ScenarioError> {
        create(&self.client, &self.collection, object).await
    }

    /// Changes an object, as a user does.
    pub async fn change(&self, name: &str, change: &Value) -> Result<(), ScenarioError> {
        self.patch(name, change).await
    }

    /// Changes the status of an object, as its operator does.
    pub async fn report(&self, name: &str, status: &Value) -> Result<(), ScenarioError> {
        self.patch(&format!("{name}/status?fieldManager=operator"), &serde_json::json!({ "status": status })).await
    }

    /// Changes an object, as an operator does whose status is no subresource.
    pub async fn change_by_operator(&self, name: &str, change: &Value) -> Result<(), ScenarioError> {
        self.patch(&format!("{name}?fieldManager=operator"), change).await
    }

    async fn patch(&self, name: &str, change: &Value) -> Result<(), ScenarioError> {
        let path = format!("{}/{name}", self.collection);
        let body = change.to_string().into_bytes();
        let changed = kubeio::patch(&self.client, &path, kubeio::Patch::Merge, body, ANSWER_WITHIN).await;
        changed.map(drop).map_err(|source| failed("change", &path, source))
    }

    /// Deletes an object.
    pub async fn delete(&self, name: &str) -> Result<(), ScenarioError> {
        let path = format!("{}/{name}", self.collection);
        let deleted = kubeio::delete(&self.client, &path, b"{}".to_vec(), ANSWER_WITHIN).await;
        deleted.map(drop).map_err(|source| failed("delete", &path, source))
    }

    /// An object as it is now; `None` if there is none.
    pub async fn find(&self, name: &str) -> Result<Option<Value>, ScenarioError> {
        let path = format!("{}/{name}", self.collection);
        match kubeio::get(&self.client, &path, ANSWER_WITHIN).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.refusal().is_some_and(|refusal| refusal.code == 404) => Ok(None),
            Err(source) => Err(failed("read", &path, source)),
        }
    }

    /// Waits until an object is as wanted.
    pub async fn until(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value, ScenarioError> {
        until_object(&self.client, &self.collection, name, what, |object| object.is_some_and(&wanted)).await?;
        Ok(self.find(name).await?.unwrap_or_default())
    }

    /// Waits for an object, whatever its name.
    pub async fn until_one(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value, ScenarioError> {
        until_one(&self.client, &self.collection, what, wanted).await
    }

    /// Waits until an object is gone.
    pub async fn until_gone(&self, name: &str) -> Result<(), ScenarioError> {
        until_object(&self.client, &self.collection, name, "gone", |object| object.is_none()).await
    }
}

fn failed(what: &str, path: &str, source: CallError) -> ScenarioError {
    ScenarioError::Call { what: format!("{what} {path}"), source }
}
