//! The mirror's status to the user, the user's edits to the mirror.

use jobferry_api as api;

use super::{Case, delete_pods_first, retire::doubtful_until};
use crate::{
    action::{Action, Alarm},
    claim::Misfit,
    knowledge::Sighting,
    project::{announced, project},
    record::Placement,
    time::STATUS_INTERVAL,
    workload::{Mirror, Told},
};

/// Seen before the answer to its create, or that answer was lost. Nobody there will run it.
fn discard_misfit(at: &Placement, mirror: &Mirror) -> Option<Action> {
    let counts = at.mirror.is_some() || mirror.is_finished();
    let other = mirror.controller.as_ref().filter(|_| !counts && !mirror.deleting)?;
    let misfit = Misfit::Controller(other.clone());
    Some(Action::DiscardMirror { placement: at.clone(), mirror: mirror.into(), misfit })
}

impl Case<'_> {
    /// The mirror is there: keep the user's workload live.
    pub(super) fn follow(&self, at: &Placement, mirror: &Mirror) -> Vec<Action> {
        // Without its mark, on the worker of the record, it is the one that is not recorded yet, or came after the recorded one.
        let (unmarked, recorded) = (mirror.epoch.is_none(), at.mirror.is_some());
        let is_its = mirror.belongs_to(at) || (unmarked && recorded);
        if !is_its {
            // Whatever its mark says, what has come to its end is a result.
            if let Some(actions) = self.copy_end_from_before(at) {
                return actions;
            }
            let discard_or_record = || discard_misfit(at, mirror).unwrap_or_else(|| self.record_mirror(at, mirror));
            return unmarked.then(discard_or_record).into_iter().collect();
        }
        // Another one than the recorded: somebody deleted that one and made this after it. It may have finished unseen.
        if at.mirror.as_ref().is_some_and(|recorded| *recorded != mirror.uid) && !mirror.is_finished() {
            let spared = mirror.deleting || mirror.is_younger_than(self.workload);
            return if spared { Vec::new() } else { vec![delete_pods_first(&at.worker, mirror)] };
        }
        if let Some(discard) = discard_misfit(at, mirror) {
            return vec![discard];
        }
        // Where a Secret led elsewhere for a while, another worker shows the very same object, and perhaps its end.
        if let Some(end) = self.end_from_before().filter(|end| end.uid == mirror.uid) {
            return self.copy_status(at, end);
        }
        // A create reached the cluster that took the worker's place before anybody noticed: that is where it runs. Where others
        // work at the same time it stays as it was recorded: one of them may not have noticed yet.
        let is_elsewhere = self.shown_by(at).is_some_and(|identity| identity != at.identity);
        if is_elsewhere && at.mirror.as_ref().is_none_or(|recorded| *recorded == mirror.uid && self.around.leads_alone)
        {
            return vec![self.record_mirror(at, mirror)];
        }
        let mut actions = self.copy_status(at, mirror);
        // What was seen before it went out of sight is copied; nothing else can be done there.
        if self.is_unusable(at) {
            actions.extend(self.tell_out_of_sight(at));
            return actions;
        }
        actions.extend(self.forward_edit(at, mirror));
        let settled = mirror.forwarded == Some(self.workload.forwardable);
        let outdated = |told: &Told| match told.reason.as_str() {
            api::conditions::REASON_PLACED => false,
            api::conditions::REASON_EDIT_REFUSED => settled,
            // Not before it is in sight again.
            api::conditions::REASON_KIND_MISSING
            | api::conditions::REASON_WORKER_MISSING
            | api::conditions::REASON_WORKER_LOST => self.is_in_sight(at),
            _ => true,
        };
        if actions.is_empty() && self.workload.placed.as_ref().is_some_and(outdated) {
            actions = self.tell(true, api::conditions::REASON_PLACED, format!("on worker {}", at.worker));
        }
        actions
    }

    /// Records that this is its mirror, in the cluster that shows it.
    fn record_mirror(&self, at: &Placement, mirror: &Mirror) -> Action {
        let cluster = self.shown_by(at).unwrap_or(&at.identity);
        Action::RecordPlacement(at.in_cluster(cluster).with_mirror(&mirror.uid))
    }

    /// A mirror of an earlier placement, or one whose mark somebody changed, that finished after all: its result is the
    /// workload's, and nothing else may be started. Most of them come from creates that were answered too late.
    pub(super) fn copy_end_from_before(&self, at: &Placement) -> Option<Vec<Action>> {
        self.end_from_before().map(|mirror| self.copy_status(at, mirror))
    }

    /// A mirror whose end was seen, whether or not it is still there.
    pub(super) fn end_from_before(&self) -> Option<&Mirror> {
        let mirrors = self.known.mirrors.values().map(Sighting::mirror);
        mirrors.filter(|mirror| mirror.is_finished()).max_by_key(|mirror| mirror.epoch)
    }

    pub(super) fn copy_status(&self, at: &Placement, mirror: &Mirror) -> Vec<Action> {
        let (workload, now) = (self.workload, self.around.now);
        // Another dispatcher has seen more: two that copy in turn would show the past again and again. An end is an end,
        // whatever a restored worker makes of its versions.
        if at.is_ahead_of(mirror) && !mirror.is_finished() {
            return Vec::new();
        }
        // Its name will be free in a moment. Once the workload has ended no create that we know of may take that name: until
        // then the end is announced, and so outlives the mirror and this process.
        let quiet = doubtful_until(self.known, self.around);
        let wait = (mirror.is_finished() && mirror.deleting && quiet > now.monotonic).then_some(Action::WakeAt(quiet));
        if let (Some(custom), Some(seen)) = (&workload.custom, &mirror.custom) {
            let is_recorded = at.mirror.as_ref() == Some(&mirror.uid);
            return match wait {
                Some(wait) if is_recorded => vec![wait],
                _ => self.copy_custom(at, mirror, custom, seen),
            };
        }
        let seen = if wait.is_some() { &announced(&mirror.status) } else { &mirror.status };
        let next = project(&workload.spec, &workload.status, seen, at.carried, self.around.rules, now.wall);
        let status = match next {
            Ok(None) => return wait.into_iter().collect(),
            Ok(Some(status)) => status,
            Err(errors) => return vec![Action::Alarm(Alarm::IllegalStatus(errors))],
        };
        // Ends are urgent; progress is gathered. So are successes that an elastic Job gave up: when it is not elastic any more,
        // which may be a moment later, they may not be told.
        let gives_up_successes = status.succeeded < workload.status.succeeded;
        if !(mirror.is_finished() || gives_up_successes)
            && let Some(written) = self.known.memory.status_written
            && now.since(written) < STATUS_INTERVAL
        {
            return vec![Action::WakeAt(written + STATUS_INTERVAL)];
        }
        let write = Action::WriteStatus { status: Box::new(status), placement: Some(at.copying(mirror)) };
        [write].into_iter().chain(wait).collect()
    }

    /// Each edit once. One that the worker refused is told to the user, and tried again after a while: whoever refuses a
    /// resumption today may have been in trouble, and nobody would send it again.
    fn forward_edit(&self, at: &Placement, mirror: &Mirror) -> Vec<Action> {
        let digest = self.workload.forwardable;
        if mirror.is_finished() || mirror.deleting || mirror.forwarded.is_none_or(|forwarded| forwarded == digest) {
            return Vec::new();
        }
        match self.known.memory.edit_refused.as_deref() {
            Some((refused, refusal)) if *refused == digest && refusal.over_at() > self.around.now.monotonic => {
                let message = format!("on worker {}, which refuses the last edit: {}", at.worker, refusal.why);
                let mut actions = self.tell(true, api::conditions::REASON_EDIT_REFUSED, message);
                actions.push(Action::WakeAt(refusal.over_at()));
                actions
            }
            _ => vec![Action::ForwardEdit { worker: at.worker.clone(), mirror: mirror.into(), digest }],
        }
    }
}
