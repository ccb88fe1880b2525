//! Kinds that users brought in: `WorkloadKind` objects, taken up and given up without a restart.

use std::{collections::BTreeSet, sync::Arc};

use futures::StreamExt;
use job_api::conditions::whole_seconds;
use jobferry_api::{
    WorkloadKind,
    conditions::{ACCEPTED, REASON_ACCEPTED, REASON_INVALID_RULES},
};
use jobferry_core::{kind::Invalid, time::WRITE_DEADLINE};
use jobferry_kubeio::{self as kubeio, Collection, Event, Patch};
use serde_json::json;

use crate::{Shared, paths, spawn};

pub(crate) async fn follow_users_kinds(shared: Arc<Shared>) {
    let kinds = Collection::new(paths::WORKLOAD_KINDS, version_of).seed(shared.options.seed);
    let mut events = std::pin::pin!(kubeio::watch(shared.manager.clone(), kinds));
    let mut taken_up: BTreeSet<String> = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Reset(kinds) => {
                let now: BTreeSet<String> = kinds.iter().map(name_of).collect();
                for gone in taken_up.difference(&now) {
                    shared.kinds.change(|table| table.remove(gone));
                }
                taken_up = now;
                for kind in &kinds {
                    take_up(&shared, kind);
                }
            }
            Event::Applied(kind) => {
                taken_up.insert(name_of(&kind));
                take_up(&shared, &kind);
            }
            Event::Deleted(kind) => {
                taken_up.remove(&name_of(&kind));
                shared.kinds.change(|table| table.remove(&name_of(&kind)));
            }
            Event::Interrupted(error) => tracing::debug!(%error, "WorkloadKinds cannot be watched; trying again"),
            Event::Resumed => {}
        }
    }
}

fn version_of(kind: &WorkloadKind) -> &str {
    kind.metadata.resource_version.as_deref().unwrap_or_default()
}

fn name_of(kind: &WorkloadKind) -> String {
    kind.metadata.name.clone().unwrap_or_default()
}

fn take_up(shared: &Arc<Shared>, kind: &WorkloadKind) {
    // Rules that make no sense do not replace those that did: what runs by them goes on, and their author is told.
    let outcome = shared.kinds.change(|table| table.add(kind));
    let (holds, reason, message) = verdict(&outcome);
    let told = kind.status.as_ref().and_then(|status| status.conditions.iter().find(|known| known.type_ == ACCEPTED));
    if told.is_some_and(|told| (told.status.as_str(), told.message.as_str()) == (holds, &message)) {
        return;
    }
    tracing::info!(kind = name_of(kind), accepted = holds, message, "a WorkloadKind was read");
    let path = paths::by_us(&format!("{}/{}/status", paths::WORKLOAD_KINDS, name_of(kind)));
    let condition = json!({
        "type": ACCEPTED, "status": holds, "reason": reason, "message": message,
        "observedGeneration": kind.metadata.generation,
        "lastTransitionTime": whole_seconds(shared.clock.now().wall).to_string(),
    });
    let body = json!({"metadata": {"uid": kind.metadata.uid}, "status": {"conditions": [condition]}});
    let manager = shared.manager.clone();
    spawn(shared, async move {
        let written = kubeio::patch(&manager, &path, Patch::Merge, body.to_string().into_bytes(), WRITE_DEADLINE).await;
        if let Err(error) = written {
            tracing::warn!(path, %error, "what is wrong with a WorkloadKind could not be told");
        }
    });
}

fn verdict(outcome: &Result<(), Invalid>) -> (&'static str, &'static str, String) {
    match outcome {
        Ok(()) => ("True", REASON_ACCEPTED, "its objects are dispatched where the manager has the kind".to_owned()),
        Err(invalid) => {
            let problems: Vec<_> = invalid.problems.iter().map(ToString::to_string).collect();
            ("False", REASON_INVALID_RULES, problems.join("; "))
        }
    }
}
