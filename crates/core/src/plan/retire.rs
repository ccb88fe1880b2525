//! What becomes of the mirrors of workloads that have ended or are gone.

use std::time::Duration;

use job_api::conditions::{self, COMPLETE, FAILED};

use super::{Case, delete};
use crate::{
    action::{Action, Alarm},
    knowledge::{Knowledge, Memory, Surroundings},
    project::stopped,
    record::{Placement, Record},
    time::{ORPHAN_PAUSE, QUARANTINE},
    workload::Mirror,
};

/// The workload is not on the manager any more. A list or a watch event does not prove that; a fresh read does, if the
/// manager is not older than any of the mirrors.
pub(super) fn retire(known: &Knowledge, around: Surroundings<'_>) -> Vec<Action> {
    let Some((_, mirror)) = known.present().find(|(_, mirror)| !mirror.deleting) else { return Vec::new() };
    let Memory { gone, owner_seen, .. } = known.memory;
    // One whose stamp was taken off tells nothing, unless we saw its workload go.
    let is_younger = |mirror: &Mirror, version| match mirror.manager_version {
        Some(stamp) => version < stamp,
        None => !owner_seen && !mirror.deleting,
    };
    let prove = || vec![Action::ProveGone { namespace: mirror.namespace.clone(), name: mirror.name.clone() }];
    match gone {
        None => prove(),
        // Whichever of them it is, it was made of a workload that this manager does not know yet; or not any more, which its
        // versions will tell when they have passed those from before.
        Some(gone) if let Some((_, mirror)) = known.present().find(|(_, mirror)| is_younger(mirror, gone.version)) => {
            let again = gone.at + ORPHAN_PAUSE;
            if around.now.monotonic >= again {
                return prove();
            }
            let alarm = Alarm::ManagerRestored(format!("{}/{}", mirror.namespace, mirror.name));
            vec![Action::Alarm(alarm), Action::WakeAt(again)]
        }
        // Many at once that nobody here ever saw look more like a mistake of ours than like work that is gone.
        Some(_) if !owner_seen && !around.may_delete_orphan => {
            vec![Action::WakeAt(around.now.monotonic + ORPHAN_PAUSE)]
        }
        Some(_) => let_go(known, around),
    }
}

/// Deletes the mirrors of a workload that is gone or going. A finished one stays for as long as a create of an earlier
/// leader, or one of ours without an answer, may still land: its name is what keeps that from running again.
fn let_go(known: &Knowledge, around: Surroundings<'_>) -> Vec<Action> {
    let quiet = quiet_from(known, around);
    let going = known.present().filter(|(_, mirror)| !mirror.deleting);
    going
        .map(|(worker, mirror)| {
            if mirror.is_finished() && around.now.monotonic < quiet {
                return Action::WakeAt(quiet);
            }
            delete((worker, mirror))
        })
        .collect()
}

/// From when (monotonic) on no create can land any more: none of an earlier leader (which has placed it, then), none of ours
/// without an answer, and, where several dispatchers work at once, none of another one.
pub(super) fn quiet_from(known: &Knowledge, around: Surroundings<'_>) -> Duration {
    let doubtful = doubtful_until(known, around);
    if known.memory.placed_first { doubtful } else { doubtful.max(around.leading_since + QUARANTINE) }
}

/// The same, as far as creates go that this process has a reason to expect.
pub(super) fn doubtful_until(known: &Knowledge, around: Surroundings<'_>) -> Duration {
    let others = known.memory.placement_seen.as_ref().filter(|_| !around.leads_alone).map(|(_, _, seen)| *seen);
    known.memory.in_doubt.max(others).map_or(Duration::ZERO, |doubt| doubt + QUARANTINE)
}

impl Case<'_> {
    /// Its deletion was asked for. Somebody's finalizer may keep it until they have seen its end: that is told first, if it is
    /// ours to tell, and its mirror stays until then.
    pub(super) fn take_leave(&self, is_ours_to_tell: bool) -> Vec<Action> {
        let end = if is_ours_to_tell { self.last_word() } else { Vec::new() };
        if end.iter().any(Action::writes_workload) {
            let unfinished = self.known.present().filter(|(_, mirror)| !mirror.deleting && !mirror.is_finished());
            return end.into_iter().chain(unfinished.map(delete)).collect();
        }
        end.into_iter().chain(let_go(self.known, self.around)).collect()
    }

    fn last_word(&self) -> Vec<Action> {
        let workload = self.workload;
        let is_refused = self.known.memory.status_refused.as_ref() == Some(&workload.resource_version);
        match &workload.record {
            Record::Placed(at) if workload.is_ours() && !workload.is_finished() && !is_refused => {
                self.copy_end_from_before(at).unwrap_or_else(|| self.tell_stopped(at))
            }
            _ => Vec::new(),
        }
    }

    /// Its mirror was taken away unfinished: whoever keeps the workload shall not read that its pods run.
    fn tell_stopped(&self, at: &Placement) -> Vec<Action> {
        let workload = self.workload;
        let may_run =
            self.known.present().next().is_some() || self.shown_by(at) != Some(&at.identity) || self.was_discarded(at);
        if workload.custom.is_some() || may_run {
            return Vec::new();
        }
        match stopped(&workload.spec, &workload.status, self.around.rules) {
            Ok(None) => Vec::new(),
            Ok(Some(status)) => vec![Action::WriteStatus { status: Box::new(status), placement: None }],
            Err(errors) => vec![Action::Alarm(Alarm::IllegalStatus(errors))],
        }
    }

    /// The mirrors of a finished workload. A live one is the late create that the finished mirror's name was kept to
    /// prevent; finished ones stay for as long as the policy says.
    pub(super) fn retain(&self) -> Vec<Action> {
        let kept_until = self.kept_until();
        let present = self.known.present().filter(|(_, mirror)| !mirror.deleting);
        present
            .filter_map(|(worker, mirror)| match kept_until {
                _ if !mirror.is_finished() => Some(delete((worker, mirror))),
                Some(until) if until > self.around.now.monotonic => Some(Action::WakeAt(until)),
                Some(_) => Some(delete((worker, mirror))),
                None => None,
            })
            .collect()
    }

    /// Until when (monotonic) the finished mirror of a finished workload stays. `None`: as long as the workload.
    fn kept_until(&self) -> Option<Duration> {
        let now = self.around.now;
        let keep = self.around.policies.of(self.workload).ok()?.keep_finished?;
        let list = self.workload.status.conditions.as_deref()?;
        let mut end = [COMPLETE, FAILED].into_iter().filter(|type_| conditions::is_true(list, type_));
        let ended = end.find_map(|type_| conditions::find(list, type_)?.last_transition_time.as_ref())?;
        let left = ended.0.checked_add(keep).ok()?.duration_since(now.wall);
        let left = Duration::try_from(left).unwrap_or_default();
        Some((now.monotonic + left).max(quiet_from(self.known, self.around)))
    }
}
