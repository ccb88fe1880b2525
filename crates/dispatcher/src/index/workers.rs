//! What is known of workers.

use std::collections::BTreeMap;

use jobferry_core::{
    knowledge::Knowledge,
    placement::{Link, WorkerView},
};

use super::{Index, Uid, load_of, placed_on};

impl Index {
    /// Adds or changes a worker; returns the workloads that may fit now.
    pub(crate) fn change_worker(&self, name: &str, change: impl FnOnce(&mut WorkerView)) -> Vec<Uid> {
        let mut state = self.lock();
        if !state.workers.contains_key(name) {
            let placed = state.workloads.values().filter_map(load_of).filter(|load| load.worker == name);
            let (mut unfinished, mut unacknowledged) = (0, 0);
            for load in placed {
                unfinished += 1;
                unacknowledged += u32::from(load.unacknowledged);
            }
            state.workers.insert(name.to_owned(), WorkerView { unacknowledged, unfinished, ..WorkerView::default() });
        }
        let mut came_or_went = false;
        if let Some(worker) = state.workers.get_mut(name) {
            let before = worker.link.clone();
            change(worker);
            came_or_went = before != worker.link;
        }
        let mut touched: Vec<Uid> = state.waiting.all().collect();
        if came_or_went {
            // What is placed there, or has a mirror there, may be seen again, or may be lost. So may what is on workers
            // that are away: whether they count as lost depends on how many of them there are.
            let away =
                |worker: &str| matches!(state.workers.get(worker), Some(WorkerView { link: Link::Away { .. }, .. }));
            let concerned = |known: &Knowledge| {
                known.mirrors.contains_key(name)
                    || placed_on(known).is_some_and(|worker| worker == name || away(worker))
            };
            touched.extend(state.workloads.iter().filter(|(_, known)| concerned(known)).map(|(uid, _)| uid.clone()));
        }
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    /// A worker is no longer registered. What it ran is out of our sight, not gone.
    pub(crate) fn remove_worker(&self, name: &str) -> Vec<Uid> {
        let mut state = self.lock();
        state.workers.remove(name);
        state.waiting.forget_worker(name);
        state.identities.retain(|_, worker| worker != name);
        let concerned = |known: &Knowledge| known.mirrors.contains_key(name) || placed_on(known) == Some(name);
        let mut touched: Vec<Uid> =
            state.workloads.iter().filter(|(_, known)| concerned(known)).map(|(uid, _)| uid.clone()).collect();
        touched.sort_unstable();
        for uid in &touched {
            state.change(uid, |known| drop(known.mirrors.remove(name)));
        }
        touched.extend(state.waiting.all());
        state.with_woken(touched)
    }

    /// How many unfinished workloads each worker has.
    pub(crate) fn unfinished(&self) -> BTreeMap<String, u32> {
        self.lock().workers.iter().map(|(name, worker)| (name.clone(), worker.unfinished)).collect()
    }

    pub(crate) fn worker(&self, name: &str) -> Option<WorkerView> {
        self.lock().workers.get(name).cloned()
    }

    /// Claims an identity for a worker; `Err` is the name of the worker that has it already. The claim outlives
    /// disconnections, so that the same cluster cannot be registered twice.
    pub(crate) fn claim_identity(&self, name: &str, identity: &str) -> Result<(), String> {
        let mut state = self.lock();
        match state.identities.get(identity) {
            Some(other) if other != name => Err(other.clone()),
            _ => {
                state.identities.retain(|_, worker| worker != name);
                state.identities.insert(identity.to_owned(), name.to_owned());
                Ok(())
            }
        }
    }
}
