//! Carrying out single actions. What comes of each goes into the index; an `Err` means: plan again, after a while.

use std::sync::Arc;

use bytes::Bytes;
use jobferry_core::{
    action::{Action, MirrorRef, Pods},
    forward,
    knowledge::Refusal,
    mirror::mirror_of,
    patch,
    record::{Placement, Record},
    time::WRITE_DEADLINE,
    workload::{Mirror, Workload},
};
use jobferry_kubeio::{self as kubeio, CallError, Patch};
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{Shared, paths};

/// The action did not come to its end.
pub(crate) struct Unfinished;

pub(crate) async fn on_manager(
    shared: &Arc<Shared>,
    uid: &str,
    workload: Option<&Workload>,
    action: Action,
) -> Result<(), Unfinished> {
    match (action, workload) {
        (Action::RecordPlacement(placement), Some(workload)) => {
            let body = patch::placement(workload, &placement).map_err(|error| log("encode", uid, &error))?;
            let answer = patch_status(shared, workload, &body).await?;
            tracing::info!(job = name_of(workload), worker = placement.worker, epoch = placement.epoch, "placed");
            let acknowledged = Some((placement.epoch, shared.clock.now().monotonic));
            shared.index.keep_fresh(uid, answer.clone());
            learn_workload(shared, &answer)?;
            shared.index.remember(uid, |memory| {
                memory.acknowledged = acknowledged;
                memory.absent = None;
            });
        }
        (Action::WriteStatus { status, placement }, Some(workload)) => {
            let body = patch::status(workload, &status, placement.as_ref()).map_err(|e| log("encode", uid, &e))?;
            let answer = patch_status(shared, workload, &body).await?;
            let written = Some(shared.clock.now().monotonic);
            shared.index.remember(uid, |memory| memory.status_written = written);
            learn_workload(shared, &answer)?;
        }
        (Action::Tell(told), Some(workload)) => {
            let answer = patch_status(shared, workload, &patch::told(workload, &told)).await?;
            learn_workload(shared, &answer)?;
        }
        (Action::ReadAgain, Some(workload)) => {
            read_workload(shared, uid, &workload.namespace, &workload.name).await?;
            // If that was no news either, the next look must not follow at once.
            return Err(Unfinished);
        }
        (Action::ProveGone { namespace, name }, _) => read_workload(shared, uid, &namespace, &name).await?,
        _ => {}
    }
    Ok(())
}

pub(crate) async fn on_worker(
    shared: &Arc<Shared>,
    client: &Client,
    uid: &str,
    workload: Option<&Workload>,
    action: Action,
) -> Result<(), Unfinished> {
    match (action, workload) {
        (Action::CreateMirror(placement), Some(workload)) => {
            create_mirror(shared, client, uid, workload, &placement).await
        }
        (Action::ProveAbsent { worker, epoch }, Some(workload)) => {
            prove_absent(shared, client, uid, workload, &worker, epoch).await
        }
        (Action::ForwardEdit { worker, mirror, digest }, Some(workload)) => {
            forward_edit(shared, client, workload, &worker, &mirror, digest).await
        }
        (Action::DeleteMirror { worker, mirror, pods }, _) => delete_mirror(client, uid, &worker, &mirror, pods).await,
        _ => Ok(()),
    }
}

/// Reads a workload fresh. Another UID under its name, or none, proves that it is gone.
async fn read_workload(shared: &Arc<Shared>, uid: &str, namespace: &str, name: &str) -> Result<(), Unfinished> {
    match kubeio::get::<Workload>(&shared.manager, &paths::job(namespace, name), WRITE_DEADLINE).await {
        Ok(found) if found.uid == uid => shared.lanes.plan_all(shared.index.apply_workload(found)),
        Ok(_) => shared.index.remember(uid, |memory| memory.gone = true),
        Err(error) if error.is_not_found() => shared.index.remember(uid, |memory| memory.gone = true),
        Err(error) => return Err(log("read the workload", uid, &error)),
    }
    shared.lanes.plan_all([uid.to_owned()]);
    Ok(())
}

async fn patch_status(shared: &Arc<Shared>, workload: &Workload, body: &Value) -> Result<Bytes, Unfinished> {
    let path = paths::job_status(&workload.namespace, &workload.name);
    let body = body.to_string().into_bytes();
    match kubeio::patch(&shared.manager, &path, Patch::Strategic, body, WRITE_DEADLINE).await {
        Ok(answer) => Ok(answer),
        // Somebody wrote in between; the watch will bring it.
        Err(error) if error.is_conflict() => Err(Unfinished),
        Err(error) => Err(log("write the status", &workload.uid, &error)),
    }
}

fn learn_workload(shared: &Arc<Shared>, answer: &[u8]) -> Result<(), Unfinished> {
    let workload: Workload = decode(answer)?;
    shared.lanes.plan_all(shared.index.apply_workload(workload));
    Ok(())
}

async fn create_mirror(
    shared: &Arc<Shared>,
    client: &Client,
    uid: &str,
    workload: &Workload,
    placement: &Placement,
) -> Result<(), Unfinished> {
    let worker = &placement.worker;
    let job = match shared.index.take_fresh(uid) {
        Some(answer) => answer,
        None => read_raw(&shared.manager, &paths::job(&workload.namespace, &workload.name)).await?,
    };
    // It may have been deleted, re-created or placed anew since the plan was made.
    let current: Workload = decode(&job)?;
    if current.uid != uid || current.deleting || !same_placement(&current.record, placement) {
        shared.lanes.plan_all(shared.index.apply_workload(current));
        return Err(Unfinished);
    }
    let job: Value = decode(&job)?;
    let mirror = mirror_of(&job, placement, &shared.origin).map_err(|error| log("make the mirror", uid, &error))?;
    let path = format!("{}?fieldValidation=Strict&fieldManager=jobferry", paths::jobs(&workload.namespace));
    match kubeio::create(client, &path, mirror.to_string().into_bytes(), WRITE_DEADLINE).await {
        Ok(answer) => {
            tracing::info!(job = name_of(workload), worker, "mirror created");
            learn_mirror(shared, worker, &answer)
        }
        // Ours of an earlier attempt, or somebody else's: a fresh read tells.
        Err(error) if error.is_already_exists() => {
            prove_absent(shared, client, uid, workload, worker, placement.epoch).await
        }
        Err(CallError::Refused(refusal)) if refusal.code < 500 && refusal.code != 429 => {
            refuse(shared, uid, worker, refusal.message);
            Ok(())
        }
        Err(error) => Err(log("create the mirror", uid, &error)),
    }
}

fn same_placement(record: &Record, placement: &Placement) -> bool {
    matches!(record, Record::Placed(at) if at.worker == placement.worker && at.epoch == placement.epoch)
}

/// Reads the mirror's name on the worker, fresh.
async fn prove_absent(
    shared: &Arc<Shared>,
    client: &Client,
    uid: &str,
    workload: &Workload,
    worker: &str,
    epoch: u32,
) -> Result<(), Unfinished> {
    let path = paths::job(&workload.namespace, &workload.name);
    match kubeio::get::<Mirror>(client, &path, WRITE_DEADLINE).await {
        Ok(mirror) if mirror.origin_uid == uid => {
            shared.lanes.plan_all(shared.index.apply_mirror(worker, mirror));
            Ok(())
        }
        Ok(foreign) => {
            let message = format!("a Job named {}/{} exists there and is not ours", foreign.namespace, foreign.name);
            shared.index.remember(uid, |memory| memory.absent = Some(epoch));
            refuse(shared, uid, worker, message);
            Ok(())
        }
        Err(error) if error.is_not_found() => {
            shared.index.remember(uid, |memory| memory.absent = Some(epoch));
            Ok(())
        }
        Err(error) => Err(log("look for the mirror", uid, &error)),
    }
}

fn refuse(shared: &Arc<Shared>, uid: &str, worker: &str, why: String) {
    tracing::warn!(uid, worker, why, "the worker refuses the mirror");
    let refusal = Refusal { why, at: shared.clock.now().monotonic };
    shared.index.remember(uid, |memory| drop(memory.refusals.insert(worker.to_owned(), refusal)));
}

async fn delete_mirror(
    client: &Client,
    uid: &str,
    worker: &str,
    mirror: &MirrorRef,
    pods: Pods,
) -> Result<(), Unfinished> {
    let policy = match pods {
        Pods::Later => "Background",
        Pods::First => "Foreground",
    };
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "propagationPolicy": policy, "preconditions": {"uid": mirror.uid},
    });
    let path = paths::job(&mirror.namespace, &mirror.name);
    match kubeio::delete(client, &path, options.to_string().into_bytes(), WRITE_DEADLINE).await {
        Ok(_) => {
            tracing::info!(job = format!("{}/{}", mirror.namespace, mirror.name), worker, "mirror deleted");
            Ok(())
        }
        // Gone already, or the name belongs to another object now: the watch tells the same.
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => Err(log("delete the mirror", uid, &error)),
    }
}

/// Sends the user's last edit to the mirror. Both are read whole: the index keeps only fingerprints.
async fn forward_edit(
    shared: &Arc<Shared>,
    client: &Client,
    workload: &Workload,
    worker: &str,
    mirror: &MirrorRef,
    digest: forward::Digest,
) -> Result<(), Unfinished> {
    let uid = &workload.uid;
    let path = paths::job(&workload.namespace, &workload.name);
    let job: Value = decode(&read_raw(&shared.manager, &path).await?)?;
    let current: Value = decode(&read_raw(client, &path).await?)?;
    let Record::Placed(at) = &workload.record else { return Ok(()) };
    // Either may have been replaced by another object of the same name since the plan was made.
    let is = |object: &Value, uid: &str| object.pointer("/metadata/uid").and_then(Value::as_str) == Some(uid);
    if !is(&job, uid) || !is(&current, &mirror.uid) {
        return Err(Unfinished);
    }
    let Some(edit) = forward::edit(&job, &current, at.carried) else {
        return learn_mirror(shared, worker, &current.to_string().into_bytes());
    };
    match kubeio::patch(client, &path, Patch::Merge, edit.to_string().into_bytes(), WRITE_DEADLINE).await {
        Ok(answer) => {
            tracing::info!(job = name_of(workload), worker, "edit forwarded");
            learn_mirror(shared, worker, &answer)
        }
        Err(error) if error.is_conflict() || error.is_not_found() => Err(Unfinished),
        Err(CallError::Refused(refusal)) if refusal.code < 500 && refusal.code != 429 => {
            tracing::warn!(job = name_of(workload), worker, why = refusal.message, "the worker refuses an edit");
            shared.index.remember(uid, |memory| memory.edit_refused = Some((digest, refusal.message)));
            Ok(())
        }
        Err(error) => Err(log("forward an edit", uid, &error)),
    }
}

fn learn_mirror(shared: &Arc<Shared>, worker: &str, answer: &[u8]) -> Result<(), Unfinished> {
    let mirror: Mirror = decode(answer)?;
    shared.lanes.plan_all(shared.index.apply_mirror(worker, mirror));
    Ok(())
}

/// One object, whole, fresh from the store.
async fn read_raw(client: &Client, path: &str) -> Result<Bytes, Unfinished> {
    let request = http::Request::get(path).body(kube::client::Body::empty());
    let request = request.map_err(|error| log("build a request", path, &error))?;
    kubeio::call(client, request, WRITE_DEADLINE).await.map_err(|error| log("read", path, &error))
}

fn decode<T: DeserializeOwned>(answer: &[u8]) -> Result<T, Unfinished> {
    serde_json::from_slice(answer).map_err(|error| log("read an answer", "", &error))
}

fn log(what: &'static str, uid: &str, error: &dyn std::fmt::Display) -> Unfinished {
    tracing::warn!(uid, %error, "could not {what}; trying again");
    Unfinished
}

fn name_of(workload: &Workload) -> String {
    format!("{}/{}", workload.namespace, workload.name)
}
