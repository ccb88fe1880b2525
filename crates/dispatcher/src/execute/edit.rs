//! Sending the user's edits to the mirror.

use std::sync::Arc;

use jobferry_core::{
    action::MirrorRef,
    forward::{self, Share},
    record::{Placement, Record},
    refusal::{Ground, Refusal},
    time::WRITE_DEADLINE,
    workload::Workload,
};
use jobferry_kubeio::{self as kubeio, CallError, Patch};
use serde_json::Value;

use super::{
    Asked, Unfinished, decode, decode_workload, failed, failing, ground_of, log, mirror::learn, name_of, read_raw,
};
use crate::{Shared, paths};

/// Sends the last edit, or as much of it as the worker takes. Both objects are read whole: the index keeps only fingerprints.
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
    // That tells nothing of the worker.
    let read = read_raw(&shared.manager, &path).await.map_err(|error| {
        log(what, uid, &error);
        Unfinished::Unasked
    })?;
    let job: Value = decode(&read)?;
    let stored = read_raw(asked.client, &path).await.map_err(|error| failed(what, uid, &error))?;
    let current: Value = decode(&stored)?;
    // Either may have been replaced by another object of the same name since the plan was made.
    let is = |object: &Value, uid: &str| object.pointer("/metadata/uid").and_then(Value::as_str) == Some(uid);
    if !is(&job, uid) || !is(&current, &mirror.uid) {
        return Err(Unfinished::Again);
    }
    let (mut sent, mut refused) = (Vec::new(), None);
    for share in Share::ALL {
        let edit = kind.edit(&job, &current, at.carried, share).map_err(|error| log("make the edit", uid, &error))?;
        let Some(edit) = edit.filter(|edit| !sent.contains(edit)) else { continue };
        let body = edit.to_string().into_bytes();
        let outcome = kubeio::patch(asked.client, &paths::by_us(&path), Patch::Merge, body, WRITE_DEADLINE).await;
        let error = match outcome.inspect_err(|error| shared.metrics().worker_write_failed(worker, error)) {
            Ok(answer) => {
                tracing::info!(job = name_of(workload), worker, ?share, "edit forwarded");
                shared.index.remember(uid, |memory| (memory.failures, memory.edit_refused) = (None, None));
                if let Some((ground, why)) = refused {
                    refuse(shared, workload, at, digest, ground, why);
                }
                return learn(shared, &kind, asked, &answer);
            }
            Err(error) if (error.is_conflict() || error.is_not_found()) && !is_denied(&error) => {
                return Err(Unfinished::Again);
            }
            Err(error) => error,
        };
        let Some((ground, why)) = ground_of(&error) else {
            if let Some(why) = failing(shared, uid, at, &error) {
                refuse(shared, workload, at, digest, Ground::Failing, why);
                shared.lanes.plan_all([uid.clone()]);
            }
            return Err(failed("forward an edit", uid, &error));
        };
        // What the worker does not accept may be a part of it only.
        let is_about_content = matches!(ground, Ground::Invalid | Ground::Denied);
        refused.get_or_insert((ground, why));
        sent.push(edit);
        if !is_about_content {
            break;
        }
    }
    if let Some((ground, why)) = refused {
        refuse(shared, workload, at, digest, ground, why);
        return Ok(());
    }
    // The view was old. If it was not, the next look must not follow at once.
    shared.lanes.plan_all(shared.index.apply_workload(decode_workload(shared, &kind, &read)?));
    learn(shared, &kind, asked, &stored)?;
    Err(Unfinished::Again)
}

/// A webhook may deny in whatever words: that is no word of the mirror.
fn is_denied(error: &CallError) -> bool {
    matches!(ground_of(error), Some((Ground::Denied, _)))
}

fn refuse(
    shared: &Arc<Shared>,
    workload: &Workload,
    at: &Placement,
    digest: forward::Digest,
    ground: Ground,
    why: String,
) {
    tracing::warn!(job = name_of(workload), worker = at.worker, why, "the worker refuses an edit");
    let now = shared.clock.now().monotonic;
    shared.index.remember(&workload.uid, |memory| {
        let before = memory.edit_refused.take().filter(|before| before.0 == digest).map(|before| before.1);
        let refusal = Refusal::after(before.as_ref(), at.epoch, ground, why, now);
        memory.edit_refused = Some(Box::new((digest, refusal)));
    });
}
