//! From what is known of one workload to what to do next.
//!
//! The plan is level-triggered and idempotent: called twice on the same knowledge it yields the same actions, called on
//! their result it yields none. Every rule of the protocol is here; whoever executes the actions decides nothing.
//!
//! - `place`: which worker, and what people are told while there is none.
//! - `create`: from a recorded placement to a mirror that exists.
//! - `leave`: off a worker that refused, without ever being in two places.
//! - `lose`: a worker that does not answer, and when its workloads are given up.
//! - `suspend`: that it is suspended, or resumed, while no mirror says so.
//! - `custom`: what is different for kinds other than Job.
//! - `follow`: the mirror's status to the user, the user's edits to the mirror.
//! - `retire`: what becomes of the mirrors of workloads that have ended or are gone.

mod create;
mod custom;
mod follow;
mod leave;
mod lose;
mod place;
mod retire;
mod suspend;

use jobferry_api as api;
use retire::retire;

use crate::{
    action::{Action, Alarm, Pods},
    knowledge::{Activity, Knowledge, Surroundings},
    phase::{Phase, hiding_place, phase},
    record::{Placement, Record},
    workload::{Mirror, Workload},
};

/// What is to be done now.
pub fn plan(known: &Knowledge, around: Surroundings<'_>) -> Vec<Action> {
    let phase = phase(known, around.workers);
    let Some(workload) = &known.workload else {
        return if phase == Phase::Gone { retire(known, around) } else { Vec::new() };
    };
    let case = Case { known, workload, around };
    let activity = known.activity();
    if let Some((worker, mirror)) = case.ahead()
        && !matches!(phase, Phase::NotOurs | Phase::Leaving | Phase::Finished)
        && activity.is_none()
    {
        return case.recover(worker, mirror);
    }
    let mut actions = match phase {
        Phase::NotOurs | Phase::Gone => return Vec::new(),
        Phase::Leaving => return case.take_leave(activity.is_none()),
        Phase::Finished => {
            if let Some(activity) = activity.filter(|_| case.is_ended_by_another()) {
                return case.leave_alone(activity);
            }
            let mut actions = case.retain();
            actions.extend(case.expire());
            return actions;
        }
        // Somebody else runs it on the manager: whatever we did now could run it twice.
        _ if let Some(activity) = activity => return case.leave_alone(activity),
        Phase::Unknown => case.tell_unknown(),
        Phase::Recovering { worker, mirror } => case.recover(worker, mirror),
        Phase::Suspended => case.with_suspension(Vec::new()),
        Phase::Waiting => case.with_suspension(case.place()),
        Phase::Placed { at, reachable, last_seen } => case.with_suspension(case.create(at, reachable, last_seen)),
        Phase::Moving { at, reachable } => case.with_suspension(case.leave(at, reachable)),
        Phase::Running { at, mirror } => case.follow(at, mirror),
    };
    if let Record::Placed(at) = &workload.record {
        actions.extend(stale_mirrors(known, workload, at));
        case.mind_loss(at, &mut actions);
    }
    if known.memory.status_refused.as_ref() == Some(&workload.resource_version) {
        actions.retain(|action| !matches!(action, Action::WriteStatus { .. } | Action::WriteCustomStatus { .. }));
    }
    // One write at a time: two with the same resourceVersion would only conflict. The answer leads to the next plan.
    let mut written = false;
    actions.retain(|action| !action.writes_workload() || !std::mem::replace(&mut written, true));
    actions
}

/// One workload of ours, with everything that a decision about it looks at.
#[derive(Clone, Copy)]
struct Case<'a> {
    known: &'a Knowledge,
    workload: &'a Workload,
    around: Surroundings<'a>,
}

fn delete((worker, mirror): (&str, &Mirror)) -> Action {
    Action::DeleteMirror { worker: worker.to_owned(), mirror: mirror.into(), pods: Pods::Later }
}

fn delete_pods_first(worker: &str, mirror: &Mirror) -> Action {
    Action::DeleteMirror { worker: worker.to_owned(), mirror: mirror.into(), pods: Pods::First }
}

/// Mirrors of older epochs are deleted, pods first. A finished one stays as long as its workload is unfinished: its result
/// counts (see [`Case::copy_end_from_before`]).
fn stale_mirrors<'a>(
    known: &'a Knowledge,
    workload: &'a Workload,
    at: &'a Placement,
) -> impl Iterator<Item = Action> + 'a {
    let others = known.present().filter(|(_, mirror)| !mirror.deleting && !mirror.belongs_to(at));
    others.filter_map(|(worker, mirror)| match mirror.epoch? {
        _ if mirror.is_finished() || mirror.is_younger_than(workload) => None,
        epoch if epoch >= at.epoch => None,
        _ => Some(delete_pods_first(worker, mirror)),
    })
}

impl Case<'_> {
    /// A mirror of a later placement than the recorded one. Either the record that we see is old, and the write that takes
    /// the mirror over will conflict; or the manager was restored from a backup, and the mirror knows better.
    fn ahead(&self) -> Option<(&str, &Mirror)> {
        let Record::Placed(at) = &self.workload.record else { return None };
        let later = self.known.present().filter(|(_, mirror)| mirror.epoch.is_some_and(|epoch| epoch > at.epoch));
        later.max_by_key(|(_, mirror)| mirror.epoch)
    }

    /// Whether it has an end that its mirror has not come to: whoever else acts on it wrote that. What runs is left to run.
    fn is_ended_by_another(&self) -> bool {
        let Record::Placed(at) = &self.workload.record else { return false };
        let is_recorded =
            |mirror: &Mirror| at.mirror.as_ref().map_or(mirror.epoch == Some(at.epoch), |uid| *uid == mirror.uid);
        let noted = self.workload.placed.as_ref().map(|told| told.reason.as_str());
        noted == Some(api::conditions::REASON_FOREIGN_CONTROLLER)
            || self.known.present().any(|(_, mirror)| is_recorded(mirror) && !mirror.is_finished())
    }

    /// Says who else acts on the workload, and does nothing else. A Job's note is part of its status, which is the other's
    /// now; other kinds have it beside. It is noted once: whoever acts on it is woken by every write.
    fn leave_alone(&self, activity: Activity) -> Vec<Action> {
        let (alarm, reason) = (Alarm::ActedOn(activity), api::conditions::REASON_FOREIGN_CONTROLLER);
        let noted = self.workload.placed.as_ref();
        let told = if self.workload.custom.is_none() || noted.is_some_and(|told| told.reason == reason) {
            Vec::new()
        } else {
            // Whether it was placed is not what changed.
            self.tell(noted.is_some_and(|told| told.holds), reason, alarm.to_string())
        };
        [Action::Alarm(alarm)].into_iter().chain(told).collect()
    }

    /// Whether it runs, as far as we see, on another worker than the recorded one.
    fn runs_elsewhere(&self, at: &Placement) -> bool {
        self.known.present().any(|(worker, mirror)| worker != at.worker && !mirror.is_finished())
    }

    /// Takes the record over from the mirror.
    fn recover(&self, worker: &str, mirror: &Mirror) -> Vec<Action> {
        let identity = self.around.workers.get(worker).and_then(|worker| worker.live_for(&self.workload.kind()));
        let record = identity.map(|identity| {
            let epoch = mirror.epoch.unwrap_or(1);
            let placement = Placement::new(worker.into(), identity.into(), epoch, self.around.now.wall);
            // One that nobody there runs does not count: it is discarded when it is followed.
            let counts = mirror.controller.is_none() || mirror.is_finished();
            Action::RecordPlacement(if counts { placement.with_mirror(&mirror.uid) } else { placement })
        });
        record.into_iter().collect()
    }

    /// It was placed, and where is not known. To say that it is not placed would wipe out the last trace.
    fn tell_unknown(&self) -> Vec<Action> {
        let message = match self.workload.record {
            Record::Unreadable => {
                "the record of where it is placed cannot be read: a newer version wrote it, or it was damaged; it is left \
                 alone; run that version, or delete the Job and submit it again"
            }
            _ if self.workload.status.start_time.is_some() || self.known.had_mirror() => {
                "it has run, but the record of where is gone: it is left alone until its mirror is seen; if it runs \
                 nowhere any more, delete the Job and submit it again"
            }
            _ if self.known.memory.knows_of_placement() || self.workload.is_said_to_be_placed() => {
                "it was placed, but the record of where is gone: it is left alone until every worker was seen"
            }
            _ => return self.tell_labelled(),
        };
        let mut actions = vec![Action::Alarm(Alarm::UnreadableRecord)];
        actions.extend(self.tell(true, api::conditions::REASON_RECORD_LOST, message.into()));
        actions
    }

    /// A label is all that speaks of a placement, and most likely it was copied along with a manifest: nothing to be alarmed
    /// at. It is clear as soon as the worker that it names was seen, so one that is being asked is no news for a while.
    fn tell_labelled(&self) -> Vec<Action> {
        let Some((name, worker)) = hiding_place(self.workload, self.around.workers) else { return Vec::new() };
        if let Some(news) = self.news_at()
            && worker.is_being_asked(&self.workload.kind())
        {
            return vec![Action::WakeAt(news)];
        }
        let message = format!(
            "its label {} says that it was placed on worker {name}, which is out of sight and may run it; it waits until \
             that worker is seen; if the label was copied from another object, remove it",
            api::labels::WORKER
        );
        self.tell(false, api::conditions::REASON_RECORD_LOST, message)
    }
}

#[cfg(test)]
mod tests;
