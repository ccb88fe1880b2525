//! The garbage collector: what belongs to a deleted object goes with it, before it, or is set free.

mod graph;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{
    StreamExt,
    stream::{BoxStream, FuturesUnordered, SelectAll},
};
use jobferry_kubeio::{self as kubeio, CallError, Collection, Event, Patch, Queue};
use kube::Client;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::graph::{FOREGROUND, Graph, Item, ORPHAN, Owner, Seen, Verdict};
use crate::discovery::{self, Kind};

const DEADLINE: Duration = Duration::from_secs(15);
/// How often new kinds are looked for: definitions of custom resources come and go.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(30);
const WORKERS: usize = 8;

/// Collects garbage until `shutdown`.
pub async fn run_garbage_collector(client: Client, shutdown: CancellationToken) {
    let collector = Collector {
        client,
        graph: Mutex::default(),
        kinds: Mutex::default(),
        queue: Queue::new(Duration::from_millis(200), Duration::from_secs(30)),
    };
    let workers: FuturesUnordered<_> = (0..WORKERS).map(|_| collector.work()).collect();
    tokio::select! { biased;
        () = shutdown.cancelled() => {}
        () = collector.watch() => {}
        () = workers.for_each(|()| std::future::ready(())) => {}
    }
}

struct Collector {
    client: Client,
    graph: Mutex<Graph>,
    kinds: Mutex<Kinds>,
    /// UIDs to be judged.
    queue: Queue<String>,
}

/// The kinds that are watched.
#[derive(Default)]
struct Kinds {
    watched: BTreeSet<Arc<Kind>>,
    /// Watched, but not listed yet: until then nobody can be called unowned.
    unlisted: BTreeSet<Arc<Kind>>,
}

type Streams = SelectAll<BoxStream<'static, (Arc<Kind>, Event<Seen>)>>;

impl Collector {
    async fn watch(&self) {
        let mut streams: Streams = SelectAll::new();
        let mut discover_at = Instant::now();
        loop {
            tokio::select! { biased;
                () = tokio::time::sleep_until(discover_at) => {
                    match discovery::kinds(&self.client).await {
                        Ok(kinds) => self.watch_new(&mut streams, kinds),
                        Err(error) => tracing::warn!(%error, "kinds cannot be discovered"),
                    }
                    discover_at = Instant::now() + DISCOVERY_INTERVAL;
                }
                Some((kind, event)) = streams.next() => self.on_event(&kind, event),
            }
        }
    }

    fn watch_new(&self, streams: &mut Streams, found: Vec<Arc<Kind>>) {
        let mut kinds = lock(&self.kinds);
        // Events are many, own nothing and are owned by nobody.
        for kind in found.into_iter().filter(|kind| kind.name != "Event") {
            if kinds.watched.insert(Arc::clone(&kind)) {
                kinds.unlisted.insert(Arc::clone(&kind));
                let events = kubeio::watch(self.client.clone(), Collection::new(kind.collection(), version));
                streams.push(events.map(move |event| (Arc::clone(&kind), event)).boxed());
            }
        }
    }

    fn on_event(&self, kind: &Arc<Kind>, event: Event<Seen>) {
        let mut graph = lock(&self.graph);
        let touched: Vec<String> = match event {
            Event::Reset(list) => {
                lock(&self.kinds).unlisted.remove(kind);
                let named: BTreeSet<&str> = list.iter().map(|seen| seen.metadata.uid.as_str()).collect();
                let gone =
                    graph.of_kind(kind).into_iter().filter(|uid| !named.contains(uid.as_str())).collect::<Vec<_>>();
                let gone: Vec<String> = gone.iter().flat_map(|uid| graph.remove(uid)).collect();
                gone.into_iter()
                    .chain(list.into_iter().flat_map(|seen| graph.put(Item::new(Arc::clone(kind), seen))))
                    .collect()
            }
            Event::Applied(seen) => graph.put(Item::new(Arc::clone(kind), seen)),
            Event::Deleted(seen) => graph.remove(&seen.metadata.uid),
            Event::Interrupted(error) => {
                tracing::debug!(%kind, %error, "a kind cannot be watched");
                Vec::new()
            }
            Event::Resumed => Vec::new(),
        };
        drop(graph);
        for uid in touched {
            self.queue.add(uid);
        }
    }

    async fn work(&self) {
        loop {
            let uid = self.queue.next().await;
            match self.carry_out(&uid).await {
                Ok(true) => self.queue.forget(&uid),
                Ok(false) => self.queue.retry(uid.clone()),
                Err(error) => {
                    tracing::warn!(uid, %error, "an object could not be collected; trying again");
                    self.queue.retry(uid.clone());
                }
            }
            self.queue.done(&uid);
        }
    }

    /// Does what is to be done about an object; false if it has to be looked at again.
    async fn carry_out(&self, uid: &str) -> Result<bool, CallError> {
        let (item, verdict, has_dependents) = {
            let graph = lock(&self.graph);
            let Some(item) = graph.get(uid).cloned() else { return Ok(true) };
            (item, graph.judge(uid), graph.has_dependents(uid))
        };
        match verdict {
            Verdict::Nothing => Ok(true),
            Verdict::Unowned => {
                if !lock(&self.kinds).unlisted.is_empty() {
                    return Ok(false);
                }
                for owner in &item.owners {
                    if self.exists(owner, &item.namespace).await? {
                        return Ok(false);
                    }
                }
                self.delete(&item, "Background").await
            }
            // What has dependents of its own is deleted the same way, so that they go before it too.
            Verdict::GoFirst => self.delete(&item, if has_dependents { "Foreground" } else { "Background" }).await,
            Verdict::FinishForeground => self.remove_finalizer(&item, FOREGROUND).await,
            Verdict::Orphan(dependents) => {
                for dependent in dependents {
                    // One that was written to in between still names its owner: it would be collected with it.
                    if !self.set_free(&dependent, uid).await? {
                        return Ok(false);
                    }
                }
                self.remove_finalizer(&item, ORPHAN).await
            }
        }
    }

    /// Proves whether an owner exists: asked fresh, by name, and compared by UID. A kind that is not served cannot be
    /// proved gone.
    async fn exists(&self, owner: &Owner, namespace: &str) -> Result<bool, CallError> {
        let group = |version: &str| version.split_once('/').map_or("", |(group, _)| group).to_owned();
        let same = |kind: &&Arc<Kind>| kind.name == owner.kind && group(&kind.api_version) == group(&owner.api_version);
        let Some(kind) = lock(&self.kinds).watched.iter().find(same).cloned() else { return Ok(true) };
        match kubeio::get::<Seen>(&self.client, &kind.object(namespace, &owner.name), DEADLINE).await {
            Ok(seen) => Ok(seen.metadata.uid == owner.uid),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn delete(&self, item: &Item, propagation: &str) -> Result<bool, CallError> {
        let options = json!({"propagationPolicy": propagation, "preconditions": {"uid": item.uid}});
        let path = item.kind.object(&item.namespace, &item.name);
        gone_is_fine(kubeio::delete(&self.client, &path, options.to_string().into_bytes(), DEADLINE).await)
    }

    async fn remove_finalizer(&self, item: &Item, finalizer: &str) -> Result<bool, CallError> {
        self.edit_lists(item, |metadata| {
            if let Some(list) = metadata["finalizers"].as_array_mut() {
                list.retain(|known| known != finalizer);
            }
        })
        .await
    }

    async fn set_free(&self, item: &Item, owner: &str) -> Result<bool, CallError> {
        self.edit_lists(item, |metadata| {
            if let Some(list) = metadata["ownerReferences"].as_array_mut() {
                list.retain(|known| known["uid"] != owner);
            }
        })
        .await
    }

    /// Changes lists in the metadata of an object that is still the one we mean. The lists are sent whole, guarded by the
    /// version they were read at: every kind understands that, custom resources too.
    async fn edit_lists(&self, item: &Item, edit: impl Fn(&mut serde_json::Value)) -> Result<bool, CallError> {
        let path = item.kind.object(&item.namespace, &item.name);
        let mut object: serde_json::Value = match kubeio::get(&self.client, &path, DEADLINE).await {
            Err(error) if error.is_not_found() => return Ok(true),
            other => other?,
        };
        if object["metadata"]["uid"] != item.uid.as_str() {
            return Ok(true);
        }
        let metadata = &mut object["metadata"];
        edit(metadata);
        let body = json!({"metadata": {
            "uid": item.uid, "resourceVersion": metadata["resourceVersion"],
            "finalizers": metadata["finalizers"], "ownerReferences": metadata["ownerReferences"],
        }});
        let answer = kubeio::patch(&self.client, &path, Patch::Merge, body.to_string().into_bytes(), DEADLINE).await;
        match answer {
            Err(error) if error.is_conflict() => Ok(false),
            other => gone_is_fine(other),
        }
    }
}

/// An object that is gone, or another one under its name, is what was wanted.
fn gone_is_fine<T>(answer: Result<T, CallError>) -> Result<bool, CallError> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(true),
        Err(error) => Err(error),
    }
}

fn version(seen: &Seen) -> &str {
    &seen.metadata.resource_version
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
