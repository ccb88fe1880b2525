//! Sending the user's edits to the mirror.

use std::sync::Arc;

use jobferry_core::{
    action::MirrorRef, forward, record::Record, refusal::Refusal, time::WRITE_DEADLINE, workload::Workload,
};
use jobferry_kubeio::{self as kubeio, Patch};
use serde_json::Value;

use super::{Asked, Unfinished, decode, decode_workload, failed, ground_of, log, mirror::learn, name_of, read_raw};
use crate::{Shared, paths};

/// Sends the last edit. Both objects are read whole: the index keeps only fingerprints.
pub(super) async fn forward(
    shared: &Arc<Shared>,
    asked: Asked<'_>,
    workload: &Workload,
    mirror: &MirrorRef,
    digest: forward::Digest,
) -> Result<(), Unfinished> {
    let (uid, worker) = (&workload.uid, asked.name);
    let Record::Placed(at) = &workload.record else { return Ok(()) };
    let kind = workload.kind();
    let path = kind.object(&workload.namespace, &workload.name);
    let what = "read what to forward";
    let read = read_raw(&shared.manager, &path).await.map_err(|error| log(what, uid, &error))?;
    let job: Value = decode(&read)?;
    let stored = read_raw(asked.client, &path).await.map_err(|error| failed(what, uid, &error))?;
    let current: Value = decode(&stored)?;
    // Either may have been replaced by another object of the same name since the plan was made.
    let is = |object: &Value, uid: &str| object.pointer("/metadata/uid").and_then(Value::as_str) == Some(uid);
    if !is(&job, uid) || !is(&current, &mirror.uid) {
        return Err(Unfinished::Again);
    }
    let edit = kind.edit(&job, &current, at.carried).map_err(|error| log("make the edit", uid, &error))?;
    let Some(edit) = edit else {
        // The view was old. If it was not, the next look must not follow at once.
        shared.lanes.plan_all(shared.index.apply_workload(decode_workload(shared, &kind, &read)?));
        learn(shared, &kind, asked, &stored)?;
        return Err(Unfinished::Again);
    };
    let body = edit.to_string().into_bytes();
    let outcome = kubeio::patch(asked.client, &paths::by_us(&path), Patch::Merge, body, WRITE_DEADLINE).await;
    match outcome.inspect_err(|error| shared.metrics().worker_write_failed(worker, error)) {
        Ok(answer) => {
            tracing::info!(job = name_of(workload), worker, "edit forwarded");
            shared.index.remember(uid, |memory| memory.edit_refused = None);
            learn(shared, &kind, asked, &answer)
        }
        Err(error) if error.is_conflict() || error.is_not_found() => Err(Unfinished::Again),
        Err(error) => match ground_of(&error) {
            Some((ground, why)) => {
                tracing::warn!(job = name_of(workload), worker, why, "the worker refuses an edit");
                let now = shared.clock.now().monotonic;
                shared.index.remember(uid, |memory| {
                    let before = memory.edit_refused.take().filter(|before| before.0 == digest);
                    let before = before.map(|before| before.1);
                    let refusal = Refusal::after(before.as_ref(), at.epoch, ground, why, now);
                    memory.edit_refused = Some(Box::new((digest, refusal)));
                });
                Ok(())
            }
            None => Err(failed("forward an edit", uid, &error)),
        },
    }
}
