//! From what is known of one workload to what to do next.
//!
//! The plan is level-triggered and idempotent: called twice on the same knowledge it yields the same actions, called on
//! their result it yields none. Every rule of the protocol is here; whoever executes the actions decides nothing.

use std::time::Duration;

use job_api::conditions;
use jobferry_api as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    action::{Action, Alarm},
    knowledge::{Knowledge, Surroundings},
    phase::{Phase, phase},
    placement::{Verdict, WorkerView, choose},
    project::{fail, project},
    record::{Placement, Record},
    time::{Now, QUARANTINE, STATUS_INTERVAL, WAITING_INTERVAL, WRITE_DEADLINE},
    workload::{Mirror, Told, Workload},
};

/// What is to be done now.
pub fn plan(known: &Knowledge, around: Surroundings<'_>) -> Vec<Action> {
    let mut actions = match (phase(known, around.workers), &known.workload) {
        (Phase::Gone, _) => retire(known),
        (Phase::Leaving, _) => known.present().filter(|(_, m)| !m.deleting).map(delete).collect(),
        // A live mirror of a finished workload is the late create that the finished mirror's name was kept to prevent.
        (Phase::Finished, _) => known.present().filter(|(_, m)| !m.deleting && !m.is_finished()).map(delete).collect(),
        (Phase::Unknown, _) => vec![Action::Alarm(Alarm::UnreadableRecord)],
        (Phase::Recovering { worker, mirror }, _) => recover(worker, mirror, around),
        (Phase::Suspended, Some(workload)) => show_suspended(workload, around),
        (Phase::Waiting, Some(workload)) => place(workload, around),
        (Phase::Placed { at, reachable, last_seen }, Some(workload)) => {
            find_mirror(known, workload, at, reachable, last_seen, around)
        }
        (Phase::Running { at, mirror }, Some(workload)) => follow(known, workload, at, mirror, around),
        (Phase::NotOurs, _) | (_, None) => Vec::new(),
    };
    if let Some(Workload { record: Record::Placed(at), deleting: false, .. }) = &known.workload {
        actions.extend(stale_mirrors(known, at));
    }
    actions
}

fn delete((worker, mirror): (&str, &Mirror)) -> Action {
    Action::DeleteMirror { worker: worker.to_owned(), mirror: mirror.into() }
}

/// Mirrors of older epochs are deleted; one of a newer epoch means that we are behind.
fn stale_mirrors(known: &Knowledge, at: &Placement) -> Vec<Action> {
    known
        .present()
        .filter(|(_, mirror)| mirror.epoch != at.epoch && !mirror.deleting)
        .map(|found| if found.1.epoch > at.epoch { Action::ReadAgain } else { delete(found) })
        .collect()
}

/// The workload is not on the manager any more. A list or a watch event does not prove that; a fresh read does.
fn retire(known: &Knowledge) -> Vec<Action> {
    let mut mirrors = known.present().filter(|(_, mirror)| !mirror.deleting);
    if known.memory.gone {
        return mirrors.map(delete).collect();
    }
    let prove = |(_, m): (&str, &Mirror)| Action::ProveGone { namespace: m.namespace.clone(), name: m.name.clone() };
    mirrors.next().map(prove).into_iter().collect()
}

fn recover(worker: &str, mirror: &Mirror, around: Surroundings<'_>) -> Vec<Action> {
    let identity = around.workers.get(worker).and_then(WorkerView::live_identity);
    let record = identity.map(|identity| {
        let mut placement = Placement::new(worker.into(), identity.into(), mirror.epoch, around.now.wall);
        placement.mirror = Some(mirror.uid.clone());
        Action::RecordPlacement(placement)
    });
    record.into_iter().collect()
}

/// What the built-in controller shows for a suspended Job that never started.
fn show_suspended(workload: &Workload, around: Surroundings<'_>) -> Vec<Action> {
    let mut status = workload.status.clone();
    let list = status.conditions.get_or_insert_default();
    if conditions::is_true(list, conditions::SUSPENDED) {
        return Vec::new();
    }
    list.retain(|condition| condition.type_ != conditions::SUSPENDED);
    list.push(conditions::new(
        conditions::SUSPENDED,
        true,
        conditions::reason::JOB_SUSPENDED,
        conditions::message::JOB_SUSPENDED,
        around.now.wall,
    ));
    vec![Action::WriteStatus { status: Box::new(status), placement: None }]
}

fn place(workload: &Workload, around: Surroundings<'_>) -> Vec<Action> {
    let (reason, message) = match choose(workload, around.workers) {
        Ok(decision) => match decision.chosen {
            Some(chosen) => {
                let placement = Placement::new(chosen.worker, chosen.identity, 1, around.now.wall);
                return vec![Action::RecordPlacement(placement)];
            }
            // A free slot is a matter of milliseconds: no news for anybody.
            None if decision.verdicts.values().any(|verdict| *verdict == Verdict::NoFreeSlot) => return Vec::new(),
            None => (api::conditions::REASON_NO_WORKER_FITS, decision.why_not()),
        },
        Err(error) => (api::conditions::REASON_INVALID_NARROWING, error.to_string()),
    };
    tell(workload, false, reason, message, around.now)
}

/// Tells people, if it is news and the last news are a minute old.
fn tell(workload: &Workload, holds: bool, reason: &str, message: String, now: Now) -> Vec<Action> {
    let at = Some(Time(conditions::whole_seconds(now.wall)));
    let told = Told { holds, reason: reason.into(), message, at };
    // Where it goes is news at once; that it waits for another reason than before is not.
    let Some(before) = workload.placed.as_ref().filter(|before| before.holds == holds) else {
        return vec![Action::Tell(told)];
    };
    if (before.holds, &before.reason, &before.message) == (told.holds, &told.reason, &told.message) {
        return Vec::new();
    }
    let age = before
        .at
        .as_ref()
        .map_or(WAITING_INTERVAL, |at| Duration::try_from(now.wall.duration_since(at.0)).unwrap_or_default());
    match WAITING_INTERVAL.checked_sub(age) {
        Some(rest) if !rest.is_zero() => vec![Action::WakeAt(now.monotonic + rest)],
        _ => vec![Action::Tell(told)],
    }
}

/// The record says that there should be a mirror, and none is to be seen.
fn find_mirror(
    known: &Knowledge,
    workload: &Workload,
    at: &Placement,
    reachable: bool,
    last_seen: Option<&Mirror>,
    around: Surroundings<'_>,
) -> Vec<Action> {
    let now = around.now;
    // Its end was seen, even though it is gone now: that result is the workload's.
    if let Some(mirror) = last_seen.filter(|mirror| mirror.is_finished()) {
        return copy_status(known, workload, at, mirror, around);
    }
    if !reachable {
        return Vec::new();
    }
    if let Some((why, until)) = &known.memory.refused
        && *until > now.monotonic
    {
        let message = format!("worker {} refuses: {why}", at.worker);
        let mut actions = tell(workload, false, api::conditions::REASON_REFUSED, message, now);
        actions.push(Action::WakeAt(*until));
        return actions;
    }
    let existed = at.mirror.is_some() || last_seen.is_some();
    // The write has a deadline of its own, and all of it must lie within the quarantine of its placement.
    let in_time = known.memory.acknowledged.is_some_and(|(epoch, acknowledged)| {
        epoch == at.epoch && now.since(acknowledged) + WRITE_DEADLINE < QUARANTINE
    });
    if in_time && !existed {
        return vec![Action::CreateMirror(at.clone())];
    }
    if known.memory.absent != Some(at.epoch) {
        return vec![Action::ProveAbsent { worker: at.worker.clone(), epoch: at.epoch }];
    }
    if existed {
        // It may have finished unseen, so it must not run again by itself.
        let message = format!("the mirror on worker {} was deleted before its end was seen", at.worker);
        let failed = fail(&workload.status, api::conditions::REASON_MIRROR_DELETED, &message, now.wall);
        return failed
            .map(|status| Action::WriteStatus { status: Box::new(status), placement: None })
            .into_iter()
            .collect();
    }
    // Nobody created it, and a create may only follow a fresh acknowledgement: record the same placement again. A create
    // of an earlier dispatcher that is still under way would take the same name on the same worker, so only one can win.
    let mut renewed = Placement::new(at.worker.clone(), at.identity.clone(), at.epoch, now.wall);
    renewed.carried = at.carried;
    vec![Action::RecordPlacement(renewed)]
}

/// The mirror is there: keep the user's workload live.
fn follow(
    known: &Knowledge,
    workload: &Workload,
    at: &Placement,
    mirror: &Mirror,
    around: Surroundings<'_>,
) -> Vec<Action> {
    if mirror.epoch == at.epoch { copy_status(known, workload, at, mirror, around) } else { Vec::new() }
}

fn copy_status(
    known: &Knowledge,
    workload: &Workload,
    at: &Placement,
    mirror: &Mirror,
    around: Surroundings<'_>,
) -> Vec<Action> {
    let now = around.now;
    let next = project(&workload.spec, &workload.status, &mirror.status, at.carried, around.rules, now.wall);
    let status = match next {
        Ok(None) => return Vec::new(),
        Ok(Some(status)) => status,
        Err(errors) => return vec![Action::Alarm(Alarm::IllegalStatus(errors))],
    };
    // Ends are urgent; progress is gathered.
    if !mirror.is_finished()
        && let Some(written) = known.memory.status_written
        && now.since(written) < STATUS_INTERVAL
    {
        return vec![Action::WakeAt(written + STATUS_INTERVAL)];
    }
    let seen_first = at.mirror.as_ref() != Some(&mirror.uid);
    let placement = seen_first.then(|| at.with_mirror(&mirror.uid));
    vec![Action::WriteStatus { status: Box::new(status), placement }]
}

#[cfg(test)]
mod tests;
