//! Kinds beside Jobs: which of them the manager has, the users' objects, and their mirrors on workers.
//!
//! ```text
//!   the table ──┐
//!   WorkloadKind├─> known ──/apis──> served: watched on the manager ──first list──> in use: watched on every worker
//! ```
//!
//! With each kind goes a watch, on the manager, for what its operator would create for an object that is ours.
//!
//! A kind that the manager does not have costs nothing: one small question in half a minute for all of them together.

mod children;
mod mirrors;
mod users;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use jobferry_core::{
    custom::{self, KindRef},
    kind::{Children, Kind, Table},
    workload::Workload,
};
use jobferry_kubeio::{self as kubeio, CallError, Collection, Event};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{READ_DEADLINE, Shared, spawn_while, workers::FIRST_LOOK};

pub(crate) use mirrors::follow_mirrors;
pub(crate) use users::follow_users_kinds;

/// How often the manager is asked which kinds it has. A definition that was just installed is waited for no longer.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// The kinds beside Jobs.
pub(crate) struct Kinds {
    known: Mutex<Table>,
    /// Something changed in `known`.
    changed: Notify,
    in_use: watch::Sender<BTreeMap<String, InUse>>,
    /// What operators create, as far as it was listed, or cannot be.
    looked_at: watch::Sender<BTreeSet<Children>>,
}

/// A kind whose objects on the manager were listed.
#[derive(Clone)]
pub(crate) struct InUse {
    pub(crate) kind: Arc<Kind>,
    /// Cancelled when its rules change or go away.
    pub(crate) ended: CancellationToken,
}

impl Kinds {
    pub(crate) fn new(known: Table) -> Self {
        let (in_use, looked_at) = (watch::Sender::default(), watch::Sender::default());
        Self { known: Mutex::new(known), changed: Notify::new(), in_use, looked_at }
    }

    fn known(&self) -> Vec<Kind> {
        let table = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Jobs are followed in any case.
        table.iter().map(|(_, kind)| kind).filter(|kind| kind.group != "batch").cloned().collect()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let outcome = change(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
        outcome
    }
}

/// Watches every kind that the manager has, from when it has it.
pub(crate) async fn follow_kinds(shared: Arc<Shared>) {
    let mut followed: BTreeMap<String, InUse> = BTreeMap::new();
    let mut children = children::Watches::default();
    loop {
        let known = shared.kinds.known();
        followed.retain(|_, followed| {
            let stays = known.iter().any(|kind| *kind == *followed.kind);
            if !stays {
                followed.ended.cancel();
                shared.kinds.in_use.send_modify(|in_use| drop(in_use.remove(&followed.kind.name())));
                shared.index.forget_kind(&followed.kind.name());
            }
            stays
        });
        match served(&shared).await {
            Ok(served) => {
                for kind in known.into_iter().filter(|kind| served.contains(&kind.api_version())) {
                    followed.entry(kind.name()).or_insert_with(|| follow(&shared, kind));
                }
                children.keep(&shared, followed.values().map(|followed| &*followed.kind), &served);
            }
            Err(error) => {
                tracing::warn!(%error, "the management cluster does not say which kinds it has; asking again");
            }
        }
        tokio::select! {
            () = shared.kinds.changed.notified() => {}
            () = tokio::time::sleep(ASK_AGAIN) => {}
        }
    }
}

fn follow(shared: &Arc<Shared>, kind: Kind) -> InUse {
    tracing::info!(kind = kind.name(), "this kind is dispatched too");
    let in_use = InUse { kind: Arc::new(kind), ended: shared.shutdown.child_token() };
    spawn_while(shared, &in_use.ended, follow_workloads(Arc::clone(shared), in_use.clone()));
    in_use
}

/// The groups and versions that the manager serves.
async fn served(shared: &Shared) -> Result<BTreeSet<String>, CallError> {
    #[derive(Deserialize)]
    struct Groups {
        groups: Vec<Group>,
    }
    #[derive(Deserialize)]
    struct Group {
        versions: Vec<Version>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        group_version: String,
    }
    let served: Groups = kubeio::get(&shared.manager, "/apis", READ_DEADLINE).await?;
    Ok(served.groups.into_iter().flat_map(|group| group.versions).map(|version| version.group_version).collect())
}

/// An object of any kind, as the server sent it.
#[derive(Deserialize)]
#[serde(from = "Value")]
struct Object {
    resource_version: String,
    content: Value,
}

impl From<Value> for Object {
    fn from(content: Value) -> Self {
        let resource_version = content.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        Self { resource_version: resource_version.unwrap_or_default().to_owned(), content }
    }
}

impl Object {
    fn version(&self) -> &str {
        &self.resource_version
    }
}

async fn end_first_look(shared: Arc<Shared>, kind: KindRef) {
    let mut all_known = false;
    while !all_known {
        all_known = shared.index.knows_all_workers();
        tokio::time::sleep(FIRST_LOOK).await;
    }
    shared.lanes.plan_all(shared.index.end_first_look(&kind));
}

/// The users' objects of one kind.
async fn follow_workloads(shared: Arc<Shared>, in_use: InUse) {
    let kind = KindRef::Custom(Arc::clone(&in_use.kind));
    let (root, plural) = kind.resource();
    let objects = Collection::new(format!("{root}/{plural}"), Object::version)
        .streamed(shared.options.streamed_lists)
        .seed(shared.options.seed);
    let mut events = std::pin::pin!(kubeio::watch(shared.manager.clone(), objects));
    children::first_look(&shared, &in_use.kind).await;
    let read = |object: &Object| -> Option<Box<Workload>> {
        let read = custom::read_workload(&in_use.kind, &object.content, shared.clock.now().wall);
        read.inspect_err(|error| tracing::warn!(kind = kind.name(), %error, "an object cannot be read"))
            .ok()
            .map(Box::new)
    };
    let (mut told, mut looked) = (false, false);
    while let Some(event) = events.next().await {
        match event {
            Event::Reset(objects) => {
                told = false;
                if !std::mem::replace(&mut looked, true) {
                    shared.index.begin_first_look(&kind);
                    spawn_while(&shared, &in_use.ended, end_first_look(Arc::clone(&shared), kind.clone()));
                }
                let workloads = objects.iter().filter_map(read).collect();
                shared.lanes.plan_all(shared.index.reset_workloads(&kind, workloads));
                shared.kinds.in_use.send_modify(|all| drop(all.insert(kind.name(), in_use.clone())));
            }
            Event::Applied(object) => {
                if let Some(workload) = read(&object) {
                    shared.metrics().seen(&workload);
                    shared.lanes.take_up(workload);
                }
            }
            Event::Deleted(object) => {
                if let Some(workload) = read(&object) {
                    shared.lanes.plan_first(shared.index.delete_workload(&workload.uid));
                }
            }
            Event::Interrupted(error) => {
                // Said once: without the right, or while its definition is being replaced, this goes on for long.
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(kind = kind.name(), %error, "this kind cannot be watched on the manager; trying again");
                }
            }
            Event::Resumed => told = false,
        }
    }
}
