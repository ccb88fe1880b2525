//! A Worker stays for as long as unfinished workloads are placed on it, or mirrors of others run there that are to be removed,
//! also when somebody deletes it: without its credentials nobody would ever learn how those end, or stop these.
//! `jobferry worker forget` overrides it.

use std::{sync::Arc, time::Duration};

use jobferry_api::{Worker, finalizers::PLACEMENTS};
use jobferry_core::time::WRITE_DEADLINE;
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

/// Waits until nothing of ours runs on the worker; false: somebody was faster and it is gone.
async fn settled(shared: &Shared, worker: &Worker) -> bool {
    let name = worker.metadata.name.as_deref().unwrap_or_default();
    loop {
        let survey = shared.index.survey();
        match survey.workers.get(name) {
            None => return false,
            // Before everything is listed, nothing is known to be placed anywhere.
            Some(view) if survey.listed && view.unfinished == 0 && !shared.index.has_leftovers_on(name) => return true,
            Some(_) => tokio::time::sleep(LOOK_AGAIN).await,
        }
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
    use super::*;

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
