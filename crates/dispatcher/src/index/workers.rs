//! What is known of workers.

use std::{collections::BTreeMap, time::Duration};

use jobferry_api::MissingKind;
use jobferry_core::{
    knowledge::Knowledge,
    placement::{Link, WorkerView},
};

use super::{Index, List, State, Uid};

/// What people are told of a worker now and then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Of its `Worker` object.
    pub(crate) uid: Uid,
    /// How many unfinished workloads it has.
    pub(crate) unfinished: u32,
    /// Which kinds it lacks.
    pub(crate) missing_kinds: Vec<MissingKind>,
}

impl Index {
    /// All Workers were listed: from now on a worker that is not known is not registered.
    pub(crate) fn know_all_workers(&self) -> Vec<Uid> {
        let mut state = self.lock();
        if !state.listed.add(List::Workers) {
            return Vec::new();
        }
        let State { halts, workers, .. } = &mut *state;
        halts.await_first_looks(workers);
        state.everything()
    }

    /// Whether they were listed.
    pub(crate) fn knows_all_workers(&self) -> bool {
        self.lock().listed.0.contains(&List::Workers)
    }

    /// A worker was registered. The cluster that it is recorded to be is its own, whoever else is faster to connect.
    pub(crate) fn add_worker(&self, name: &str, uid: &str, recorded_identity: Option<&str>) {
        let mut state = self.lock();
        if state.workers.contains_key(name) {
            return;
        }
        let placed = state.workloads.values().filter_map(|known| known.load()).filter(|load| load.worker == name);
        let (mut unfinished, mut unacknowledged) = (0, 0);
        for load in placed {
            unfinished += 1;
            unacknowledged += u32::from(load.unacknowledged);
        }
        if let Some(identity) = recorded_identity {
            state.identities.entry(identity.to_owned()).or_insert_with(|| name.to_owned());
        }
        state.registered.insert(name.to_owned(), uid.to_owned());
        state.workers.insert(name.to_owned(), WorkerView { unacknowledged, unfinished, ..WorkerView::default() });
        state.settle_halts();
    }

    /// Changes a worker, if it is (still) registered; returns the workloads that may fit now.
    pub(crate) fn change_worker(&self, name: &str, change: impl FnOnce(&mut WorkerView)) -> Vec<Uid> {
        let mut state = self.lock();
        let Some(worker) = state.workers.get_mut(name) else { return Vec::new() };
        let before = worker.clone();
        change(worker);
        let (changed, came_or_went) =
            (before != *worker, (&before.link, &before.kinds) != (&worker.link, &worker.kinds));
        if !changed {
            return Vec::new();
        }
        state.settle_halts();
        let mut touched: Vec<Uid> = state.waiting.all().collect();
        let concerned = |known: &Knowledge| {
            let at = known.placed_on();
            // A worker that opens may be a better place for what another one refuses.
            let refused = at.is_some_and(|at| known.memory.refusals.contains_key(at));
            // What is placed there, or has a mirror there, may be seen again, or may be lost. So may what is on workers
            // that are away: whether they count as lost depends on how many of them there are.
            let concerns = known.mirrors.is_known_on(name) || at.is_some_and(|at| at == name || state.is_away(at));
            refused || (came_or_went && concerns)
        };
        touched.extend(state.those(concerned));
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    /// Whether this worker's server fails at mirrors. What is placed already is not concerned, and what waits has chosen.
    pub(crate) fn note_failing(&self, name: &str, until: Option<Duration>) {
        if let Some(worker) = self.lock().workers.get_mut(name) {
            worker.failing_until = until;
        }
    }

    /// Nobody watches the mirrors of this kind any more, on any worker.
    pub(crate) fn forget_kind(&self, name: &str) {
        let mut state = self.lock();
        for worker in state.workers.values_mut() {
            worker.kinds.remove(name);
        }
        state.halts.forget_kind(name);
    }

    /// A worker is no longer registered. What it ran is out of our sight, not gone.
    pub(crate) fn remove_worker(&self, name: &str) -> Vec<Uid> {
        let mut state = self.lock();
        state.workers.remove(name);
        state.registered.remove(name);
        state.waiting.forget_worker(name);
        state.identities.retain(|_, worker| worker != name);
        state.settle_halts();
        let concerned = |known: &Knowledge| known.mirrors.is_known_on(name) || known.placed_on() == Some(name);
        let mut touched = state.those(concerned);
        for uid in &touched {
            state.change(uid, |known| known.mirrors.remove(name));
        }
        // With fewer workers those that are away may be too many, or not any more.
        let away = state.those(|known| known.placed_on().is_some_and(|at| state.is_away(at)));
        touched.extend(away);
        touched.extend(state.waiting.all());
        touched
    }

    /// How all workers stand, by name.
    pub(crate) fn standings(&self) -> BTreeMap<String, Standing> {
        let state = self.lock();
        let standing = |name: &str, worker: &WorkerView| Standing {
            uid: state.registered.get(name).cloned().unwrap_or_default(),
            unfinished: worker.unfinished,
            missing_kinds: worker.missing_kinds(),
        };
        state.workers.iter().map(|(name, worker)| (name.clone(), standing(name, worker))).collect()
    }

    pub(crate) fn worker(&self, name: &str) -> Option<WorkerView> {
        self.lock().workers.get(name).cloned()
    }

    /// Claims an identity for a worker; `Err` is the name of the worker that has it already. The claim outlives
    /// disconnections, so that the same cluster cannot be registered twice.
    pub(crate) fn claim_identity(&self, name: &str, identity: &str) -> Result<(), String> {
        let mut state = self.lock();
        // Whichever cluster it was before, it is that no more: two workers whose Secrets were mixed up would otherwise keep
        // each other out when these are put right.
        state.identities.retain(|known, worker| worker != name || known == identity);
        match state.identities.get(identity) {
            Some(other) if other != name => Err(other.clone()),
            _ => {
                state.identities.insert(identity.to_owned(), name.to_owned());
                Ok(())
            }
        }
    }
}

impl State {
    fn is_away(&self, worker: &str) -> bool {
        matches!(self.workers.get(worker), Some(WorkerView { link: Link::Away { .. }, .. }))
    }

    /// The workloads that are like that, in the order of their UIDs.
    fn those(&self, like: impl Fn(&Knowledge) -> bool) -> Vec<Uid> {
        let mut those: Vec<Uid> =
            self.workloads.iter().filter(|(_, known)| like(known)).map(|(uid, _)| uid.clone()).collect();
        those.sort_unstable();
        those
    }
}
