//! Workloads that no worker takes yet, and who is woken when one might.

use std::collections::{BTreeMap, BTreeSet};

use jobferry_core::placement::{CREATE_SLOTS, WorkerView};

use super::Uid;

#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// They are looked at again when a worker or a policy changes.
    all: BTreeSet<Uid>,
    /// Those that only want a free create slot, by worker, in the order of their UIDs.
    for_slots: BTreeMap<String, BTreeSet<Uid>>,
}

impl Waiting {
    /// The workload waits, among others for a slot of each of these workers.
    pub(super) fn add(&mut self, uid: &str, without_slot: impl Iterator<Item = String>) {
        self.all.insert(uid.to_owned());
        for worker in without_slot {
            self.for_slots.entry(worker).or_default().insert(uid.to_owned());
        }
    }

    pub(super) fn remove(&mut self, uid: &str) {
        if self.all.remove(uid) {
            for waiters in self.for_slots.values_mut() {
                waiters.remove(uid);
            }
        }
    }

    pub(super) fn forget_worker(&mut self, worker: &str) {
        self.for_slots.remove(worker);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Uid> {
        self.all.iter().cloned()
    }

    /// Each worker with a free create slot wakes one workload that waits for it. Whether that one takes it or not, its
    /// plan offers what is left to the next.
    pub(super) fn take_free_slots(&mut self, workers: &BTreeMap<String, WorkerView>) -> Vec<Uid> {
        let has_free = |worker: &String| workers.get(worker).is_some_and(|view| view.unacknowledged < CREATE_SLOTS);
        let offers = self.for_slots.iter_mut().filter(|(worker, _)| has_free(worker));
        offers.filter_map(|(_, waiters)| waiters.pop_first()).collect()
    }
}
