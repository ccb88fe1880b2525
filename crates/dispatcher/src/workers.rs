//! Follows the `Worker` objects: a connection for each, made anew when it leads elsewhere. A token that replaces another is
//! taken up by the connection as it is.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use jobferry_api::Worker;
use jobferry_core::{
    custom::KindRef,
    placement::{Link, WorkerView},
};
use jobferry_kubeio::{self as kubeio, Collection, Event};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    Shared, credentials, finalizer,
    link::{self, KnownLoss},
    paths, spawn,
};

/// How long placing waits, at the start, for workers that have not been asked yet: what they run may have been forgotten.
pub(crate) const FIRST_LOOK: Duration = Duration::from_secs(5);

/// A connection that was started.
struct Started {
    worker: Worker,
    loss: KnownLoss,
    stop: CancellationToken,
}

/// What may change a connection.
enum Change {
    Worker(Box<Event<Worker>>),
    Secret(String),
    /// The credentials of this worker changed by more than a token.
    Elsewhere(String),
}

pub(crate) async fn follow_workers(shared: Arc<Shared>) {
    let workers = Collection::new(paths::WORKERS, version_of).seed(shared.options.seed);
    let workers = kubeio::watch(shared.manager.clone(), workers).map(|event| Change::Worker(Box::new(event)));
    let secrets = shared.options.connect.changed_secrets().map(Change::Secret);
    let (leads_elsewhere, mut elsewhere) = mpsc::unbounded_channel();
    let elsewhere = stream::poll_fn(move |context| elsewhere.poll_recv(context)).map(Change::Elsewhere);
    let mut changes = std::pin::pin!(stream::select(workers, stream::select(secrets, elsewhere)));
    let mut started = BTreeMap::new();
    while let Some(change) = changes.next().await {
        match change {
            Change::Worker(event) => follow_event(&shared, &mut started, *event),
            Change::Secret(secret) => {
                for running in started.values().filter(|r| r.worker.spec.kubeconfig_secret == secret) {
                    take_up(&shared, &running.worker, &leads_elsewhere);
                }
            }
            Change::Elsewhere(name) => {
                if let Some(running) = started.get_mut(&name) {
                    reconnect(&shared, running);
                }
            }
        }
    }
}

fn follow_event(shared: &Arc<Shared>, started: &mut BTreeMap<String, Started>, event: Event<Worker>) {
    let is_ours = |worker: &Worker| worker.spec.dispatcher() == shared.options.managed_by;
    match event {
        Event::Reset(mut workers) => {
            workers.retain(is_ours);
            let listed: Vec<_> = workers.iter().filter_map(|worker| worker.metadata.name.clone()).collect();
            let gone: Vec<String> = started.keys().filter(|name| !listed.contains(name)).cloned().collect();
            for name in gone {
                stop(shared, started, &name);
            }
            for worker in workers {
                apply(shared, started, worker);
            }
            shared.lanes.plan_all(shared.index.know_all_workers());
            let by = Arc::clone(shared);
            spawn(shared, async move {
                tokio::time::sleep(FIRST_LOOK).await;
                by.lanes.plan_all(by.index.end_first_look(&KindRef::Job));
            });
        }
        Event::Applied(worker) if is_ours(&worker) => apply(shared, started, worker),
        Event::Applied(worker) | Event::Deleted(worker) => {
            stop(shared, started, &worker.metadata.name.unwrap_or_default());
        }
        Event::Interrupted(error) => {
            tracing::warn!(%error, "Workers cannot be watched; are the CRDs installed? Trying again");
        }
        Event::Resumed => {}
    }
}

fn version_of(worker: &Worker) -> &str {
    worker.metadata.resource_version.as_deref().unwrap_or_default()
}

fn apply(shared: &Arc<Shared>, started: &mut BTreeMap<String, Started>, worker: Worker) {
    let Some(name) = worker.metadata.name.clone() else { return };
    if started.get(&name).is_some_and(|running| running.worker.metadata.uid != worker.metadata.uid) {
        stop(shared, started, &name);
    }
    let recorded = worker.status.as_ref().and_then(|status| status.identity.as_deref());
    shared.index.add_worker(&name, worker.metadata.uid.as_deref().unwrap_or_default(), recorded);
    let touched = shared.index.change_worker(&name, |view| {
        view.labels = worker.metadata.labels.clone().unwrap_or_default();
        (view.cordoned, view.leaving) = (worker.spec.cordoned, is_deleted(&worker));
        view.namespaces = worker.spec.namespaces.clone().map(|namespaces| namespaces.into_iter().collect());
    });
    shared.lanes.plan_all(touched);
    let hold = |worker: &Worker| (is_deleted(worker), finalizer::is_held(worker));
    if started.get(&name).is_none_or(|before| hold(&before.worker) != hold(&worker)) {
        finalizer::tend(shared, &worker);
    }
    match started.entry(name) {
        Entry::Vacant(entry) => {
            let loss = KnownLoss::recorded_on(&worker);
            let stop = connect(shared, &worker, &loss);
            entry.insert(Started { worker, loss, stop });
        }
        Entry::Occupied(entry) => {
            let running = entry.into_mut();
            let way = |worker: &Worker| (worker.spec.kubeconfig_secret.clone(), worker.spec.namespaces.clone());
            let moved = way(&running.worker) != way(&worker);
            running.worker = worker;
            if moved {
                reconnect(shared, running);
            }
        }
    }
}

fn is_deleted(worker: &Worker) -> bool {
    worker.metadata.deletion_timestamp.is_some()
}

fn connect(shared: &Arc<Shared>, worker: &Worker, loss: &KnownLoss) -> CancellationToken {
    let stop = shared.shutdown.child_token();
    spawn(shared, link::keep_connected(Arc::clone(shared), worker.clone(), loss.clone(), stop.clone()));
    stop
}

/// Asks the worker itself whether it takes the new token, in a task of its own: one that hangs holds up nobody else.
fn take_up(shared: &Arc<Shared>, worker: &Worker, leads_elsewhere: &mpsc::UnboundedSender<String>) {
    let (by, worker, leads_elsewhere) = (Arc::clone(shared), worker.clone(), leads_elsewhere.clone());
    spawn(shared, async move {
        if !credentials::take_up(&by, &worker).await {
            let _ = leads_elsewhere.send(worker.metadata.name.unwrap_or_default());
        }
    });
}

/// Connects by other credentials. What is known of the worker's mirrors stays: running work is not touched.
fn reconnect(shared: &Arc<Shared>, running: &mut Started) {
    tracing::info!(worker = running.worker.metadata.name, "credentials changed; connecting anew");
    running.stop.cancel();
    // Whoever answers by the new credentials may be another cluster: nothing is proved or created before it is known.
    let name = running.worker.metadata.name.as_deref().unwrap_or_default();
    let forget = |view: &mut WorkerView| {
        view.link = Link::Connecting;
        view.kinds.clear();
    };
    shared.lanes.plan_all(shared.index.change_worker(name, forget));
    running.stop = connect(shared, &running.worker, &running.loss);
}

fn stop(shared: &Arc<Shared>, started: &mut BTreeMap<String, Started>, name: &str) {
    if let Some(running) = started.remove(name) {
        tracing::info!(worker = name, "removed");
        running.stop.cancel();
        shared.metrics().removed(name);
        shared.lanes.plan_all(shared.index.remove_worker(name));
    }
}
