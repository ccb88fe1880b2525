//! A worker that does not answer, and when its workloads are given up.

use std::time::Duration;

use job_api::conditions::{message, reason};
use jobferry_api::conditions;
use k8s_openapi::jiff::Timestamp;

use super::Case;
use crate::{
    action::Action,
    placement::{KindLink, Link, WorkerView},
    record::Placement,
    time::WAITING_INTERVAL,
};

/// From this many workers on, the loss of more than half of them is taken for a fault on our side.
const BRAKED_FLEET: usize = 3;

/// Since when the worker of a placement is out of reach.
struct Loss {
    /// As recorded, whoever led at that time.
    since: Timestamp,
    /// As this process noticed (monotonic).
    noticed: Duration,
}

impl Case<'_> {
    /// Gives the workload up when its worker is lost for longer than its policy or its deadline allows.
    pub(super) fn mind_loss(&self, at: &Placement, actions: &mut Vec<Action>) {
        // An end that was seen is the workload's end, as soon as it can be written.
        if self.end_from_before().is_some() {
            return;
        }
        let Some(loss) = self.loss(at) else { return };
        let now = self.around.now;
        let given_up = (conditions::REASON_WORKER_LOST, format!("worker {} has not answered for too long", at.worker));
        let late = (reason::DEADLINE_EXCEEDED, message::DEADLINE_EXCEEDED.to_owned());
        let ends = [(self.gives_up_at(&loss), given_up), (self.deadline(), late)];
        let first = ends.into_iter().filter_map(|(due, end)| Some((due?, end))).min();
        let Some((due, (reason, message))) = first else { return };
        let left = Duration::try_from(due.duration_since(now.wall)).unwrap_or_default();
        // Nor before a create that may be under way has landed: it would run what was given up.
        let landed = self.known.memory.creates_landed_at();
        let act_at = (loss.noticed + self.around.notice_loss_after).max(now.monotonic + left).max(landed);
        if act_at > now.monotonic {
            actions.push(Action::WakeAt(act_at));
            return;
        }
        // The worker that comes back and releases the brake has this workload looked at again; so has what is found, or not,
        // in the cluster that took its worker's place.
        if most_look_lost(self.around.workers.values()) || self.look_for_stray(at).is_some() {
            return;
        }
        // The last word: whatever else there is to tell of where it is would take turns with it.
        actions.retain(|action| !matches!(action, Action::Tell(_)));
        actions.extend(self.give_up(reason, message));
    }

    /// Tells people that the worker of this placement is not registered any more, is another cluster now, cannot be used, or
    /// does not show us its kind.
    pub(super) fn tell_out_of_sight(&self, at: &Placement) -> Vec<Action> {
        let memory = &self.known.memory;
        let gone = (memory.worker_missing, conditions::REASON_WORKER_MISSING);
        let unseen = (memory.worker_unusable, conditions::REASON_KIND_MISSING);
        let unused = (memory.worker_unusable, conditions::REASON_WORKER_MISSING);
        let ((since, reason), what) = match self.around.workers.get(&at.worker).map(|worker| &worker.link) {
            None => (gone, "which is not registered any more".to_owned()),
            Some(Link::Live { identity }) if *identity != at.identity => {
                (gone, "behind whose name there is another cluster now".to_owned())
            }
            // Where there is no lease, another dispatcher may be able to use it: what the worker told that one stands.
            Some(Link::Unfit { .. }) if self.is_told_refused() && !self.around.leads_alone => return Vec::new(),
            Some(Link::Unfit { why }) => (unused, format!("which cannot be used ({why})")),
            _ => match self.lacks_kind(at) {
                Some(KindLink::Forbidden { .. }) => {
                    (unseen, "which does not let us watch this kind any more".to_owned())
                }
                Some(_) => (unseen, "which does not have this kind any more".to_owned()),
                None => return Vec::new(),
            },
        };
        let Some(missing) = since else { return Vec::new() };
        // A short absence is no news: the Worker may be about to be registered again, a definition to be replaced.
        if self.around.now.since(missing) < WAITING_INTERVAL {
            return vec![Action::WakeAt(missing + WAITING_INTERVAL)];
        }
        let message = format!("on worker {}, {what}; it is waited for", at.worker);
        self.tell(true, reason, message)
    }

    fn is_told_refused(&self) -> bool {
        self.workload.placed.as_ref().is_some_and(|told| told.reason == conditions::REASON_REFUSED)
    }

    /// What the worker of this placement, which answers, says of a kind that it does not show us.
    pub(super) fn lacks_kind(&self, at: &Placement) -> Option<&KindLink> {
        self.around.workers.get(&at.worker)?.lacks(&self.workload.kind())
    }

    /// Whether the worker of this placement answers, and yet does not let us do anything for this workload.
    pub(super) fn is_unusable(&self, at: &Placement) -> bool {
        let is_unfit = |worker: &WorkerView| matches!(worker.link, Link::Unfit { .. });
        self.lacks_kind(at).is_some() || self.around.workers.get(&at.worker).is_some_and(is_unfit)
    }

    /// The identity of the cluster that shows us its mirrors by the name of this placement's worker.
    pub(super) fn shown_by(&self, at: &Placement) -> Option<&str> {
        self.around.workers.get(&at.worker)?.live_for(&self.workload.kind())
    }

    /// Whether the worker of this placement shows us its mirrors.
    pub(super) fn is_in_sight(&self, at: &Placement) -> bool {
        self.shown_by(at).is_some()
    }

    fn loss(&self, at: &Placement) -> Option<Loss> {
        let now = self.around.now;
        if let Some(Link::Away { since, noticed }) = self.around.workers.get(&at.worker).map(|worker| &worker.link) {
            return Some(Loss { since: *since, noticed: *noticed });
        }
        // Nobody wrote down when a worker was removed or replaced: the clock starts when this process missed it. One that
        // answers, and does not show a kind any more, is not lost: what it runs may run on.
        let noticed = self.known.memory.worker_missing?;
        let since = now.wall.checked_sub(now.since(noticed)).unwrap_or(now.wall);
        Some(Loss { since, noticed })
    }

    fn gives_up_at(&self, loss: &Loss) -> Option<Timestamp> {
        let policy = self.around.policies.of(self.workload).ok()?;
        loss.since.checked_add(policy.fail_after?).ok()
    }

    /// When the Job's own deadline passes. The worker's controller ends it then, even if nobody can see that.
    fn deadline(&self) -> Option<Timestamp> {
        // While it is suspended the clock stands still.
        let list = self.workload.status.conditions.as_deref().unwrap_or_default();
        if self.workload.spec.suspended || job_api::conditions::is_true(list, job_api::conditions::SUSPENDED) {
            return None;
        }
        let start = self.workload.status.start_time.as_ref()?.0;
        let seconds = u64::try_from(self.workload.spec.active_deadline_seconds?).ok()?;
        start.checked_add(Duration::from_secs(seconds)).ok()
    }
}

fn most_look_lost<'a>(workers: impl Iterator<Item = &'a WorkerView>) -> bool {
    let (mut all, mut away) = (0, 0);
    for worker in workers {
        all += 1;
        away += usize::from(matches!(worker.link, Link::Away { .. }));
    }
    all >= BRAKED_FLEET && away * 2 > all
}
