//! The life of a namespace: its default ServiceAccount at the beginning, the removal of its content at the end.

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt, pin_mut};
use jobferry_kubeio::{self as kubeio, CallError, Collection, Event, Queue};
use kube::{Client, client::Body};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::discovery;

const DEADLINE: Duration = Duration::from_secs(15);
/// Content may take its time to go (pods have a grace period); this is how often it is looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Looks after namespaces until `shutdown`.
pub async fn run_namespaces(client: Client, shutdown: CancellationToken) {
    let namespaces = kubeio::watch(client.clone(), Collection::new("/api/v1/namespaces", version));
    let accounts = Collection::new("/api/v1/serviceaccounts", version).fields("metadata.name=default");
    let accounts = kubeio::watch(client.clone(), accounts);
    pin_mut!(namespaces, accounts);
    let queue: Queue<String> = Queue::new(Duration::from_millis(200), Duration::from_secs(30));
    loop {
        tokio::select! { biased;
            () = shutdown.cancelled() => return,
            Some(event) = namespaces.next() => match event {
                Event::Reset(list) => list.into_iter().for_each(|namespace: Seen| queue.add(namespace.metadata.name)),
                Event::Applied(namespace) => queue.add(namespace.metadata.name),
                Event::Interrupted(error) => tracing::warn!(%error, "namespaces cannot be watched"),
                Event::Deleted(_) | Event::Resumed => {}
            },
            Some(event) = accounts.next() => {
                // A default account that someone deleted comes back.
                if let Event::Deleted(account) = event {
                    queue.add(account.metadata.namespace);
                }
            }
            name = queue.next() => {
                match look_after(&client, &name).await {
                    Ok(true) => queue.forget(&name),
                    Ok(false) => queue.add_after(name.clone(), LOOK_AGAIN),
                    Err(error) => {
                        tracing::warn!(namespace = name, %error, "a namespace could not be looked after; trying again");
                        queue.retry(name.clone());
                    }
                }
                queue.done(&name);
            }
        }
    }
}

/// True when the namespace is as it should be.
async fn look_after(client: &Client, name: &str) -> Result<bool, CallError> {
    let path = format!("/api/v1/namespaces/{name}");
    let namespace: Value = match kubeio::get(client, &path, DEADLINE).await {
        Err(error) if error.is_not_found() => return Ok(true),
        other => other?,
    };
    if namespace["metadata"]["deletionTimestamp"].is_null() {
        give_default_account(client, name).await.map(|()| true)
    } else if empty(client, name).await? {
        finish(client, &path, namespace).await.map(|()| true)
    } else {
        Ok(false)
    }
}

async fn give_default_account(client: &Client, namespace: &str) -> Result<(), CallError> {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    match kubeio::get::<Seen>(client, &format!("{path}/default"), DEADLINE).await {
        Err(error) if error.is_not_found() => {}
        other => return other.map(drop),
    }
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    match kubeio::create(client, &path, account.to_string().into_bytes(), DEADLINE).await {
        Err(error) if error.is_already_exists() => Ok(()),
        other => other.map(drop),
    }
}

/// Deletes everything in a namespace; true when there was nothing left.
async fn empty(client: &Client, namespace: &str) -> Result<bool, CallError> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        items: Vec<Seen>,
    }
    let mut seen = BTreeSet::new();
    for kind in discovery::kinds(client).await?.into_iter().filter(|kind| kind.namespaced) {
        let list: List = kubeio::get(client, &kind.collection_in(namespace), DEADLINE).await?;
        for object in list.items {
            seen.insert(object.metadata.uid.clone());
            if object.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let options = json!({"propagationPolicy": "Background", "preconditions": {"uid": object.metadata.uid}});
            let path = kind.object(namespace, &object.metadata.name);
            match kubeio::delete(client, &path, options.to_string().into_bytes(), DEADLINE).await {
                Err(error) if !(error.is_not_found() || error.is_conflict()) => return Err(error),
                _ => {}
            }
        }
    }
    Ok(seen.is_empty())
}

/// Nothing is left: the API server may remove the namespace.
async fn finish(client: &Client, path: &str, mut namespace: Value) -> Result<(), CallError> {
    namespace["spec"]["finalizers"] = json!([]);
    let request = http::Request::put(format!("{path}/finalize"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Body::from(namespace.to_string().into_bytes()))
        .map_err(|error| CallError::Transport(error.to_string()))?;
    match kubeio::call(client, request, DEADLINE).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => other.map(drop),
    }
}

#[derive(Deserialize)]
struct Seen {
    metadata: Meta,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
}

fn version(seen: &Seen) -> &str {
    &seen.metadata.resource_version
}
