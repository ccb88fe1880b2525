//! Which worker, and what people are told while there is none.

use std::time::Duration;

use job_api::conditions;
use jobferry_api as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Case, custom::GIVEN_UP};
use crate::{
    action::Action,
    halts::Halt,
    placement::{Choice, Chosen, Decision, Unplaceable, Verdict, choose, must_stay},
    record::Placement,
    refusal::Refusal,
    time::{RECORD_AGAIN, WAITING_INTERVAL},
    workload::Told,
};

impl Case<'_> {
    /// The first placement, or so it looks: somebody may have wiped the record off while a create of ours is under way, or
    /// before its mirror is seen. A second placement would run it twice.
    pub(super) fn place(&self) -> Vec<Action> {
        let memory = &self.known.memory;
        let again = memory.unkept.map_or(Duration::ZERO, |unkept| unkept + RECORD_AGAIN);
        let not_before = memory.creates_landed_at().max(again);
        if not_before > self.around.now.monotonic {
            return vec![Action::WakeAt(not_before)];
        }
        // Another dispatcher, which still sees the record from before, must not take what comes now for older than that.
        let seen = memory.placement_seen.as_ref().map(|(epoch, ..)| *epoch);
        let epoch = seen.max(memory.acknowledged.map(|(epoch, _)| epoch)).unwrap_or(0) + 1;
        self.place_as(|chosen| Placement::new(chosen.worker, chosen.identity, epoch, self.around.now.wall))
    }

    /// Records the placement on the worker that fits best, or tells why none does.
    pub(super) fn place_as(&self, placement: impl FnOnce(Chosen) -> Placement) -> Vec<Action> {
        if let Some(why) = must_stay(self.workload, self.around.policies) {
            return self.tell(false, api::conditions::REASON_NOT_DISPATCHABLE, why);
        }
        if let Some(halt) = self.around.halted {
            return self.tell_halted(halt);
        }
        let (reason, message) = match self.choose() {
            Ok(Decision { chosen: Some(chosen), .. }) => return vec![Action::RecordPlacement(placement(chosen))],
            Ok(decision)
                if let Some(news) = self.news_at()
                    && self.is_about_to_change(&decision) =>
            {
                return vec![Action::WakeAt(self.ask_again_at().map_or(news, |at| at.min(news)))];
            }
            Ok(decision) => (api::conditions::REASON_NO_WORKER_FITS, decision.why_not()),
            Err(error @ Unplaceable::Narrowing(_)) => (api::conditions::REASON_INVALID_NARROWING, error.to_string()),
            Err(error @ Unplaceable::Policy(_)) => (api::conditions::REASON_NO_POLICY, error.to_string()),
        };
        let mut actions = self.tell(false, reason, message);
        actions.extend(self.ask_again_at().map(Action::WakeAt));
        actions
    }

    /// A free slot is a matter of milliseconds, as a rule, and so is the first answer of a worker: no news for anybody.
    fn is_about_to_change(&self, decision: &Decision) -> bool {
        let kind = self.workload.kind();
        decision.verdicts.values().any(|verdict| *verdict == Verdict::NoFreeSlot)
            || self.around.workers.values().any(|worker| worker.is_being_asked(&kind))
    }

    /// When (monotonic) it is news all the same that it waits; `None`: it is.
    pub(super) fn news_at(&self) -> Option<Duration> {
        let now = self.around.now.monotonic;
        let news = self.known.memory.waiting_since.unwrap_or(now) + WAITING_INTERVAL;
        (news > now).then_some(news)
    }

    pub(super) fn tell_halted(&self, halt: &Halt) -> Vec<Action> {
        match halt {
            Halt::Undecided => Vec::new(),
            Halt::Because(why) => self.tell(false, api::conditions::REASON_HALTED, why.clone()),
        }
    }

    /// When (monotonic) a worker that refused it, or failed at another one, may be asked again. Nothing else wakes it then.
    fn ask_again_at(&self) -> Option<Duration> {
        let refusals = self.known.memory.refusals.values().map(Refusal::over_at);
        let failing = self.around.workers.values().filter_map(|worker| worker.failing_until);
        refusals.chain(failing).filter(|at| *at > self.around.now.monotonic).min()
    }

    pub(super) fn choose(&self) -> Result<Decision, Unplaceable> {
        choose(Choice {
            workload: self.workload,
            workers: self.around.workers,
            policies: self.around.policies,
            refusals: &self.known.memory.refusals,
            now: self.around.now.monotonic,
        })
    }

    /// Tells people, if it is news. Two dispatchers that see different things would contradict each other without a pause:
    /// what is said of a workload that was said to wait, or to be out of our sight, changes once a minute at most, and
    /// what we said within the last minute is not said again, whoever said something else since.
    pub(super) fn tell(&self, holds: bool, reason: &str, message: String) -> Vec<Action> {
        let now = self.around.now;
        let at = Some(Time(conditions::whole_seconds(now.wall)));
        let told = Told { holds, reason: reason.into(), message, at };
        let Some(before) = &self.workload.placed else { return vec![Action::Tell(told)] };
        if (before.holds, &before.reason, &before.message) == (holds, &told.reason, &told.message) {
            return Vec::new();
        }
        let said = self.known.memory.told.filter(|(said, _)| *said == told.fingerprint());
        if let Some(again) = said.map(|(_, when)| when + WAITING_INTERVAL).filter(|again| *again > now.monotonic) {
            return vec![Action::WakeAt(again)];
        }
        let lost = [
            api::conditions::REASON_WORKER_MISSING,
            api::conditions::REASON_KIND_MISSING,
            api::conditions::REASON_RECORD_LOST,
        ];
        let out_of_sight = [&before.reason, &told.reason].into_iter().any(|reason| lost.contains(&reason.as_str()));
        // An end is told once, by whomever.
        let is_end = told.reason == api::conditions::REASON_FINISHED || GIVEN_UP.contains(&reason);
        if is_end || (before.holds && !out_of_sight) {
            return vec![Action::Tell(told)];
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
