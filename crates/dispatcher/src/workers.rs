//! Follows the `Worker` objects: a connection for each, restarted when its credentials are named anew.

use std::{collections::BTreeMap, sync::Arc};

use futures::StreamExt;
use jobferry_api::Worker;
use jobferry_kubeio::{self as kubeio, Collection, Event};
use tokio_util::sync::CancellationToken;

use crate::{Shared, link, paths, spawn};

/// A connection that was started.
struct Started {
    uid: Option<String>,
    secret: String,
    stop: CancellationToken,
}

pub(crate) async fn follow_workers(shared: Arc<Shared>) {
    let workers = Collection::new(paths::WORKERS, version_of).seed(shared.options.seed);
    let mut events = std::pin::pin!(kubeio::watch(shared.manager.clone(), workers));
    let mut started = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Reset(workers) => {
                let listed: Vec<_> = workers.iter().filter_map(|worker| worker.metadata.name.clone()).collect();
                let gone: Vec<String> = started.keys().filter(|name| !listed.contains(name)).cloned().collect();
                for name in gone {
                    stop(&shared, &mut started, &name);
                }
                for worker in workers {
                    apply(&shared, &mut started, worker);
                }
            }
            Event::Applied(worker) => apply(&shared, &mut started, worker),
            Event::Deleted(worker) => stop(&shared, &mut started, &worker.metadata.name.unwrap_or_default()),
            Event::Interrupted(error) => {
                tracing::warn!(%error, "Workers cannot be watched; are the CRDs installed? Trying again");
            }
            Event::Resumed => {}
        }
    }
}

fn version_of(worker: &Worker) -> &str {
    worker.metadata.resource_version.as_deref().unwrap_or_default()
}

fn apply(shared: &Arc<Shared>, started: &mut BTreeMap<String, Started>, worker: Worker) {
    let Some(name) = worker.metadata.name.clone() else { return };
    let (uid, secret) = (worker.metadata.uid.clone(), worker.spec.kubeconfig_secret.clone());
    if started.get(&name).is_some_and(|running| running.uid != uid || running.secret != secret) {
        stop(shared, started, &name);
    }
    let touched = shared.index.change_worker(&name, |view| {
        view.labels = worker.metadata.labels.clone().unwrap_or_default();
        view.cordoned = worker.spec.cordoned;
    });
    shared.lanes.plan_all(touched);
    started.entry(name).or_insert_with(|| {
        let stop = shared.shutdown.child_token();
        spawn(shared, link::keep_connected(Arc::clone(shared), worker, stop.clone()));
        Started { uid, secret, stop }
    });
}

fn stop(shared: &Arc<Shared>, started: &mut BTreeMap<String, Started>, name: &str) {
    if let Some(running) = started.remove(name) {
        tracing::info!(worker = name, "removed");
        running.stop.cancel();
        shared.index.remove_worker(name);
    }
}
