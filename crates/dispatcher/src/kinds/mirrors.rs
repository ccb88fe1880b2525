//! Mirrors of kinds beside Jobs. What is wrong with a kind on a worker is a matter of that kind: Jobs go on.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::StreamExt;
use jobferry_api::{Worker, labels};
use jobferry_core::{
    custom::{self, KindRef},
    placement::KindLink,
    workload::Mirror,
};
use jobferry_kubeio::{CallError, Collection, Event, Urgency};

use super::{InUse, Object};
use crate::{
    Shared,
    link::{self, Connection},
    restored,
    scope::{self, Scope},
    spawn_while,
};

/// After a failure to ask a worker who it is.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A worker whose identity was checked.
#[derive(Clone)]
struct Connected {
    worker: Worker,
    name: String,
    identity: String,
    connection: Connection,
}

/// Watches the mirrors of every kind in use, for as long as the connection lasts.
pub(crate) async fn follow_mirrors(shared: Arc<Shared>, worker: Worker, identity: String, connection: Connection) {
    let name = worker.metadata.name.clone().unwrap_or_default();
    let connected = Connected { worker, name, identity, connection };
    let mut in_use = shared.kinds.in_use.subscribe();
    let mut followed: Vec<InUse> = Vec::new();
    loop {
        let now: Vec<InUse> = in_use.borrow_and_update().values().cloned().collect();
        followed.retain(|followed| !followed.ended.is_cancelled());
        for kind in now {
            if followed.iter().any(|followed| Arc::ptr_eq(&followed.kind, &kind.kind)) {
                continue;
            }
            followed.push(kind.clone());
            let part = follow(Arc::clone(&shared), connected.clone(), kind.clone());
            let ended = connected.connection.ended.clone();
            let part = async move {
                ended.run_until_cancelled_owned(part).await;
            };
            spawn_while(&shared, &kind.ended, part);
        }
        if in_use.changed().await.is_err() {
            return;
        }
    }
}

async fn follow(shared: Arc<Shared>, connected: Connected, in_use: InUse) {
    let kind = KindRef::Custom(Arc::clone(&in_use.kind));
    let (root, plural) = kind.resource();
    let scopes = Scope::all_of(&connected.worker);
    let mut events = scope::watch(&connected.connection.client, &scopes, (&root, plural), |path| {
        Collection::new(path, Object::version)
            .labels(format!("{}={}", labels::ORIGIN, shared.origin))
            .streamed(shared.options.streamed_lists)
            .horizon(&connected.connection.horizon)
            .seed(shared.options.seed)
    });
    let mut unseen: BTreeSet<Scope> = scopes.into_iter().collect();
    let name = &connected.name;
    let read = |object: &Object| -> Option<Box<Mirror>> {
        let read = custom::read_mirror(&in_use.kind, &object.content, shared.clock.now().wall);
        read.inspect_err(|error| tracing::warn!(worker = name, %error, "a mirror cannot be read")).ok().map(Box::new)
    };
    while let Some((scope, event)) = events.next().await {
        // A list, and whatever comes after a break, may come from another cluster behind the same address.
        if matches!(event, Event::Reset(_) | Event::Resumed) && !is_the_same(&connected).await {
            connected.connection.ended.cancel();
            return;
        }
        match event {
            Event::Reset(objects) => {
                let mirrors: Vec<_> = objects.iter().filter_map(read).collect();
                restored::check(&shared, &mirrors).await;
                let touched = shared.index.reset_mirrors(name, &kind, scope.namespace(), mirrors);
                unseen.remove(&scope);
                if unseen.is_empty() {
                    set(&shared, &connected, &in_use, KindLink::Listed);
                }
                shared.lanes.plan_of(name, Urgency::Normal, touched);
            }
            Event::Resumed => {
                unseen.remove(&scope);
                if unseen.is_empty() {
                    set(&shared, &connected, &in_use, KindLink::Listed);
                }
            }
            Event::Applied(object) => {
                if let Some(mirror) = read(&object) {
                    shared.metrics().mirror_changed(&mirror.origin_uid);
                    let urgency = if mirror.is_finished() { Urgency::Urgent } else { Urgency::Normal };
                    shared.lanes.plan_of(name, urgency, shared.index.apply_mirror(name, mirror));
                }
            }
            Event::Deleted(object) => {
                if let Some(mirror) = read(&object) {
                    shared.lanes.plan_of(name, Urgency::Urgent, shared.index.delete_mirror(name, mirror));
                }
            }
            Event::Interrupted(error) => {
                unseen.insert(scope);
                set(&shared, &connected, &in_use, why_not(&error));
            }
        }
    }
}

/// What a worker without the kind, or without the right to watch it, says.
fn why_not(error: &CallError) -> KindLink {
    match error.refusal().map(|refusal| refusal.code) {
        Some(404) => KindLink::Missing { why: "does not have this kind".to_owned() },
        Some(403) => KindLink::Forbidden { why: "does not let us watch this kind".to_owned() },
        _ => KindLink::Unlisted,
    }
}

fn set(shared: &Arc<Shared>, connected: &Connected, in_use: &InUse, link: KindLink) {
    let touched = shared.index.change_worker(&connected.name, |view| {
        // What an earlier connection saw, or rules that were replaced, is not what is seen now.
        if !connected.connection.ended.is_cancelled() && !in_use.ended.is_cancelled() {
            view.kinds.insert(in_use.kind.name(), link);
        }
    });
    shared.lanes.plan_of(&connected.name, Urgency::Normal, touched);
}

/// Asks until there is an answer: without one nothing may be concluded from what the watch says.
async fn is_the_same(connected: &Connected) -> bool {
    loop {
        match link::identity_of(&connected.connection.client).await {
            Ok(found) => return found == connected.identity,
            Err(_) => tokio::time::sleep(ASK_AGAIN).await,
        }
    }
}
