//! The connection to one worker: identity first, then its mirrors, for as long as the `Worker` exists.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use jobferry_api::{Worker, labels};
use jobferry_core::{placement::Link, workload::Mirror};
use jobferry_kubeio::{self as kubeio, Backoff, CallError, Collection, Event};
use kube::Client;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::{READ_DEADLINE, ServerVersion, Shared, lanes, report};

/// The identity of a cluster: the UID of its kube-system namespace, which lives exactly as long as the cluster does.
pub(crate) async fn identity_of(client: &Client) -> Result<String, CallError> {
    #[derive(Deserialize)]
    struct Namespace {
        metadata: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        uid: String,
    }
    let namespace: Namespace = kubeio::get(client, "/api/v1/namespaces/kube-system", READ_DEADLINE).await?;
    Ok(namespace.metadata.uid)
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    /// It does not answer; it may be back any moment.
    #[error("{0}")]
    Away(String),
    /// It must not be used until somebody changes something.
    #[error("{0}")]
    Unfit(String),
}

/// Connects, and connects again whenever it ends, until `stop`.
pub(crate) async fn keep_connected(shared: Arc<Shared>, worker: Worker, stop: CancellationToken) {
    let name = worker.metadata.name.clone().unwrap_or_default();
    let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30), shared.options.seed);
    loop {
        let connection = stop.child_token();
        let ended = tokio::select! { biased;
            () = stop.cancelled() => return,
            ended = connect_and_follow(&shared, &worker, &name, &connection, &mut backoff) => ended,
        };
        connection.cancel();
        tracing::warn!(worker = name, reason = %ended, "not connected");
        let link = match &ended {
            Ended::Unfit(why) => Link::Unfit { why: why.clone() },
            Ended::Away(_) => Link::Away { since: shared.clock.now().wall },
        };
        set_link(&shared, &name, link);
        report::disconnected(&shared, &name, &ended.to_string(), matches!(ended, Ended::Away(_))).await;
        tokio::select! { biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(backoff.next_delay()) => {}
        }
    }
}

async fn connect_and_follow(
    shared: &Arc<Shared>,
    worker: &Worker,
    name: &str,
    connection: &CancellationToken,
    backoff: &mut Backoff,
) -> Ended {
    let client = match shared.options.connect.connect(worker).await {
        Ok(client) => client,
        Err(error) => return Ended::Unfit(error.to_string()),
    };
    let identity = match check_identity(shared, name, &client).await {
        Ok(identity) => identity,
        Err(ended) => return ended,
    };
    let version = match kubeio::get::<ServerVersion>(&client, "/version", READ_DEADLINE).await {
        Ok(version) => version.git_version,
        Err(error) => return Ended::Away(error.to_string()),
    };
    lanes::start_worker_lane(shared, name, &client, connection);
    let mirrors = Collection::new("/apis/batch/v1/jobs", |mirror: &Mirror| &mirror.resource_version)
        .labels(format!("{}={}", labels::ORIGIN, shared.origin))
        .seed(shared.options.seed);
    let mut events = std::pin::pin!(kubeio::watch(client.clone(), mirrors));
    let mut live = false;
    while let Some(event) = events.next().await {
        // What comes after a break may come from another cluster behind the same address.
        if !live && matches!(event, Event::Reset(_) | Event::Resumed) {
            match check_identity(shared, name, &client).await {
                Ok(found) if found == identity => {}
                Ok(found) => return Ended::Unfit(format!("another cluster answers: {found} instead of {identity}")),
                Err(ended) => return ended,
            }
        }
        match event {
            Event::Reset(mirrors) => {
                let touched = shared.index.reset_mirrors(name, mirrors);
                connected(shared, name, &identity, &version, &mut live, backoff).await;
                shared.lanes.plan_all(touched);
            }
            Event::Resumed => connected(shared, name, &identity, &version, &mut live, backoff).await,
            Event::Applied(mirror) => shared.lanes.plan_all(shared.index.apply_mirror(name, mirror)),
            Event::Deleted(mirror) => shared.lanes.plan_all(shared.index.delete_mirror(name, mirror)),
            Event::Interrupted(error) => {
                if error.refusal().is_some_and(|refusal| refusal.code == 401) {
                    return Ended::Unfit(format!("the credentials are refused: {error}"));
                }
                if std::mem::take(&mut live) {
                    tracing::warn!(worker = name, %error, "connection lost; running work goes on");
                    set_link(shared, name, Link::Away { since: shared.clock.now().wall });
                    report::disconnected(shared, name, &error.to_string(), true).await;
                }
            }
        }
    }
    Ended::Away("the watch ended".into())
}

async fn connected(
    shared: &Arc<Shared>,
    name: &str,
    identity: &str,
    version: &str,
    live: &mut bool,
    backoff: &mut Backoff,
) {
    backoff.reset();
    if !std::mem::replace(live, true) {
        tracing::info!(worker = name, identity, version, "connected");
        set_link(shared, name, Link::Live { identity: identity.to_owned() });
        report::connected(shared, name, identity, version).await;
    }
}

fn set_link(shared: &Arc<Shared>, name: &str, link: Link) {
    shared.lanes.plan_all(shared.index.change_worker(name, |worker| worker.link = link));
}

/// The worker's identity, if it is fit to be one: not the manager, and no other worker's.
async fn check_identity(shared: &Arc<Shared>, name: &str, client: &Client) -> Result<String, Ended> {
    let identity = identity_of(client).await.map_err(|error| Ended::Away(error.to_string()))?;
    if identity == shared.origin {
        return Err(Ended::Unfit("this is the management cluster itself; it cannot be its own worker".into()));
    }
    match shared.index.worker_with_identity(&identity, name) {
        Some(other) => Err(Ended::Unfit(format!("this cluster is registered already, as Worker {other}"))),
        None => Ok(identity),
    }
}
