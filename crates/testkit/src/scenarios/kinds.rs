//! What Jobferry does with workloads of other kinds than Job: one suite for all of them. There is no operator: a scenario says
//! itself what the worker's operator would. Where a kind's rules leave something out (it never ends, nothing suspends it),
//! the scenario asks for what is true instead.

mod stage;
mod subject;

use std::time::Duration;

use jobferry_api::{Outcome as End, annotations, labels};
use jobferry_core::kind::{Delegation, Standing};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::dispatch::Outcome;
use crate::fleet::{Fleet, ScenarioError};

use stage::Placed;
pub use subject::Subject;

/// Longer than any time to live of the scenarios.
const A_WHILE: Duration = Duration::from_secs(600);

/// Why we give an object up: the reason, and what of the words does not depend on where it was.
const MIRROR_DELETED: (&str, &str) = ("MirrorDeleted", "was deleted before its end was seen");
const WORKER_LOST: (&str, &str) = ("WorkerLost", "has not answered for too long");

pub(super) fn chosen_worker(object: &Value) -> Option<&str> {
    object["metadata"]["labels"][labels::WORKER].as_str()
}

fn note_of(object: &Value) -> &str {
    object["metadata"]["annotations"][annotations::PLACED].as_str().unwrap_or_default()
}

fn includes(whole: &Value, part: &Value) -> bool {
    match part {
        Value::Object(fields) => fields.iter().all(|(field, value)| includes(&whole[field], value)),
        _ => whole == part,
    }
}

fn merge(whole: &mut Value, part: &Value) {
    match part {
        Value::Object(fields) => fields.iter().for_each(|(field, value)| merge(&mut whole[field], value)),
        _ => *whole = part.clone(),
    }
}

/// Nothing of that name is on any worker.
async fn is_nowhere(fleet: &Fleet, subject: &Subject, name: &str) -> Outcome {
    for worker in fleet.workers.keys() {
        let found = fleet.on_worker(worker, &subject.collection()).find(name).await?;
        assert!(found.is_none(), "on {worker}: {found:?}");
    }
    Ok(())
}

/// The worker's own operator runs the mirror; what it says comes back, to the end if there is one.
pub async fn it_runs_on_a_worker_and_succeeds(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    let whose = subject.kind.delegation(&at.mirror);
    assert_eq!(whose, Delegation::Elsewhere, "the worker's operator would not run it: {}", at.mirror);
    assert!(!at.mirror["spec"].to_string().contains("managedBy"), "nor what is inside of it: {}", at.mirror);
    assert_eq!(at.mirror["metadata"]["labels"]["team"], "etl");
    subject.run(&at).await?;
    subject.report(&at, &subject.at_last()).await?;
    subject.until_told(&at, "the last word").await?;
    if subject.kind.ends() {
        at.manager.until("nightly", "told of its end", |object| note_of(object).contains("Finished")).await?;
    }
    assert!(at.worker.find("nightly").await?.is_some(), "a finished mirror stays");
    Ok(())
}

/// A failure is a result too.
pub async fn it_fails_as_its_mirror_does(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    let failed = subject.end(End::Failed);
    subject.report(&at, failed.unwrap_or(&subject.at_last())).await?;
    let object = subject.until_told(&at, "its end").await?;
    assert_eq!(has_failed(subject, &object), failed.is_some(), "{object}");
    Ok(())
}

/// An edit of what the kind forwards reaches the mirror, and so do labels.
pub async fn its_edits_reach_its_mirror(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    let edited = subject.edited(at.object().await?);
    let labels = json!({"labels": {"stage": "two"}});
    at.manager.change("nightly", &json!({"spec": edited["spec"], "metadata": labels})).await?;
    let mirror = at.worker.until("nightly", "edited", |mirror| subject.has_edit(mirror)).await?;
    assert_eq!(mirror["metadata"]["labels"]["stage"], "two");
    subject.run(&at).await
}

/// A suspension reaches the mirror, and the status goes on being copied. Where no field suspends, one that is called so is
/// not forwarded.
pub async fn it_is_suspended_on_its_worker(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    let suspension = subject.suspension();
    let mut change = suspension.clone().map_or_else(|| json!({"spec": {"suspend": true}}), |[suspend, _]| suspend);
    let suspended = change.clone();
    merge(&mut change, &json!({"metadata": {"labels": {"stage": "two"}}}));
    at.manager.change("nightly", &change).await?;
    let staged = |mirror: &Value| mirror["metadata"]["labels"]["stage"] == "two";
    let mirror = at.worker.until("nightly", "edited", staged).await?;
    assert_eq!(includes(&mirror, &suspended), suspension.is_some(), "{mirror}");
    if let Some([_, resumed]) = suspension {
        at.manager.change("nightly", &resumed).await?;
        at.worker.until("nightly", "resumed", |mirror| !includes(mirror, &suspended)).await?;
    }
    subject.run(&at).await
}

/// Whoever submits it suspended wants nothing to happen yet, unless nothing can suspend it.
pub async fn it_waits_while_it_is_suspended(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let mut object = subject.object("held");
    let Some([suspended, resumed]) = subject.suspension() else {
        object["spec"]["suspend"] = true.into();
        return subject.placed_as(fleet, object).await.map(drop);
    };
    merge(&mut object, &suspended);
    let manager = fleet.on_manager(&subject.collection());
    manager.create(&object).await?;
    // Another one that comes later is placed: so this one was looked at.
    subject.placed(fleet, "other").await?;
    is_nowhere(fleet, subject, "held").await?;
    assert_eq!(chosen_worker(&manager.find("held").await?.unwrap_or_default()), None);
    manager.change("held", &resumed).await?;
    manager.until("held", "placed", |object| chosen_worker(object).is_some()).await?;
    Ok(())
}

/// Deleting the object removes its mirror.
pub async fn it_takes_its_mirror_along_when_it_is_deleted(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.running(fleet, "nightly").await?;
    at.manager.delete("nightly").await?;
    at.worker.until_gone("nightly").await
}

/// The same when the worker was away at that time.
pub async fn it_leaves_nothing_on_a_worker_that_was_away(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    fleet.cut(&at.on);
    fleet.until_connected(&at.on, false).await?;
    at.manager.delete("nightly").await?;
    at.manager.until_gone("nightly").await?;
    fleet.mend(&at.on);
    at.worker.until_gone("nightly").await
}

/// An object of somebody else's under the same name is told, and left alone.
pub async fn its_name_is_taken_on_the_worker(fleet: &Fleet, subject: &Subject) -> Outcome {
    let workers = fleet.two_workers();
    subject.install(fleet, &workers).await?;
    let foreign = subject.foreign("nightly");
    let mut before = Vec::new();
    for worker in workers {
        let objects = fleet.on_worker(worker, &subject.collection());
        objects.create(&foreign).await?;
        before.push(objects.find("nightly").await?);
    }
    let manager = fleet.on_manager(&subject.collection());
    manager.create(&subject.object("nightly")).await?;
    manager.until("nightly", "told", |object| note_of(object).contains("exists there and is not ours")).await?;
    for (worker, before) in workers.into_iter().zip(before) {
        assert_eq!(fleet.on_worker(worker, &subject.collection()).find("nightly").await?, before);
    }
    Ok(())
}

/// A worker without the definition is no candidate, and nothing else of it is disturbed.
pub async fn it_goes_where_its_kind_is_known(fleet: &Fleet, subject: &Subject) -> Outcome {
    let [without, with] = fleet.two_workers();
    subject.install(fleet, &[with]).await?;
    for name in ["one", "two", "three"] {
        assert_eq!(subject.placed(fleet, name).await?.on, with);
    }
    fleet.until_connected(without, true).await?;
    // It gets the definition later, and the other one is closed.
    subject.install_on_worker(fleet, without).await?;
    fleet.change_worker(with, &json!({"spec": {"cordoned": true}})).await?;
    assert_eq!(subject.placed(fleet, "four").await?.on, without);
    Ok(())
}

/// Where no worker knows the kind, people are told.
pub async fn it_waits_where_no_worker_knows_its_kind(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &[]).await?;
    let manager = fleet.on_manager(&subject.collection());
    manager.create(&subject.object("nightly")).await?;
    manager.until("nightly", "told", |object| note_of(object).contains("2 does not have this kind")).await?;
    Ok(())
}

/// A dispatcher that is restarted goes on where it was: nothing is mirrored twice.
pub async fn it_outlives_the_dispatcher(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.running(fleet, "nightly").await?;
    fleet.stop_dispatchers().await;
    subject.report(&at, &subject.at_last()).await?;
    fleet.start_dispatcher().await;
    let last = subject.until_told(&at, "the last word").await?;
    assert_eq!(chosen_worker(&last), Some(at.on.as_str()));
    assert_eq!(at.worker.find("nightly").await?.unwrap_or_default()["metadata"]["uid"], at.mirror["metadata"]["uid"]);
    let elsewhere = fleet.workers.keys().find(|worker| **worker != at.on).cloned().unwrap_or_default();
    assert!(fleet.on_worker(&elsewhere, &subject.collection()).find("nightly").await?.is_none());
    Ok(())
}

/// A mirror that somebody deleted may have ended unseen: the object fails, or people are told if it cannot, and nothing runs
/// again.
pub async fn it_fails_when_somebody_deletes_its_mirror(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.running(fleet, "nightly").await?;
    let before = at.object().await?;
    at.worker.delete("nightly").await?;
    let object = given_up(fleet, subject, &at, MIRROR_DELETED).await?;
    assert!(subject.can_fail() || object["status"] == before["status"], "{object}");
    // What comes later is placed: there was time to run this one again.
    subject.placed(fleet, "other").await?;
    is_nowhere(fleet, subject, "nightly").await
}

/// Also when its operator had not said anything of it yet: the status is made of nothing then.
pub async fn it_fails_when_its_mirror_is_deleted_before_it_says_anything(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    let uid = at.mirror["metadata"]["uid"].as_str().unwrap_or_default();
    let is_recorded =
        |object: &Value| object["metadata"]["annotations"][annotations::PLACEMENT].to_string().contains(uid);
    at.manager.until("nightly", "a record of its mirror", is_recorded).await?;
    at.worker.delete("nightly").await?;
    given_up(fleet, subject, &at, MIRROR_DELETED).await?;
    is_nowhere(fleet, subject, "nightly").await
}

/// An object that is taken back from us: its mirror goes, and nothing is copied any more.
pub async fn it_is_released_when_managed_by_goes(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    let before = at.object().await?["status"].take();
    at.manager.change("nightly", &subject.release()).await?;
    at.worker.until_gone("nightly").await?;
    // What another one reports later has come through: so the end of this mirror was looked at.
    subject.running(fleet, "other").await?;
    assert_eq!(at.object().await?["status"], before, "nothing is copied any more");
    Ok(())
}

/// Its operator does not look at a delegated object, so the time to live is ours. Without one it stays, and so does its
/// mirror.
pub async fn it_goes_when_its_time_is_over(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed_as(fleet, subject.short_lived("nightly")).await?;
    subject.report(&at, &subject.at_last()).await?;
    if subject.kind.times_to_live().is_empty() {
        subject.until_told(&at, "the last word").await?;
        tokio::time::sleep(A_WHILE).await;
        assert!(at.manager.find("nightly").await?.is_some() && at.worker.find("nightly").await?.is_some());
        return Ok(());
    }
    let told = |object: &Value| note_of(object).contains("Succeeded on worker");
    at.manager.until("nightly", "told of its end", told).await?;
    at.manager.until_gone("nightly").await?;
    at.worker.until_gone("nightly").await
}

/// A status that somebody else writes on the manager means that somebody else runs it: people hear of it, and nothing is
/// copied over it.
pub async fn it_is_left_alone_when_somebody_else_acts_on_it(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    subject.report_on(&at.manager, "nightly", &subject.running).await?;
    let foreign = at.object().await?["status"].take();
    let message = subject.until_told_of_another(fleet, "nightly").await?;
    assert!(message.starts_with("operator writes the status of a workload that was handed to Jobferry"), "{message}");
    at.manager.until("nightly", "a note of who it is", |object| note_of(object).contains(&message)).await?;
    subject.report(&at, &subject.at_last()).await?;
    // What another one reports later has come through: so this was looked at.
    subject.running(fleet, "other").await?;
    assert_eq!(at.object().await?["status"], foreign);
    Ok(())
}

/// Also when what somebody else says is an end: it is not the mirror's, which runs on.
pub async fn it_is_left_alone_when_somebody_else_ends_it(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.running(fleet, "nightly").await?;
    subject.report_on(&at.manager, "nightly", &subject.at_last()).await?;
    let foreign = at.object().await?["status"].take();
    subject.until_told_of_another(fleet, "nightly").await?;
    subject.running(fleet, "other").await?;
    assert_eq!(at.object().await?["status"], foreign);
    let mirror = at.worker.find("nightly").await?.unwrap_or_default();
    assert_eq!(mirror["metadata"]["uid"], at.mirror["metadata"]["uid"], "what runs is left to run");
    assert_eq!(mirror["metadata"]["deletionTimestamp"], Value::Null);
    Ok(())
}

/// So does an object that was created for it on the manager. What was created for another one tells nothing, whatever its
/// label says.
pub async fn it_is_left_alone_when_something_is_created_for_it(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.placed(fleet, "nightly").await?;
    let other = subject.placed(fleet, "other").await?;
    let mut local = subject.object("local");
    merge(&mut local, &subject.release());
    at.manager.create(&local).await?;
    let local = at.manager.find("local").await?.unwrap_or_default();
    subject.create_child(fleet, &local, "other").await?;
    subject.create_child(fleet, &at.object().await?, "nightly").await?;
    let message = subject.until_told_of_another(fleet, "nightly").await?;
    assert!(message.contains("/nightly-0 was created here for a workload that was handed to Jobferry"), "{message}");
    subject.report(&at, &subject.at_last()).await?;
    subject.run(&other).await?;
    assert_eq!(at.object().await?["status"], Value::Null);
    Ok(())
}

/// Also when it was created while no dispatcher watched: then nothing is placed at all.
pub async fn it_is_not_placed_when_something_was_created_for_it_before(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    // Its kind is followed by now: the next dispatcher finds it at its start.
    subject.placed(fleet, "earlier").await?;
    fleet.stop_dispatchers().await;
    let manager = fleet.on_manager(&subject.collection());
    manager.create(&subject.object("nightly")).await?;
    let nightly = manager.find("nightly").await?.unwrap_or_default();
    subject.create_child(fleet, &nightly, "nightly").await?;
    fleet.start_dispatcher().await;
    subject.until_told_of_another(fleet, "nightly").await?;
    subject.placed(fleet, "other").await?;
    assert_eq!(chosen_worker(&manager.find("nightly").await?.unwrap_or_default()), None);
    is_nowhere(fleet, subject, "nightly").await
}

/// What ended on a worker that was away is not lost, and nothing runs again.
pub async fn its_result_waits_for_a_worker_that_is_away(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    let at = subject.running(fleet, "nightly").await?;
    let before = at.object().await?;
    fleet.cut(&at.on);
    fleet.until_connected(&at.on, false).await?;
    subject.report(&at, &subject.at_last()).await?;
    // Another one goes to the worker that is left.
    assert_ne!(subject.placed(fleet, "other").await?.on, at.on);
    assert_eq!(at.object().await?["status"], before["status"]);
    fleet.mend(&at.on);
    let last = subject.until_told(&at, "the last word").await?;
    assert_eq!(chosen_worker(&last), Some(at.on.as_str()));
    Ok(())
}

/// Where the policy says so it fails when its worker was lost for too long, and what ran on there goes later. One that cannot
/// fail is told of, and goes on when its worker is back.
pub async fn it_fails_when_its_worker_is_lost_for_too_long(fleet: &Fleet, subject: &Subject) -> Outcome {
    subject.install(fleet, &fleet.two_workers()).await?;
    fleet.create_policy("give-up", &json!({"onWorkerLost": {"action": "Fail", "after": "30s"}})).await?;
    let mut object = subject.object("nightly");
    object["metadata"]["labels"][labels::POLICY] = "give-up".into();
    let at = subject.placed_as(fleet, object).await?;
    subject.run(&at).await?;
    fleet.cut(&at.on);
    let given_up_as = given_up(fleet, subject, &at, WORKER_LOST).await?;
    assert!(at.worker.find("nightly").await?.is_some(), "nobody can reach it");
    fleet.mend(&at.on);
    if subject.can_fail() {
        at.worker.until_gone("nightly").await?;
        assert_eq!(at.object().await?["status"], given_up_as["status"]);
        return Ok(());
    }
    subject.report(&at, &subject.at_last()).await?;
    let last = subject.until_told(&at, "the last word").await?;
    assert_eq!(chosen_worker(&last), Some(at.on.as_str()));
    at.manager.until("nightly", "nothing of the loss", |object| !note_of(object).contains("WorkerLost")).await?;
    Ok(())
}

fn has_failed(subject: &Subject, object: &Value) -> bool {
    subject.kind.standing(object, Timestamp::MAX) == Standing::Finished(End::Failed)
}

/// Waits until we gave an object up for this reason: an Event and our note say so, and it has failed if its kind can.
async fn given_up(
    fleet: &Fleet,
    subject: &Subject,
    at: &Placed,
    (reason, why): (&str, &str),
) -> Result<Value, ScenarioError> {
    subject.until_event(fleet, "nightly", reason).await?;
    let is_told = |object: &Value| note_of(object).contains(why) && has_failed(subject, object) == subject.can_fail();
    at.manager.until("nightly", reason, is_told).await
}
