//! What the dispatcher knows, by workload UID and by worker. Fed by watches and by the answers to our own writes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use job_api::Rules;
use jobferry_core::{
    action::Action,
    knowledge::{Knowledge, Memory, Sighting, Surroundings},
    phase::{Phase, phase},
    placement::{CREATE_SLOTS, Link, WorkerView},
    plan::plan,
    record::{Placement, Record},
    time::Now,
    workload::{Mirror, Workload},
};

pub(crate) type Uid = String;

/// Shared by all tasks. The lock is held for microseconds and never across an await. Every method that changes what is
/// known returns the workloads that want to be planned because of it.
#[derive(Debug, Default)]
pub(crate) struct Index {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    workloads: HashMap<Uid, Knowledge>,
    workers: BTreeMap<String, WorkerView>,
    /// Workloads that no worker fits yet; they are looked at again when a worker changes.
    waiting: BTreeSet<Uid>,
    /// Workloads that wait for a free create slot, by worker, oldest first. May name some that went elsewhere.
    slot_waiters: BTreeMap<String, VecDeque<Uid>>,
    /// Workloads that want a look because of a change to another one.
    woken: Vec<Uid>,
    /// The manager's answer to a placement: the whole Job, from which the mirror is made without another read.
    fresh: HashMap<Uid, Bytes>,
}

/// What an entry adds to the load of the worker that it is placed on.
#[derive(PartialEq, Eq)]
struct Load {
    worker: String,
    unacknowledged: bool,
}

impl Index {
    /// The manager's whole list. Returns the workloads to plan: all that are there, and all that are no longer.
    pub(crate) fn reset_workloads(&self, workloads: Vec<Workload>) -> Vec<Uid> {
        let mut state = self.lock();
        let listed: BTreeSet<&str> = workloads.iter().map(|w| w.uid.as_str()).collect();
        let known = state.workloads.iter().filter(|(_, known)| known.workload.is_some());
        let mut touched: Vec<Uid> =
            known.filter(|(uid, _)| !listed.contains(uid.as_str())).map(|(uid, _)| uid.clone()).collect();
        touched.sort_unstable();
        for uid in &touched {
            state.change(uid, |known| known.workload = None);
        }
        for workload in workloads.into_iter().filter(Workload::is_ours) {
            touched.push(workload.uid.clone());
            let uid = workload.uid.clone();
            // A list is the truth even if its version went back: the manager was restored.
            state.change(&uid, |known| known.workload = Some(workload));
        }
        state.with_woken(touched)
    }

    /// A workload was created or changed, or a write of ours returned it.
    pub(crate) fn apply_workload(&self, workload: Workload) -> Vec<Uid> {
        if !workload.is_ours() {
            return Vec::new();
        }
        let uid = workload.uid.clone();
        let mut state = self.lock();
        state.change(&uid, |known| {
            // The answer to a write overtakes the watch: what comes later with a lower version is the past.
            if known.workload.as_ref().is_none_or(|known| !is_older(&workload, known)) {
                known.workload = Some(workload);
            }
        });
        state.with_woken(vec![uid])
    }

    /// The manager's watch says that a workload is gone.
    pub(crate) fn delete_workload(&self, uid: &str) -> Vec<Uid> {
        let mut state = self.lock();
        if !state.workloads.contains_key(uid) {
            return Vec::new();
        }
        state.change(uid, |known| known.workload = None);
        state.with_woken(vec![uid.to_owned()])
    }

    /// A worker's whole list of mirrors. Those that were known and are not in it have vanished; workloads that are placed
    /// there without a mirror want a look as well.
    pub(crate) fn reset_mirrors(&self, worker: &str, mirrors: Vec<Mirror>) -> Vec<Uid> {
        let mut state = self.lock();
        let listed: BTreeSet<&str> = mirrors.iter().map(|m| m.origin_uid.as_str()).collect();
        let concerned = |known: &Knowledge| known.mirrors.contains_key(worker) || placed_on(known) == Some(worker);
        let missing = state.workloads.iter().filter(|(uid, known)| !listed.contains(uid.as_str()) && concerned(known));
        let mut touched: Vec<Uid> = missing.map(|(uid, _)| uid.clone()).collect();
        touched.sort_unstable();
        for uid in &touched {
            state.change(uid, |known| vanish(known, worker));
        }
        for mirror in mirrors {
            touched.extend(state.see(worker, mirror));
        }
        state.with_woken(touched)
    }

    /// A mirror was created or changed.
    pub(crate) fn apply_mirror(&self, worker: &str, mirror: Mirror) -> Vec<Uid> {
        let mut state = self.lock();
        let touched = state.see(worker, mirror).into_iter().collect();
        state.with_woken(touched)
    }

    /// A mirror is no longer to be seen; `last` is its last state.
    pub(crate) fn delete_mirror(&self, worker: &str, last: Mirror) -> Vec<Uid> {
        let uid = last.origin_uid.clone();
        let mut state = self.lock();
        if !state.workloads.contains_key(&uid) {
            return Vec::new();
        }
        state.change(&uid, |known| {
            known.mirrors.insert(worker.to_owned(), Sighting::Vanished(last));
        });
        state.with_woken(vec![uid])
    }

    /// Changes what only this process knows of a workload.
    pub(crate) fn remember(&self, uid: &str, change: impl FnOnce(&mut Memory)) {
        let mut state = self.lock();
        if state.workloads.contains_key(uid) {
            state.change(uid, |known| change(&mut known.memory));
        }
    }

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
            let view = WorkerView {
                labels: BTreeMap::new(),
                cordoned: false,
                link: Link::Connecting,
                unacknowledged,
                unfinished,
            };
            state.workers.insert(name.to_owned(), view);
        }
        if let Some(worker) = state.workers.get_mut(name) {
            change(worker);
        }
        state.waiting.iter().cloned().collect()
    }

    /// A worker is no longer registered. What it ran is out of our sight, not gone.
    pub(crate) fn remove_worker(&self, name: &str) {
        let mut state = self.lock();
        state.workers.remove(name);
        let seen: Vec<Uid> =
            state.workloads.iter().filter(|(_, k)| k.mirrors.contains_key(name)).map(|(uid, _)| uid.clone()).collect();
        for uid in seen {
            state.change(&uid, |known| drop(known.mirrors.remove(name)));
        }
    }

    pub(crate) fn worker(&self, name: &str) -> Option<WorkerView> {
        self.lock().workers.get(name).cloned()
    }

    /// The worker with this identity, other than `except`.
    pub(crate) fn worker_with_identity(&self, identity: &str, except: &str) -> Option<String> {
        let state = self.lock();
        let mut others = state.workers.iter().filter(|(name, _)| *name != except);
        others.find(|(_, worker)| worker.live_identity() == Some(identity)).map(|(name, _)| name.clone())
    }

    /// What is to be done for this workload, with the workload as the plan saw it.
    pub(crate) fn plan(&self, uid: &str, rules: Rules, now: Now) -> (Vec<Action>, Option<Workload>) {
        let mut state = self.lock();
        let State { workloads, workers, .. } = &mut *state;
        let Some(known) = workloads.get_mut(uid) else { return (Vec::new(), None) };
        known.notice(now);
        let actions = plan(known, Surroundings { workers, rules, now });
        let workload = known.workload.clone();
        if matches!(phase(known, workers), Phase::Waiting | Phase::Moving { .. }) {
            state.wait(uid);
        } else {
            state.waiting.remove(uid);
        }
        (actions, workload)
    }

    pub(crate) fn keep_fresh(&self, uid: &str, job: Bytes) {
        self.lock().fresh.insert(uid.to_owned(), job);
    }

    pub(crate) fn take_fresh(&self, uid: &str) -> Option<Bytes> {
        self.lock().fresh.remove(uid)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; if it did, every change is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The one way to change what is known of a workload: it keeps the load of the workers right and forgets what is over.
    fn change(&mut self, uid: &str, change: impl FnOnce(&mut Knowledge)) {
        let known = self.workloads.entry(uid.to_owned()).or_default();
        let before = load_of(known);
        change(known);
        let after = load_of(known);
        if known.workload.is_none() && known.present().next().is_none() {
            self.workloads.remove(uid);
            self.waiting.remove(uid);
            self.fresh.remove(uid);
        }
        if before != after {
            self.account(before.as_ref(), false);
            self.account(after.as_ref(), true);
        }
    }

    fn wait(&mut self, uid: &str) {
        self.waiting.insert(uid.to_owned());
        for (name, _) in self.workers.iter().filter(|(_, worker)| worker.unacknowledged >= CREATE_SLOTS) {
            let waiters = self.slot_waiters.entry(name.clone()).or_default();
            if waiters.back().is_none_or(|last| last != uid) {
                waiters.push_back(uid.to_owned());
            }
        }
    }

    fn see(&mut self, worker: &str, mirror: Mirror) -> Option<Uid> {
        // Without the UID of its origin it is not ours, whatever its labels say.
        let uid = Some(mirror.origin_uid.clone()).filter(|uid| !uid.is_empty())?;
        self.change(&uid, |known| {
            known.memory.absent = None;
            known.memory.refusals.remove(worker);
            known.mirrors.insert(worker.to_owned(), Sighting::Present(mirror));
        });
        Some(uid)
    }

    fn with_woken(&mut self, mut touched: Vec<Uid>) -> Vec<Uid> {
        touched.append(&mut self.woken);
        touched
    }

    /// A create slot of this worker is free: the next one that still waits may have it.
    fn wake_for_slot(&mut self, worker: &str) {
        let Some(waiters) = self.slot_waiters.get_mut(worker) else { return };
        while let Some(uid) = waiters.pop_front() {
            if self.waiting.contains(&uid) {
                self.woken.push(uid);
                return;
            }
        }
    }

    fn account(&mut self, load: Option<&Load>, add: bool) {
        let Some(load) = load else { return };
        let Some(worker) = self.workers.get_mut(&load.worker) else { return };
        let step = |count: u32, by: u32| if add { count + by } else { count.saturating_sub(by) };
        worker.unfinished = step(worker.unfinished, 1);
        worker.unacknowledged = step(worker.unacknowledged, u32::from(load.unacknowledged));
        if load.unacknowledged && !add {
            self.wake_for_slot(&load.worker);
        }
    }
}

fn placement_of(known: &Knowledge) -> Option<&Placement> {
    let workload = known.workload.as_ref().filter(|workload| !workload.is_finished())?;
    match &workload.record {
        Record::Placed(placement) => Some(placement),
        Record::None | Record::Unreadable => None,
    }
}

fn placed_on(known: &Knowledge) -> Option<&str> {
    placement_of(known).map(|placement| placement.worker.as_str())
}

fn load_of(known: &Knowledge) -> Option<Load> {
    let placement = placement_of(known)?;
    let unacknowledged = placement.mirror.is_none() && !known.mirrors.contains_key(&placement.worker);
    Some(Load { worker: placement.worker.clone(), unacknowledged })
}

fn vanish(known: &mut Knowledge, worker: &str) {
    if let Some(sighting) = known.mirrors.get_mut(worker)
        && let Sighting::Present(mirror) = sighting
    {
        *sighting = Sighting::Vanished(mirror.clone());
    }
}

/// Whether `new` is an older view than `known` of the same object. Versions of one API server can be compared.
fn is_older(new: &Workload, known: &Workload) -> bool {
    match (new.resource_version.parse::<u64>(), known.resource_version.parse::<u64>()) {
        (Ok(new), Ok(known)) => new < known,
        _ => false,
    }
}
