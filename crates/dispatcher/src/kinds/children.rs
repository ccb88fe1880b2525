//! What operators on the manager create for objects of theirs. If the owner was handed to us, somebody runs it there.
//!
//! Many kinds share a resource and a label: each is watched once. The server sends the metadata of labelled objects only, so
//! whatever else runs on the manager costs nothing here.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::StreamExt;
use jobferry_core::kind::{Children, Kind};
use jobferry_kubeio::{self as kubeio, Collection, Event};
use tokio_util::sync::CancellationToken;

use crate::{Shared, index::Child, spawn_while, workers::FIRST_LOOK};

/// The watches that are open.
#[derive(Default)]
pub(super) struct Watches(BTreeMap<Children, CancellationToken>);

impl Watches {
    /// Watches what the operators of these kinds create, and nothing else. What the manager does not serve is asked for when
    /// it does.
    pub(super) fn keep<'a>(
        &mut self,
        shared: &Arc<Shared>,
        kinds: impl Iterator<Item = &'a Kind>,
        served: &BTreeSet<String>,
    ) {
        let wanted: BTreeSet<&Children> = kinds.flat_map(|kind| &kind.children).collect();
        self.0.retain(|children, ended| {
            let stays = wanted.contains(children);
            if !stays {
                ended.cancel();
                shared.kinds.looked_at.send_if_modified(|looked| looked.remove(children));
                shared.index.forget_children(children);
            }
            stays
        });
        for children in wanted {
            let is_served = children.group.is_empty() || served.contains(&children.api_version());
            if !is_served {
                // Of what cannot exist there is nothing to wait for.
                looked_at(shared, children);
                continue;
            }
            self.0.entry(children.clone()).or_insert_with(|| {
                let ended = shared.shutdown.child_token();
                spawn_while(shared, &ended, follow(Arc::clone(shared), Arc::new(children.clone())));
                ended
            });
        }
    }
}

/// Until it is known what there is for objects of this kind: what came into being while no dispatcher watched counts too.
pub(super) async fn first_look(shared: &Shared, kind: &Kind) {
    let mut looked = shared.kinds.looked_at.subscribe();
    let all = looked.wait_for(|looked| kind.children.iter().all(|children| looked.contains(children)));
    // A server that does not answer keeps nothing from being dispatched: this is a second sign, beside the status.
    let _ = tokio::time::timeout(FIRST_LOOK, all).await;
}

fn looked_at(shared: &Shared, children: &Children) {
    shared.kinds.looked_at.send_if_modified(|looked| looked.insert(children.clone()));
}

async fn follow(shared: Arc<Shared>, children: Arc<Children>) {
    let mut objects = Collection::new(children.path(), Child::version)
        .metadata_only()
        .streamed(shared.options.streamed_lists)
        .seed(shared.options.seed);
    if let Some(label) = &children.label {
        objects = objects.labels(label);
    }
    let mut events = std::pin::pin!(kubeio::watch(shared.manager.clone(), objects));
    let mut told = false;
    while let Some(event) = events.next().await {
        match event {
            Event::Reset(listed) => {
                told = false;
                shared.lanes.plan_all(shared.index.reset_children(&children, listed));
                looked_at(&shared, &children);
            }
            Event::Applied(child) => shared.lanes.plan_all(shared.index.apply_child(&children, child)),
            Event::Deleted(child) => shared.index.delete_child(&children, child),
            Event::Interrupted(error) => {
                // Said once: without the right this goes on for long. Nothing else depends on it.
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(
                        resource = children.resource(), %error,
                        "it cannot be watched on the manager whether an operator there runs what was handed to us; trying again"
                    );
                }
                looked_at(&shared, &children);
            }
            Event::Resumed => told = false,
        }
    }
}
