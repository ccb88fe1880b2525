//! Which worker, and what people are told while there is none.

use std::time::Duration;

use job_api::conditions;
use jobferry_api as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Case;
use crate::{
    action::Action,
    placement::{Chosen, Decision, NarrowingError, Verdict, choose},
    record::Placement,
    time::{REFUSAL_REMEMBERED, WAITING_INTERVAL},
    workload::Told,
};

impl Case<'_> {
    /// The first placement.
    pub(super) fn place(&self) -> Vec<Action> {
        self.place_as(|chosen| Placement::new(chosen.worker, chosen.identity, 1, self.around.now.wall))
    }

    /// Records the placement on the worker that fits best, or tells why none does.
    pub(super) fn place_as(&self, placement: impl FnOnce(Chosen) -> Placement) -> Vec<Action> {
        let (reason, message) = match self.choose() {
            Ok(Decision { chosen: Some(chosen), .. }) => return vec![Action::RecordPlacement(placement(chosen))],
            // A free slot is a matter of milliseconds: no news for anybody.
            Ok(decision) if decision.verdicts.values().any(|verdict| *verdict == Verdict::NoFreeSlot) => {
                return Vec::new();
            }
            Ok(decision) => (api::conditions::REASON_NO_WORKER_FITS, decision.why_not()),
            Err(error) => (api::conditions::REASON_INVALID_NARROWING, error.to_string()),
        };
        let mut actions = self.tell(false, reason, message);
        // Nothing else wakes a workload when a worker that refused it may be asked again.
        let refusals = self.known.memory.refusals.values().map(|refusal| refusal.at + REFUSAL_REMEMBERED);
        actions.extend(refusals.filter(|at| *at > self.around.now.monotonic).min().map(Action::WakeAt));
        actions
    }

    /// The choice among the workers that have not refused this workload lately.
    pub(super) fn choose(&self) -> Result<Decision, NarrowingError> {
        let refused = |worker: &str| {
            let refusal = self.known.memory.refusals.get(worker);
            refusal.is_some_and(|refusal| self.around.now.since(refusal.at) < REFUSAL_REMEMBERED)
        };
        choose(self.workload, self.around.workers, refused)
    }

    /// Tells people, if it is news and the last news are a minute old.
    pub(super) fn tell(&self, holds: bool, reason: &str, message: String) -> Vec<Action> {
        let now = self.around.now;
        let at = Some(Time(conditions::whole_seconds(now.wall)));
        let told = Told { holds, reason: reason.into(), message, at };
        // Where it goes is news at once; that it waits for another reason than before is not.
        let Some(before) = self.workload.placed.as_ref().filter(|before| before.holds == holds) else {
            return vec![Action::Tell(told)];
        };
        if (&before.reason, &before.message) == (&told.reason, &told.message) {
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
}
