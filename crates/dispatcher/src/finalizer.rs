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

/// What one look at a deleted Worker found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Something is placed there, or runs there and has to be removed.
    Needed,
    /// It does not answer: nobody knows whether something has to be removed there.
    Silent,
    /// Nothing holds it.
    Free,
}

impl Look {
    const fn at(worker: &WorkerView, has_leftovers: bool) -> Self {
        match worker.link {
            _ if worker.unfinished > 0 => Self::Needed,
            Link::Live { .. } if has_leftovers => Self::Needed,
            Link::Connecting | Link::Away { .. } => Self::Silent,
            Link::Live { .. } | Link::Unfit { .. } => Self::Free,
        }
    }

    /// So many looks in a row that find this let the Worker go.
    const fn enough(self) -> Option<u32> {
        match self {
            Self::Needed => None,
            // A minute: who is away for a moment comes back; a worker that is gone for good must not hold up its removal.
            Self::Silent => Some(12),
            // What a start has not listed yet (other kinds than Job) is usually listed by the second look.
            Self::Free => Some(2),
        }
    }
}

/// Waits until the Worker is not needed any more; false: somebody was faster and it is gone.
async fn settled(shared: &Shared, worker: &Worker) -> bool {
    let name = worker.metadata.name.as_deref().unwrap_or_default();
    let (mut last, mut in_a_row) = (Look::Needed, 0);
    loop {
        let survey = shared.index.survey();
        let Some(view) = survey.workers.get(name) else { return false };
        // Before everything is listed, nothing is known to be placed anywhere.
        let look = if survey.listed { Look::at(view, shared.index.has_leftovers_on(name)) } else { Look::Needed };
        in_a_row = if look == last { in_a_row + 1 } else { 1 };
        last = look;
        if look.enough().is_some_and(|enough| in_a_row >= enough) {
            return true;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
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
    fn a_worker_that_answers_stays_until_what_is_to_be_removed_there_is_and_one_that_is_gone_holds_up_nobody_for_long()
    {
        let (live, away) = (Link::Live { identity: "id-1".into() }, Link::Away { since: NOW, noticed: Duration::ZERO });
        let unfit = Link::Unfit { why: "no".into() };
        for (link, unfinished, has_leftovers, found) in [
            (live.clone(), 0, false, Look::Free),
            (live.clone(), 0, true, Look::Needed),
            (live, 1, false, Look::Needed),
            (away.clone(), 0, true, Look::Silent),
            (away, 1, false, Look::Needed),
            (Link::Connecting, 0, false, Look::Silent),
            (Link::Connecting, 1, false, Look::Needed),
            (unfit, 0, true, Look::Free),
        ] {
            let view = WorkerView { unfinished, link, ..WorkerView::default() };
            assert_eq!(Look::at(&view, has_leftovers), found, "{view:?}, leftovers: {has_leftovers}");
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
