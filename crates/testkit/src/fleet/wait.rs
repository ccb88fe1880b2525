//! Creating objects, and waiting for them to be as wanted: by watching, never by asking again and again.

use std::pin::pin;

use futures::StreamExt;
use jobferry_kubeio::{self as kubeio, Collection, Event};
use kube::Client;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{ANSWER_WITHIN, HAPPENS_WITHIN, ScenarioError};

pub(super) fn missed(what: &str, last: Option<impl Serialize>) -> ScenarioError {
    let last = last.map_or_else(|| "nothing".into(), |last| serde_json::to_string(&last).unwrap_or_default());
    ScenarioError::Missed { what: what.to_owned(), last }
}

/// Creates an object, unless it exists.
pub(super) async fn create(client: &Client, path: &str, object: &Value) -> Result<(), ScenarioError> {
    match kubeio::create(client, path, object.to_string().into_bytes(), ANSWER_WITHIN).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_already_exists() => Ok(()),
        Err(source) => {
            Err(ScenarioError::Call { what: format!("create {} in {path}", object["metadata"]["name"]), source })
        }
    }
}

/// Creates a namespace and waits until pods can be created in it.
pub(super) async fn create_namespace(client: &Client, name: &str) -> Result<(), ScenarioError> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    create(client, "/api/v1/namespaces", &namespace).await?;
    // Pods are refused before it exists.
    until_exists(client, &format!("/api/v1/namespaces/{name}/serviceaccounts"), "default").await
}

pub(super) async fn until_exists(client: &Client, collection: &str, name: &str) -> Result<(), ScenarioError> {
    until_object(client, collection, name, "to exist", |object| object.is_some()).await
}

/// Waits until an object is as wanted (`None`: it does not exist).
pub(super) async fn until_object(
    client: &Client,
    collection: &str,
    name: &str,
    what: &str,
    wanted: impl Fn(Option<&Value>) -> bool,
) -> Result<(), ScenarioError> {
    let mut last = None;
    let objects = Collection::new(collection, |object: &Value| {
        object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
    });
    let wait = follow(client, objects, name, |object| {
        last = object.cloned();
        wanted(object)
    });
    let met = tokio::time::timeout(HAPPENS_WITHIN, wait).await.is_ok();
    if met { Ok(()) } else { Err(missed(&format!("{name} in {collection}: {what}"), last)) }
}

/// Waits for an object that is as wanted, whatever its name.
pub(super) async fn until_one(
    client: &Client,
    collection: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Result<Value, ScenarioError> {
    let objects = Collection::new(collection, |object: &Value| {
        object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
    });
    let mut events = pin!(kubeio::watch(client.clone(), objects));
    let found = async {
        while let Some(event) = events.next().await {
            let seen = match event {
                Event::Reset(objects) => objects,
                Event::Applied(object) => vec![object],
                Event::Deleted(_) | Event::Interrupted(_) | Event::Resumed => Vec::new(),
            };
            if let Some(found) = seen.into_iter().find(&wanted) {
                return Some(found);
            }
        }
        None
    };
    let found = tokio::time::timeout(HAPPENS_WITHIN, found).await.ok().flatten();
    found.ok_or_else(|| missed(&format!("{what} in {collection}"), None::<Value>))
}

/// Follows one object until `enough` says so of its state (`None`: it does not exist).
pub(super) async fn follow<T: DeserializeOwned + Send + 'static>(
    client: &Client,
    collection: Collection<T>,
    name: &str,
    mut enough: impl FnMut(Option<&T>) -> bool,
) {
    let mut events = pin!(kubeio::watch(client.clone(), collection.fields(format!("metadata.name={name}"))));
    while let Some(event) = events.next().await {
        let done = match &event {
            Event::Reset(objects) => enough(objects.first()),
            Event::Applied(object) => enough(Some(object)),
            Event::Deleted(_) => enough(None),
            Event::Interrupted(_) | Event::Resumed => false,
        };
        if done {
            return;
        }
    }
}
