//! What is different for kinds other than Job: their status is copied by the rules of the kind, and their record stands
//! beside it, not in it.

use std::time::Duration;

use jobferry_api::{self as api, Outcome};
use serde_json::Value;

use super::Case;
use crate::{
    action::Action,
    custom::{CustomMirror, CustomWorkload},
    kind::digest,
    project::fail,
    record::{Placement, Record},
    time::{STATUS_INTERVAL, WAITING_INTERVAL},
    workload::Mirror,
};

/// For these reasons it was we who ended a workload.
pub(super) const GIVEN_UP: [&str; 2] = [api::conditions::REASON_MIRROR_DELETED, api::conditions::REASON_WORKER_LOST];

impl Case<'_> {
    /// Copies the mirror's status.
    pub(super) fn copy_custom(
        &self,
        at: &Placement,
        mirror: &Mirror,
        custom: &CustomWorkload,
        seen: &CustomMirror,
    ) -> Vec<Action> {
        let now = self.around.now;
        // First its name, then what it does: a mirror that is in no record would be taken for one that never was.
        if at.mirror.as_ref() != Some(&mirror.uid) {
            return vec![Action::RecordPlacement(at.with_mirror(&mirror.uid))];
        }
        let up_to_date = mirror.forwarded == Some(self.workload.forwardable);
        let next = custom.kind.project(&custom.stored, &seen.status, seen.generation, up_to_date);
        let Some(status) = next.filter(|next| self.is_news(custom, next)) else {
            let settles = mirror.settles_at().map(|at| {
                let left = Duration::try_from(at.duration_since(now.wall)).unwrap_or_default();
                Action::WakeAt(now.monotonic + left)
            });
            return settles.into_iter().collect();
        };
        // Ends are urgent; progress is gathered. What we wrote, and somebody has replaced since, is most likely older or
        // younger than what another dispatcher sees of the mirror: the two would overwrite each other without a pause.
        let replaced = self.known.memory.status_copied.is_some_and(|(written, _)| written == digest(&status));
        let pause = if replaced { WAITING_INTERVAL } else { STATUS_INTERVAL };
        if !mirror.is_finished()
            && let Some(written) = self.known.memory.status_written
            && now.since(written) < pause
        {
            return vec![Action::WakeAt(written + pause)];
        }
        vec![Action::WriteCustomStatus { status: Box::new(status) }]
    }

    /// Whether a status is worth a write: it is not stored, and is not what the server has made this of before.
    fn is_news(&self, custom: &CustomWorkload, next: &Value) -> bool {
        let stored = custom.stored.status();
        next != stored && self.known.memory.status_copied != Some((digest(next), digest(stored)))
    }

    /// A finished workload whose time to live is our business goes when it is over. It counts from when people could see
    /// the end.
    pub(super) fn expire(&self) -> Vec<Action> {
        let ended = self.workload.custom.as_ref().and_then(|custom| custom.ended);
        let (Some((outcome, time_to_live)), Record::Placed(at)) = (ended, &self.workload.record) else {
            return Vec::new();
        };
        let finished = api::conditions::REASON_FINISHED;
        let Some(told) = self.workload.placed.as_ref().filter(|told| told.reason == finished) else {
            let why = self.workload.placed.as_ref().filter(|told| GIVEN_UP.contains(&told.reason.as_str()));
            // It may have come back, with an end of its own.
            let by_us = outcome == Outcome::Failed && self.end_from_before().is_none();
            let why = why.filter(|_| by_us).map(|told| format!(": {}", told.message));
            let message = format!("{outcome:?} on worker {}{}", at.worker, why.unwrap_or_default());
            return self.tell(true, finished, message);
        };
        let over = time_to_live.zip(told.at.as_ref()).and_then(|(stays, since)| since.0.checked_add(stays).ok());
        let Some(over) = over else { return Vec::new() };
        let now = self.around.now;
        match Duration::try_from(over.duration_since(now.wall)) {
            Ok(left) if !left.is_zero() => vec![Action::WakeAt(now.monotonic + left)],
            _ => vec![Action::DeleteWorkload],
        }
    }

    /// Ends the workload as failed, after people were told why: many a kind has no room for that in its status. One that has
    /// no way to say that it failed is only told of.
    pub(super) fn give_up(&self, reason: &str, message: String) -> Vec<Action> {
        let now = self.around.now.wall;
        let Some(custom) = &self.workload.custom else {
            let failed = fail(&self.workload.status, reason, &message, now);
            let write = |status| Action::WriteStatus { status: Box::new(status), placement: None };
            return failed.map(write).into_iter().collect();
        };
        let failed = custom.kind.fail(custom.stored.status(), reason, &message, now);
        let told = self.tell(false, reason, message);
        match failed.filter(|status| self.is_news(custom, status)) {
            // Nothing that is told again and again may keep it from its end.
            Some(status) if !told.iter().any(|action| matches!(action, Action::Tell(_))) => {
                vec![Action::WriteCustomStatus { status: Box::new(status) }]
            }
            _ => told,
        }
    }
}
