//! From a recorded placement to a mirror that exists.

use std::time::Duration;

use job_api::conditions::{FAILURE_TARGET, SUCCESS_CRITERIA_MET, is_true};
use jobferry_api as api;

use super::{Case, retire::quiet_from};
use crate::{
    action::Action,
    knowledge::Absence,
    record::Placement,
    refusal::Refusal,
    time::{CREATE_WINDOW, RECORD_AGAIN},
    workload::Mirror,
};

/// More refusals make a worker no worse: some grounds are asked about every few seconds.
const MANY_REFUSALS: u32 = 8;

fn prove_absent(at: &Placement) -> Action {
    Action::ProveAbsent { worker: at.worker.clone(), epoch: at.epoch }
}

impl Case<'_> {
    /// The record says that there should be a mirror, and none is to be seen.
    pub(super) fn create(&self, at: &Placement, reachable: bool, last_seen: Option<&Mirror>) -> Vec<Action> {
        // Its end was seen, even though it is gone now: that result is the workload's.
        if let Some(actions) = self.copy_end_from_before(at) {
            return actions;
        }
        if !reachable {
            return self.tell_out_of_sight(at).into_iter().chain(self.look_for_stray(at)).collect();
        }
        // Pods that carry the workload's UID prove that there was a mirror, even if nobody saw it.
        let was_discarded = self.was_discarded(at);
        let existed = (at.mirror.is_some() && !was_discarded) || last_seen.is_some() || self.has_evidence(at);
        if was_discarded && !existed {
            return vec![if self.is_absent(at) { self.take_off_record(at) } else { prove_absent(at) }];
        }
        if let Some(refusal) = self.known.memory.refusals.get(&at.worker)
            && refusal.epoch == at.epoch
            && !existed
            && let Some(actions) = self.take_refusal(at, refusal)
        {
            return actions;
        }
        // Not while it would not be safe, and not beside another one, whatever brought that about.
        if let Some(halt) = self.around.halted
            && !existed
        {
            return self.tell_halted(halt);
        }
        if self.runs_elsewhere(at) && !existed {
            return Vec::new();
        }
        if self.may_create(at) && !existed {
            return vec![Action::CreateMirror(at.clone())];
        }
        // What is given up must not run any more: nor by a create that is still under way.
        let quiet = quiet_from(self.known, self.around);
        if existed && quiet > self.around.now.monotonic {
            return vec![Action::WakeAt(quiet)];
        }
        if !self.is_absent(at) {
            return vec![prove_absent(at)];
        }
        if existed {
            return self.fail_unseen(at);
        }
        // A name that another object had is looked at again before anything is written for it.
        if !self.name_is_free() {
            return vec![prove_absent(at)];
        }
        // Nobody created it, and a create may only follow a fresh acknowledgement.
        vec![self.record_anew(at)]
    }

    /// The same placement again, of which no mirror is known. A create of an earlier dispatcher that is still under way would
    /// take the same name on the same worker, so only one can win.
    fn record_anew(&self, at: &Placement) -> Action {
        let mut renewed = Placement::new(at.worker.clone(), at.identity.clone(), at.epoch, self.around.now.wall);
        renewed.carried = at.carried;
        Action::RecordPlacement(renewed)
    }

    /// The recorded mirror is gone, and does not count. Whoever works beside us may not have heard of that yet, and record it again:
    /// not in turns without a pause.
    fn take_off_record(&self, at: &Placement) -> Action {
        let ours = self.known.memory.acknowledged.filter(|(epoch, _)| *epoch == at.epoch && !self.around.leads_alone);
        let again = ours.map_or(Duration::ZERO, |(_, recorded)| recorded + RECORD_AGAIN);
        if again > self.around.now.monotonic { Action::WakeAt(again) } else { self.record_anew(at) }
    }

    /// Before anybody notices that another cluster answers in a worker's place, a create may reach that one; and its admission
    /// may take off what our watch would find the mirror by. It is looked for by its name, once no create can land any more.
    pub(super) fn look_for_stray(&self, at: &Placement) -> Option<Action> {
        let identity = self.shown_by(at)?;
        let is_clear = self.known.memory.no_stray_in.as_deref() == Some(identity);
        // One that is recorded is known: no other was created after it.
        if identity == at.identity || at.mirror.is_some() || is_clear {
            return None;
        }
        let landed = self.known.memory.creates_landed_at();
        let look = Action::LookForStray { worker: at.worker.clone() };
        Some(if landed > self.around.now.monotonic { Action::WakeAt(landed) } else { look })
    }

    /// ABSENT: proved for this epoch.
    pub(super) fn is_absent(&self, at: &Placement) -> bool {
        self.known.memory.absent.as_ref().is_some_and(|absence| absence.holds_for(at))
    }

    fn name_is_free(&self) -> bool {
        self.known.memory.absent.as_ref().is_some_and(Absence::leaves_name_free)
    }

    /// Whether the recorded mirror was discarded by us: it was seen, and recorded, before the answer to its create showed that the
    /// worker had made something else of it. It does not count, unless its end was announced meanwhile.
    pub(super) fn was_discarded(&self, at: &Placement) -> bool {
        let discarded = self.known.memory.discarded.as_ref().map(|discarded| &discarded.0);
        let conditions = self.workload.status.conditions.as_deref().unwrap_or_default();
        let is_announced = [FAILURE_TARGET, SUCCESS_CRITERIA_MET].iter().any(|kind| is_true(conditions, kind));
        at.mirror.is_some() && at.mirror.as_ref() == discarded && !is_announced
    }

    /// Pods were found though there is no mirror: there was one.
    pub(super) fn has_evidence(&self, at: &Placement) -> bool {
        self.known.memory.evidence == Some(at.epoch)
    }

    /// There was a mirror, and it is gone. It may have finished unseen, so it must not run again by itself.
    pub(super) fn fail_unseen(&self, at: &Placement) -> Vec<Action> {
        let message = format!("the mirror on worker {} was deleted before its end was seen", at.worker);
        self.give_up(api::conditions::REASON_MIRROR_DELETED, message)
    }

    /// The create and all that may come of it must lie within the quarantine of its placement.
    fn may_create(&self, at: &Placement) -> bool {
        self.known.memory.acknowledged.is_some_and(|(epoch, acknowledged)| {
            epoch == at.epoch && self.around.now.since(acknowledged) < CREATE_WINDOW
        })
    }

    /// The worker refused: go elsewhere if somebody else takes it, else wait and ask again. `None`: ask again now.
    fn take_refusal(&self, at: &Placement, refusal: &Refusal) -> Option<Vec<Action>> {
        let chosen = self.choose().ok().and_then(|decision| decision.chosen);
        let times = |worker: &str| self.known.memory.refusals.get(worker).map_or(0, |refusal| refusal.times);
        // A workload that everybody refuses must not wander: whoever refused it half as often is no better place to wait.
        let elsewhere = chosen.is_some_and(|chosen| {
            chosen.worker != at.worker && 2 * times(&chosen.worker).min(MANY_REFUSALS) <= refusal.times
        });
        if elsewhere && refusal.times >= refusal.ground.left_from() {
            // A refused create never proves that an earlier one did not get through.
            return Some(if self.is_absent(at) {
                let failed = self.workload.status.failed.unwrap_or(0);
                vec![Action::RecordPlacement(at.leaving(failed, self.around.now.wall))]
            } else {
                vec![prove_absent(at)]
            });
        }
        let ask_again = refusal.over_at();
        (ask_again > self.around.now.monotonic).then(|| {
            let message = format!("worker {} refuses: {}", at.worker, refusal.why);
            let mut actions = if refusal.times >= refusal.ground.told_from() {
                self.tell(false, api::conditions::REASON_REFUSED, message)
            } else {
                Vec::new()
            };
            actions.push(Action::WakeAt(ask_again));
            actions
        })
    }
}
