//! A Worker stays for as long as unfinished workloads are placed on it, also when somebody deletes it: without its credentials
//! nobody would ever learn how they end. While it answers it stays, too, until what has to be removed there is: nobody else would.
//! `jobferry worker forget` overrides it.

use std::{sync::Arc, time::Duration};

use jobferry_api::{Worker, finalizers::PLACEMENTS};
use jobferry_core::{
    placement::{Link, WorkerView},
    time::WRITE_DEADLINE,
};
use jobferry_kubeio::{self as kubeio, CallError, Patch};
use serde_json::json;

use crate::{Shared, paths, spawn};

/// How often a deleted Worker is looked at. Deleting a cluster's registration is rare, and nobody waits for it by the second.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What a Worker's finalizer needs.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// It must be there before the first workload is placed.
    Add,
    /// The Worker is deleted: it goes when nothing of ours runs there any more.
    RemoveWhenSettled,
    Nothing,
}

fn step(worker: &Worker) -> Step {
    match (worker.metadata.deletion_timestamp.is_some(), is_held(worker)) {
        (false, false) => Step::Add,
        (true, true) => Step::RemoveWhenSettled,
        (false, true) | (true, false) => Step::Nothing,
    }
}

pub(crate) fn is_held(worker: &Worker) -> bool {
    worker.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == PLACEMENTS)
}

/// Sees to the finalizer of a Worker that is new to us or was just deleted.
pub(crate) fn tend(shared: &Arc<Shared>, worker: &Worker) {
    let (by, worker) = (Arc::clone(shared), worker.clone());
    match step(&worker) {
        Step::Add => spawn(shared, async move { write(&by, &worker, true).await }),
        Step::RemoveWhenSettled => spawn(shared, async move {
            if settled(&by, &worker).await {
                write(&by, &worker, false).await;
            }
        }),
        Step::Nothing => {}
    }
}

/// After so many looks a worker that nobody could ask yet will not be asked: its credentials are missing, say.
const LOOKS_AT_UNASKED: u32 = 12;

/// What a start has not listed yet (other kinds than Job) is listed by the second look.
const LOOKS_THAT_AGREE: u32 = 2;

/// Whether a Worker has to stay, after so many looks at it.
const fn is_needed(worker: &WorkerView, has_leftovers: bool, looks: u32) -> bool {
    worker.unfinished > 0
        || match worker.link {
            Link::Live { .. } => has_leftovers,
            Link::Connecting => looks < LOOKS_AT_UNASKED,
            Link::Away { .. } | Link::Unfit { .. } => false,
        }
}

/// Waits until the Worker is not needed any more; false: somebody was faster and it is gone.
async fn settled(shared: &Shared, worker: &Worker) -> bool {
    let name = worker.metadata.name.as_deref().unwrap_or_default();
    let (mut looks, mut free) = (0, 0);
    while free < LOOKS_THAT_AGREE {
        if looks > 0 {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        let survey = shared.index.survey();
        let Some(view) = survey.workers.get(name) else { return false };
        // Before everything is listed, nothing is known to be placed anywhere.
        let is_needed = !survey.listed || is_needed(view, shared.index.has_leftovers_on(name), looks);
        free = if is_needed { 0 } else { free + 1 };
        looks += 1;
    }
    true
}

/// Puts the finalizer on or takes it off, until it is done or the Worker is gone.
async fn write(shared: &Shared, worker: &Worker, held: bool) {
    let name = worker.metadata.name.as_deref().unwrap_or_default();
    // A leader that comes later looks at every Worker anew.
    while shared.leadership.holds()
        && let Err(error) = try_write(shared, name, worker.metadata.uid.as_deref(), held).await
    {
        if error.is_not_found() {
            return;
        }
        if !error.is_conflict() {
            tracing::warn!(worker = name, %error, "could not write the Worker's finalizer; trying again");
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn try_write(shared: &Shared, name: &str, uid: Option<&str>, held: bool) -> Result<(), CallError> {
    let path = paths::worker(name);
    // The list of finalizers is written whole: others' must be what they are now.
    let current: Worker = kubeio::get(&shared.manager, &path, WRITE_DEADLINE).await?;
    let deleted = current.metadata.deletion_timestamp.is_some();
    if current.metadata.uid.as_deref() != uid || is_held(&current) == held || (held && deleted) {
        return Ok(());
    }
    let mut finalizers = current.metadata.finalizers.unwrap_or_default();
    finalizers.retain(|finalizer| finalizer != PLACEMENTS);
    finalizers.extend(held.then(|| PLACEMENTS.to_owned()));
    let metadata = json!({"uid": uid, "resourceVersion": current.metadata.resource_version, "finalizers": finalizers});
    let body = json!({ "metadata": metadata }).to_string().into_bytes();
    kubeio::patch(&shared.manager, &paths::by_us(&path), Patch::Merge, body, WRITE_DEADLINE).await.map(drop)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn a_worker_that_answers_stays_until_what_is_to_be_removed_there_is_and_one_that_is_gone_holds_up_nobody() {
        let (live, away) = (Link::Live { identity: "id-1".into() }, Link::Away { since: NOW, noticed: Duration::ZERO });
        for (link, unfinished, has_leftovers, looks, needed) in [
            (live.clone(), 0, false, 0, false),
            (live.clone(), 0, true, 1000, true),
            (live, 1, false, 1000, true),
            (away.clone(), 0, true, 0, false),
            (away, 1, false, 1000, true),
            (Link::Connecting, 0, false, 0, true),
            (Link::Connecting, 0, false, LOOKS_AT_UNASKED, false),
            (Link::Unfit { why: "no".into() }, 0, true, 0, false),
        ] {
            let view = WorkerView { unfinished, link, ..WorkerView::default() };
            let found = is_needed(&view, has_leftovers, looks);
            assert_eq!(found, needed, "{view:?}, leftovers: {has_leftovers}, looks: {looks}");
        }
    }

    #[test]
    fn a_worker_is_held_from_the_start_and_let_go_after_its_end() {
        let worker = |finalizers: &[&str], deleted: bool| -> Worker {
            let deleted = deleted.then_some("2026-01-01T00:00:00Z");
            let metadata = json!({"name": "eu-1", "finalizers": finalizers, "deletionTimestamp": deleted});
            let kind = ("jobferry.dev/v1alpha1", "Worker");
            let object = json!({
                "apiVersion": kind.0, "kind": kind.1, "metadata": metadata, "spec": {"kubeconfigSecret": "eu-1"},
            });
            serde_json::from_value(object).unwrap()
        };
        for (finalizers, deleted, expected) in [
            (&[][..], false, Step::Add),
            (&["somebody/else"][..], false, Step::Add),
            (&[PLACEMENTS][..], false, Step::Nothing),
            (&[PLACEMENTS, "somebody/else"][..], true, Step::RemoveWhenSettled),
            (&["somebody/else"][..], true, Step::Nothing),
        ] {
            assert_eq!(step(&worker(finalizers, deleted)), expected, "{finalizers:?}, deleted: {deleted}");
        }
    }
}
