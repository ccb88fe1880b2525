//! Creating, finding and deleting a mirror.

use std::sync::Arc;

use jobferry_api::labels;
use jobferry_core::{
    action::{MirrorRef, Pods},
    claim::{self, Whose},
    custom::KindRef,
    knowledge::Absence,
    placement::{LAST_CHOICE, WorkerView},
    record::{Placement, Record},
    refusal::{Ground, Refusal},
    time::{CREATE_WINDOW, WRITE_DEADLINE},
    workload::Workload,
};
use jobferry_kubeio::{self as kubeio, CallError, Patch};
use kube::Client;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};

use super::{
    Asked, Unfinished, decode, decode_mirror, decode_workload, discard::discard, failed, failing, ground_of, log,
    name_of, read_raw,
};
use crate::{Shared, link, paths};

pub(super) async fn create(
    shared: &Arc<Shared>,
    asked: Asked<'_>,
    workload: &Workload,
    placement: &Placement,
) -> Result<(), Unfinished> {
    let (uid, kind) = (&workload.uid, workload.kind());
    let path = kind.object(&workload.namespace, &workload.name);
    let job = match shared.index.take_fresh(uid, &workload.resource_version) {
        Some(answer) => answer,
        None => read_raw(&shared.manager, &path).await.map_err(|error| {
            log("read the workload to mirror", uid, &error);
            Unfinished::Unasked
        })?,
    };
    // It may have been deleted, re-created or placed anew since the plan was made.
    let current = decode_workload(shared, &kind, &job)?;
    if current.uid != *uid || current.deleting || !same_placement(&current.record, placement) {
        shared.lanes.plan_all(shared.index.apply_workload(current));
        return Err(Unfinished::Unasked);
    }
    let job: Value = decode(&job)?;
    let mirror =
        kind.mirror_of(&job, placement, &shared.origin).map_err(|error| log("make the mirror", uid, &error))?;
    let path = format!("{}&fieldValidation=Strict", paths::by_us(&kind.collection(&workload.namespace)));
    // The read above took its time: the last look at the clock is right before the request leaves.
    let now = shared.clock.now();
    let acknowledged = shared.index.acknowledged(uid, placement.epoch);
    if acknowledged.is_none_or(|acknowledged| now.since(acknowledged) >= CREATE_WINDOW) {
        return Err(Unfinished::Unasked);
    }
    // In doubt from here on, for this task may be dropped together with its connection; an answer lifts the doubt.
    let mut doubt = None;
    let mut is_known = false;
    shared.index.remember(uid, |memory| {
        doubt = memory.in_doubt.replace(now.monotonic);
        is_known = true;
    });
    if !is_known {
        return Err(Unfinished::Unasked);
    }
    let outcome = kubeio::create(asked.client, &path, mirror.to_string().into_bytes(), WRITE_DEADLINE).await;
    // A webhook may deny in whatever words: that is no word of the name.
    let is_taken = |error: &CallError| error.is_already_exists() && ground_of(error).is_none();
    let answered = outcome.as_ref().err().is_none_or(|error| is_taken(error) || ground_of(error).is_some());
    if answered {
        shared.index.remember(uid, |memory| memory.in_doubt = doubt);
    }
    match outcome.inspect_err(|error| shared.metrics().worker_write_failed(&placement.worker, error)) {
        Ok(answer) => accept(shared, asked, workload, placement, &mirror, &answer).await,
        // Ours of an earlier attempt, or somebody else's: a fresh read tells.
        Err(error) if is_taken(&error) => look_for(shared, asked, workload, Some(&mirror)).await,
        Err(error) => {
            if let Some((ground, why)) = ground_of(&error) {
                refuse(shared, uid, placement, ground, why);
                return Ok(());
            }
            // It may have created the mirror all the same, so the doubt stays; but it is better to go elsewhere.
            if let Some(why) = failing(shared, uid, placement, &error) {
                // What has failed there before says nothing new of the worker: it would be the last choice for ever.
                if !shared.index.failed_before(uid, &placement.worker) {
                    shared.index.note_failing(&placement.worker, Some(now.monotonic + LAST_CHOICE));
                }
                refuse(shared, uid, placement, Ground::Failing, why);
                shared.lanes.plan_all([uid.clone()]);
            }
            Err(failed("create the mirror", uid, &error))
        }
    }
}

fn same_placement(record: &Record, placement: &Placement) -> bool {
    matches!(record, Record::Placed(at) if placement.repeats(at))
}

/// Takes the mirror over as the worker stored it, if it is what was sent.
async fn accept(
    shared: &Arc<Shared>,
    asked: Asked<'_>,
    workload: &Workload,
    placement: &Placement,
    sent: &Value,
    answer: &[u8],
) -> Result<(), Unfinished> {
    let kind = workload.kind();
    let mirror = decode_mirror(shared, asked, &kind, answer)?;
    let (uid, worker) = (&workload.uid, &placement.worker);
    if let Some(misfit) = claim::misfit(&kind, sent, &decode(answer)?) {
        return discard(shared, asked, workload, placement, &MirrorRef::from(&mirror), misfit).await;
    }
    tracing::info!(job = name_of(workload), worker, "mirror created");
    shared.index.note_failing(worker, None);
    shared.index.remember(uid, |memory| memory.failures = None);
    shared.metrics().mirrored(uid);
    shared.lanes.plan_all(shared.index.hear_of_mirror(worker, mirror, asked.lists));
    Ok(())
}

/// Reads the mirror's name on the worker of the workload's placement, fresh, from the cluster that the placement means.
pub(super) async fn prove_absent(
    shared: &Arc<Shared>,
    asked: Asked<'_>,
    workload: &Workload,
) -> Result<(), Unfinished> {
    look_for(shared, asked, workload, None).await
}

/// The same; `sent` is what a create of ours has just found the name taken for.
async fn look_for(
    shared: &Arc<Shared>,
    asked: Asked<'_>,
    workload: &Workload,
    sent: Option<&Value>,
) -> Result<(), Unfinished> {
    let uid = &workload.uid;
    let Record::Placed(at) = &workload.record else { return Ok(()) };
    let identity = link::identity_of(asked.client).await.map_err(|e| failed("ask who the worker is", uid, &e))?;
    if identity != at.identity {
        log("look for the mirror", uid, &format!("another cluster, {identity}, answers as {}", at.worker));
        return Err(Unfinished::Stranger);
    }
    let before = shared.index.last_seen(uid, &at.worker);
    let path = workload.kind().object(&workload.namespace, &workload.name);
    match read_raw(asked.client, &path).await {
        Ok(answer) => judge(shared, asked, workload, at, sent, &answer).await,
        Err(error) if error.is_not_found() => {
            let pods = has_pods(asked.client, uid, &workload.namespace).await?;
            shared.index.prove_absent(uid, at, before.as_deref(), pods);
            Ok(())
        }
        Err(error) => Err(failed("look for the mirror", uid, &error)),
    }
}

/// Reads the mirror's name in the cluster that took the place of the recorded one. What is found there is dealt with; that
/// there is nothing says nothing of the other cluster.
pub(super) async fn look_for_stray(
    shared: &Arc<Shared>,
    asked: Asked<'_>,
    workload: &Workload,
) -> Result<(), Unfinished> {
    let (uid, kind) = (&workload.uid, workload.kind());
    let Record::Placed(at) = &workload.record else { return Ok(()) };
    let identity = link::identity_of(asked.client).await.map_err(|e| failed("ask who the worker is", uid, &e))?;
    match shared.index.worker(asked.name).as_ref().and_then(WorkerView::live_identity) {
        Some(connected) if connected == identity => {}
        Some(_) => return Err(Unfinished::Stranger),
        None => return Err(Unfinished::Again),
    }
    match read_raw(asked.client, &kind.object(&workload.namespace, &workload.name)).await {
        Ok(answer) => {
            let (mirror, object) = (decode_mirror(shared, asked, &kind, &answer)?, decode(&answer)?);
            let whose = claim::whose(&object, &mirror, workload, at, &shared.origin);
            if !matches!(whose, Whose::Earlier | Whose::Foreign) {
                return judge(shared, asked, workload, at, None, &answer).await;
            }
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(failed("look for a stray mirror", uid, &error)),
    }
    shared.index.remember(uid, |memory| memory.no_stray_in = Some(identity.into()));
    Ok(())
}

/// Acts on what was found under the mirror's name.
async fn judge(
    shared: &Arc<Shared>,
    asked: Asked<'_>,
    workload: &Workload,
    at: &Placement,
    sent: Option<&Value>,
    answer: &[u8],
) -> Result<(), Unfinished> {
    let kind = workload.kind();
    let mirror = decode_mirror(shared, asked, &kind, answer)?;
    let object: Value = decode(answer)?;
    if let Some(misfit) = shared.index.discarded(&workload.uid, &mirror.uid).filter(|_| !mirror.is_finished()) {
        if misfit.is_mended(&kind, &object, &workload.uid, &shared.origin) {
            shared.index.keep(&workload.uid);
        } else if mirror.deleting {
            return Err(Unfinished::Again);
        } else {
            return discard(shared, asked, workload, at, &MirrorRef::from(&mirror), misfit).await;
        }
    }
    match claim::whose(&object, &mirror, workload, at, &shared.origin) {
        // Of an earlier attempt whose answer was lost: it is looked at now as it would have been then. What has come to
        // its end is a result, whatever it was made of.
        Whose::Ours
            if let Some(misfit) = sent.and_then(|sent| claim::misfit(&kind, sent, &object))
                && !mirror.is_finished() =>
        {
            discard(shared, asked, workload, at, &MirrorRef::from(&mirror), misfit).await
        }
        // What ends while it is being removed is a result, if it is seen in time.
        Whose::Going if mirror.is_finished() => learn(shared, &kind, asked, answer),
        Whose::Ours => {
            let touched = shared.index.hear_of_mirror(asked.name, mirror, asked.lists);
            // What the watch has shown already is no news: the next look must not follow at once.
            let news = !touched.is_empty();
            shared.lanes.plan_all(touched);
            if news { Ok(()) } else { Err(Unfinished::Again) }
        }
        Whose::Unmarked => {
            tracing::warn!(job = name_of(workload), worker = at.worker, "marks taken off the mirror are put back");
            let body = claim::marks(&mirror, workload, at, &shared.origin).to_string().into_bytes();
            let path = paths::by_us(&kind.object(&workload.namespace, &workload.name));
            let marked = kubeio::patch(asked.client, &path, Patch::Merge, body, WRITE_DEADLINE).await;
            learn(
                shared,
                &kind,
                asked,
                &marked.map_err(|error| failed("mark the mirror again", &workload.uid, &error))?,
            )
        }
        Whose::Going => Err(Unfinished::Again),
        Whose::Earlier => {
            let message = format!("the mirror of an earlier {} is still there", called(workload));
            take_name_for_taken(shared, workload, at, Ground::BeingRemoved, message);
            Ok(())
        }
        Whose::Foreign => {
            let message = format!("a {} exists there and is not ours", called(workload));
            take_name_for_taken(shared, workload, at, Ground::NameTaken, message);
            Ok(())
        }
    }
}

fn called(workload: &Workload) -> String {
    format!("{} named {}", workload.kind().type_meta().1, name_of(workload))
}

/// Another object has the name: ours is absent, and cannot be created.
fn take_name_for_taken(shared: &Arc<Shared>, workload: &Workload, at: &Placement, ground: Ground, why: String) {
    shared.index.remember(&workload.uid, |memory| memory.absent = Some(Absence::proved_for(at).behind_another()));
    refuse(shared, &workload.uid, at, ground, why);
}

/// Takes over what a worker answered.
pub(super) fn learn(shared: &Arc<Shared>, kind: &KindRef, asked: Asked<'_>, answer: &[u8]) -> Result<(), Unfinished> {
    let mirror = decode_mirror(shared, asked, kind, answer)?;
    if claim::is_watched(&decode(answer)?, &shared.origin) || mirror.is_finished() {
        shared.lanes.plan_all(shared.index.hear_of_mirror(asked.name, mirror, asked.lists));
        return Ok(());
    }
    // Somebody took our label off. What is heard of it now would be the last: it is looked for, and marked again.
    shared.lanes.plan_all(shared.index.delete_mirror(asked.name, mirror));
    Err(Unfinished::Again)
}

/// Whether pods of this workload are left on the worker: evidence that a mirror existed. No pods prove nothing, for they go
/// with their mirror: that it is absent is what the read of its name has shown. So a worker that does not let us look
/// gives no evidence, and is used all the same.
async fn has_pods(client: &Client, uid: &str, namespace: &str) -> Result<bool, Unfinished> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<IgnoredAny>,
    }
    let selector = format!("{}%3D{uid}", labels::ORIGIN_UID.replace('/', "%2F"));
    let path = format!("/api/v1/namespaces/{namespace}/pods?limit=1&labelSelector={selector}");
    match kubeio::get::<List>(client, &path, WRITE_DEADLINE).await {
        Ok(list) => Ok(!list.items.is_empty()),
        Err(error) if error.refusal().is_some_and(|refusal| refusal.code == 403) => {
            tracing::warn!(uid, %error, "may not look for pods; whether they are left of a mirror that is gone is unknown");
            Ok(false)
        }
        Err(error) => Err(failed("look for pods", uid, &error)),
    }
}

pub(super) fn refuse(shared: &Arc<Shared>, uid: &str, placement: &Placement, ground: Ground, why: String) {
    let (worker, epoch) = (&placement.worker, placement.epoch);
    tracing::warn!(uid, worker, ?ground, why, "the worker refuses the mirror");
    shared.metrics().refused(worker);
    let at = shared.clock.now().monotonic;
    shared.index.remember(uid, |memory| {
        let refusal = Refusal::after(memory.refusals.get(worker), epoch, ground, why, at);
        memory.refusals.insert(worker.clone(), refusal);
    });
}

pub(super) async fn delete(
    shared: &Arc<Shared>,
    asked: Asked<'_>,
    uid: &str,
    mirror: &MirrorRef,
    pods: Pods,
) -> Result<(), Unfinished> {
    let worker = asked.name;
    let outcome = send_delete(asked.client, mirror, pods).await;
    match outcome.inspect_err(|error| shared.metrics().worker_write_failed(worker, error)) {
        Ok(()) => {
            tracing::info!(job = format!("{}/{}", mirror.namespace, mirror.name), worker, "mirror deleted");
            shared.index.mark_deleting(uid, worker, &mirror.uid);
            Ok(())
        }
        Err(error) if error.is_not_found() => {
            shared.index.mark_vanished(uid, worker, &mirror.uid);
            Ok(())
        }
        Err(error) if error.is_conflict() => look_again(shared, asked, uid, mirror).await,
        Err(error) => Err(failed("delete the mirror", uid, &error)),
    }
}

/// The mirror changed since the decision to delete it (it may have finished), or its name belongs to another object now.
async fn look_again(shared: &Arc<Shared>, asked: Asked<'_>, uid: &str, mirror: &MirrorRef) -> Result<(), Unfinished> {
    match read_raw(asked.client, &mirror.kind.object(&mirror.namespace, &mirror.name)).await {
        Ok(answer) if decode_mirror(shared, asked, &mirror.kind, &answer)?.uid == mirror.uid => {
            let found = decode_mirror(shared, asked, &mirror.kind, &answer)?;
            shared.lanes.plan_all(shared.index.correct_mirror(
                asked.name,
                found,
                &mirror.resource_version,
                asked.lists,
            ));
            // Whatever it was, it has just been otherwise: the next try must not follow at once.
            Err(Unfinished::Again)
        }
        Err(error) if !error.is_not_found() => Err(failed("look at the mirror again", uid, &error)),
        _ => {
            shared.index.mark_vanished(uid, asked.name, &mirror.uid);
            Ok(())
        }
    }
}

pub(super) async fn send_delete(client: &Client, mirror: &MirrorRef, pods: Pods) -> Result<(), CallError> {
    let policy = match pods {
        Pods::Later => "Background",
        Pods::First => "Foreground",
    };
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "propagationPolicy": policy, "preconditions": {"uid": mirror.uid, "resourceVersion": mirror.resource_version},
    });
    let path = mirror.kind.object(&mirror.namespace, &mirror.name);
    kubeio::delete(client, &path, options.to_string().into_bytes(), WRITE_DEADLINE).await.map(drop)
}
