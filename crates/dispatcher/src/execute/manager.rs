//! Reads and writes of the user's workload.

use std::sync::Arc;

use bytes::Bytes;
use jobferry_core::{
    custom::KindRef,
    kind::digest,
    knowledge::Gone,
    patch,
    record::{Placement, Record},
    time::WRITE_DEADLINE,
    workload::{Errand, Told, Workload},
};
use jobferry_kubeio::{self as kubeio, Patch};
use k8s_openapi::api::batch::v1::JobStatus;
use serde_json::{Value, json};

use super::{Unfinished, decode_workload, log, name_of, read_raw};
use crate::{Shared, link, paths, restored};

pub(super) async fn record_placement(
    shared: &Arc<Shared>,
    workload: &Workload,
    placement: &Placement,
) -> Result<(), Unfinished> {
    let uid = &workload.uid;
    let why = shared.index.refusal(uid, &placement.worker);
    let body = patch::placement(workload, placement, why.as_deref()).map_err(|error| log("encode", uid, &error))?;
    // From when it may have been stored, not from when we heard of it: that is what others' quarantine counts from.
    let sent = shared.clock.now().monotonic;
    let is_unseen = shared.index.has_no_mirror(uid);
    let answer = patch_record(shared, workload, &body).await?;
    let (worker, epoch) = (&placement.worker, placement.epoch);
    shared.metrics().placed(uid, worker);
    tracing::info!(job = name_of(workload), worker, epoch, moving = placement.moving, "placed");
    let stored = decode_workload(shared, &workload.kind(), &answer)?;
    let kept = matches!(stored.record, Record::Placed(_));
    // What is taken over from a mirror was placed by somebody before.
    let is_first = kept && workload.is_new() && is_unseen && shared.index.has_no_mirror(uid);
    shared.index.remember(uid, |memory| {
        // One that was not kept leads to nothing, and what is placed next need not wait for it.
        memory.acknowledged = kept.then_some((epoch, sent)).or(memory.acknowledged);
        memory.placed_first |= is_first;
        memory.unkept = (!kept).then_some(sent);
        memory.absent = None;
        memory.no_stray_in = None;
    });
    if kept && !placement.moving && placement.mirror.is_none() {
        shared.index.keep_fresh(uid, &stored.resource_version, answer);
    }
    shared.lanes.plan_all(shared.index.apply_workload(stored));
    if !kept {
        // Nothing is created without it.
        let gone = "the management cluster's admission took it off";
        return Err(log("record where the workload goes", uid, &gone));
    }
    shared.lanes.hand_over(worker, uid, Errand::Start);
    Ok(())
}

pub(super) async fn write_status(
    shared: &Arc<Shared>,
    workload: &Workload,
    status: &JobStatus,
    placement: Option<&Placement>,
) -> Result<(), Unfinished> {
    let body = patch::status(workload, status, placement).map_err(|e| log("encode", &workload.uid, &e))?;
    let answer = patch_status(shared, workload, &body).await?;
    let written = Some(shared.clock.now().monotonic);
    shared.index.remember(&workload.uid, |memory| memory.status_written = written);
    if let Some(placement) = placement {
        shared.metrics().status_copied(&workload.uid, &placement.worker);
    }
    learn(shared, &workload.kind(), &answer)
}

pub(super) async fn write_custom_status(
    shared: &Arc<Shared>,
    workload: &Workload,
    status: &Value,
) -> Result<(), Unfinished> {
    let answer = patch_status(shared, workload, &patch::custom_status(workload, status)).await?;
    let written = Some(shared.clock.now().monotonic);
    let stored = decode_workload(shared, &workload.kind(), &answer)?;
    let copied = stored.custom.as_ref().map(|custom| (digest(status), digest(custom.stored.status())));
    shared.index.remember(&workload.uid, |memory| {
        memory.status_written = written;
        memory.status_copied = copied;
    });
    if let Record::Placed(at) = &workload.record {
        shared.metrics().status_copied(&workload.uid, &at.worker);
    }
    shared.lanes.plan_all(shared.index.apply_workload(stored));
    Ok(())
}

pub(super) async fn tell(shared: &Arc<Shared>, workload: &Workload, told: &Told) -> Result<(), Unfinished> {
    let answer = patch_record(shared, workload, &patch::told(workload, told)).await?;
    let now = shared.clock.now().monotonic;
    shared.index.remember(&workload.uid, |memory| memory.told = Some((told.fingerprint(), now)));
    learn(shared, &workload.kind(), &answer)
}

/// Deletes a finished workload, if it is still the one that was looked at.
pub(super) async fn delete(shared: &Arc<Shared>, workload: &Workload) -> Result<(), Unfinished> {
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
        "preconditions": {"uid": workload.uid, "resourceVersion": workload.resource_version},
    });
    let path = workload.kind().object(&workload.namespace, &workload.name);
    let outcome = kubeio::delete(&shared.manager, &path, options.to_string().into_bytes(), WRITE_DEADLINE).await;
    match outcome.inspect_err(|error| shared.metrics().manager_write_failed(error)) {
        Ok(_) => {
            tracing::info!(workload = name_of(workload), "deleted: its time to live is over");
            Ok(())
        }
        // Gone, or changed: the watch tells.
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => Err(log("delete a finished workload", &workload.uid, &error)),
    }
}

/// The view is older than what a worker shows, or than what a write met.
pub(super) async fn read_again(shared: &Arc<Shared>, workload: &Workload) -> Result<(), Unfinished> {
    let before = &workload.resource_version;
    match read(shared, &workload.kind(), &workload.uid, &workload.namespace, &workload.name).await? {
        Some(found) if found.resource_version != *before => shared.lanes.plan_all(shared.index.apply_workload(found)),
        // That was no news either: the next look must not follow at once.
        Some(_) => return Err(Unfinished::Again),
        None => shared.lanes.plan_all(shared.index.delete_workload(&workload.uid)),
    }
    Ok(())
}

/// Finds out whether the workload is gone. The manager must be the one that we know: another cluster behind its address
/// has none of our workloads; and its own version tells whether it was restored from a backup.
pub(super) async fn prove_gone(shared: &Arc<Shared>, uid: &str, namespace: &str, name: &str) -> Result<(), Unfinished> {
    let Some(kind) = shared.index.kind_of(uid) else { return Ok(()) };
    if let Some(found) = read(shared, &kind, uid, namespace, name).await? {
        shared.lanes.plan_all(shared.index.apply_workload(found));
        return Ok(());
    }
    let identity = link::identity_of(&shared.manager).await.map_err(|e| log("ask who the manager is", uid, &e))?;
    if identity != shared.identity {
        return Err(log("prove a workload gone", uid, &format!("another cluster, {identity}, answers as manager")));
    }
    let version = restored::manager_version(shared).await.map_err(|e| log("ask for the manager's version", uid, &e))?;
    let gone = Gone { version, at: shared.clock.now().monotonic };
    shared.index.remember(uid, |memory| memory.gone = Some(gone));
    shared.lanes.plan_all([uid.to_owned()]);
    Ok(())
}

/// The workload, fresh. Another UID under its name, or none, means that it is gone.
async fn read(
    shared: &Arc<Shared>,
    kind: &KindRef,
    uid: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<Box<Workload>>, Unfinished> {
    match read_raw(&shared.manager, &kind.object(namespace, name)).await {
        Ok(found) => Ok(Some(decode_workload(shared, kind, &found)?).filter(|found| found.uid == uid)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(log("read the workload", uid, &error)),
    }
}

/// Writes what is recorded and told of a workload: in the status of a Job, beside that of other kinds.
async fn patch_record(shared: &Arc<Shared>, workload: &Workload, body: &Value) -> Result<Bytes, Unfinished> {
    let kind = workload.kind();
    match kind {
        KindRef::Job => patch_status(shared, workload, body).await,
        KindRef::Custom(_) => send(shared, workload, &kind.object(&workload.namespace, &workload.name), body).await,
    }
}

async fn patch_status(shared: &Arc<Shared>, workload: &Workload, body: &Value) -> Result<Bytes, Unfinished> {
    send(shared, workload, &workload.kind().status(&workload.namespace, &workload.name), body).await
}

async fn send(shared: &Arc<Shared>, workload: &Workload, path: &str, body: &Value) -> Result<Bytes, Unfinished> {
    let form = match workload.kind() {
        KindRef::Job => Patch::Strategic,
        KindRef::Custom(_) => Patch::Merge,
    };
    let sent = body.to_string().into_bytes();
    let outcome = kubeio::patch(&shared.manager, &paths::by_us(path), form, sent, WRITE_DEADLINE).await;
    match outcome.inspect_err(|error| shared.metrics().manager_write_failed(error)) {
        Ok(answer) => Ok(answer),
        // Somebody wrote in between, and our watch may be slow to say what.
        Err(error) if error.is_conflict() => {
            read_again(shared, workload).await?;
            Err(Unfinished::Again)
        }
        // The object, or its definition has no such subresource.
        Err(error) if error.is_not_found() && workload.custom.is_some() => {
            tracing::warn!(workload = name_of(workload), %error, path, "there is nothing to write to");
            read_again(shared, workload).await?;
            Err(Unfinished::Again)
        }
        Err(error) if error.is_not_found() => {
            shared.lanes.plan_all(shared.index.delete_workload(&workload.uid));
            Err(Unfinished::Again)
        }
        // Ours is the mistake, and whoever mends it needs both sides of it.
        Err(error) if error.refusal().is_some_and(|refusal| refusal.code == 422) => {
            tracing::error!(job = name_of(workload), %error, sent = %body, stored = ?workload.status, "an illegal status");
            let refused = Some(workload.resource_version.clone());
            shared.index.remember(&workload.uid, |memory| memory.status_refused = refused);
            read_again(shared, workload).await?;
            Err(Unfinished::Again)
        }
        Err(error) => Err(log("write the status", &workload.uid, &error)),
    }
}

fn learn(shared: &Arc<Shared>, kind: &KindRef, answer: &[u8]) -> Result<(), Unfinished> {
    let workload = decode_workload(shared, kind, answer)?;
    shared.lanes.plan_all(shared.index.apply_workload(workload));
    Ok(())
}
