//! Off a worker that refused, without ever being in two places.

use jobferry_api as api;

use super::Case;
use crate::{action::Action, knowledge::Sighting, record::Placement, time::QUARANTINE};

impl Case<'_> {
    /// The intent is written. What is left of older epochs is deleted (see `stale_mirrors`); when the worker has nothing
    /// of it and no create can still be under way, the next worker is chosen.
    pub(super) fn leave(&self, at: &Placement, reachable: bool) -> Vec<Action> {
        if let Some(actions) = self.copy_end_from_before(at) {
            return actions;
        }
        let still_there = matches!(self.known.mirrors.get(&at.worker), Some(Sighting::Present(_)));
        // What is proved to be off a worker does not wait for it.
        if !reachable && (still_there || !self.is_absent(at)) {
            return self.tell_out_of_sight(at);
        }
        if still_there {
            return Vec::new();
        }
        let now = self.around.now;
        // Whoever leads, and whenever it took over: the wait begins when it first saw the intent.
        let seen = self
            .known
            .memory
            .placement_seen
            .as_ref()
            .filter(|(epoch, since, _)| (*epoch, since) == (at.epoch, &at.since));
        let over = seen.map_or(now.monotonic, |(_, _, seen)| *seen) + QUARANTINE;
        if over > now.monotonic {
            return vec![Action::WakeAt(over)];
        }
        if !self.is_absent(at) {
            return vec![Action::ProveAbsent { worker: at.worker.clone(), epoch: at.epoch }];
        }
        if self.has_evidence(at) {
            return self.fail_unseen(at);
        }
        // A worker that holds what its user holds back is of no use to anybody: it goes on with the resumption.
        if self.workload.is_held_back() {
            let message =
                format!("it has left worker {}, which refused it, and goes elsewhere once it is resumed", at.worker);
            return self.tell(false, api::conditions::REASON_MOVING, message);
        }
        self.place_as(|chosen| {
            let mut placement = Placement::new(chosen.worker, chosen.identity, at.epoch, now.wall);
            placement.carried = at.carried;
            placement
        })
    }
}
