//! Workloads that no worker takes yet, and who is woken when one might.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jobferry_core::placement::WorkerView;

use super::Uid;

#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// They are looked at again when a worker or a policy changes. Each with the number that it came as.
    all: BTreeMap<Uid, u64>,
    came: u64,
    /// Those that only want a free create slot, by worker: first come, first served.
    for_slots: BTreeMap<String, BTreeSet<(u64, Uid)>>,
}

impl Waiting {
    /// The workload waits, among others for a slot of each of these workers.
    pub(super) fn add(&mut self, uid: &str, without_slot: impl Iterator<Item = String>) {
        self.came += 1;
        let number = *self.all.entry(uid.to_owned()).or_insert(self.came);
        for worker in without_slot {
            self.for_slots.entry(worker).or_default().insert((number, uid.to_owned()));
        }
    }

    pub(super) fn remove(&mut self, uid: &str) {
        if let Some(number) = self.all.remove(uid) {
            let entry = (number, uid.to_owned());
            for waiters in self.for_slots.values_mut() {
                waiters.remove(&entry);
            }
        }
    }

    pub(super) fn forget_worker(&mut self, worker: &str) {
        self.for_slots.remove(worker);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Uid> {
        self.all.keys().cloned()
    }

    /// Each worker with a free create slot wakes one workload that waits for it. Whether that one takes it or not, its
    /// plan offers what is left to the next.
    pub(super) fn take_free_slots(&mut self, workers: &BTreeMap<String, WorkerView>) -> Vec<Uid> {
        // When a failing worker's time is over, those who wait look again by themselves.
        let has_free = |worker: &String| workers.get(worker).is_some_and(|view| view.has_free_slot(Duration::ZERO));
        let offers = self.for_slots.iter_mut().filter(|(worker, _)| has_free(worker));
        offers.filter_map(|(_, waiters)| waiters.pop_first()).map(|(_, uid)| uid).collect()
    }
}
