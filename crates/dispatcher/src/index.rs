//! What the dispatcher knows, by workload UID and by worker. Fed by watches and by the answers to our own writes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use job_api::Rules;
use jobferry_core::{
    action::Action,
    knowledge::{Knowledge, Memory, Sighting, Surroundings},
    phase::{Phase, phase},
    placement::{CREATE_SLOTS, Link, Verdict, WorkerView, choose},
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
    /// Workloads that only want a free create slot, by worker, in the order of their UIDs.
    slot_waiters: BTreeMap<String, BTreeSet<Uid>>,
    /// UIDs that the manager deleted lately: an answer that comes after the watch must not bring them back.
    deleted: VecDeque<Uid>,
    /// The manager's list has been seen: before it, every mirror would look like an orphan.
    manager_listed: bool,
    /// Which worker has which identity; kept while it is away.
    identities: BTreeMap<String, String>,
    /// Workloads that want a look because of a change to another one.
    woken: Vec<Uid>,
    /// The manager's answer to a placement: the whole Job, from which the mirror is made without another read.
    fresh: HashMap<Uid, Bytes>,
}

/// What is to be done for a workload.
pub(crate) struct Planned {
    pub(crate) actions: Vec<Action>,
    /// The workload as the plan saw it.
    pub(crate) workload: Option<Workload>,
    /// Other workloads that want to be planned now.
    pub(crate) woken: Vec<Uid>,
}

/// How many deleted UIDs are remembered. An answer can be overtaken by the watch for seconds, not for longer.
const DELETED_REMEMBERED: usize = 4096;

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
        let first = !std::mem::replace(&mut state.manager_listed, true);
        let known = state.workloads.iter().filter(|(_, known)| known.workload.is_some());
        let mut touched: Vec<Uid> =
            known.filter(|(uid, _)| !listed.contains(uid.as_str())).map(|(uid, _)| uid.clone()).collect();
        touched.sort_unstable();
        for uid in &touched {
            state.change(uid, |known| known.workload = None);
        }
        if first {
            // Mirrors that were listed before are judged only now.
            touched.extend(state.workloads.keys().cloned());
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
        if state.deleted.contains(&uid) {
            return Vec::new();
        }
        state.change(&uid, |known| {
            // The answer to a write overtakes the watch: what comes later with a lower version is the past.
            if known
                .workload
                .as_ref()
                .is_none_or(|known| !is_older(&workload.resource_version, &known.resource_version))
            {
                known.workload = Some(workload);
            }
        });
        state.with_woken(vec![uid])
    }

    /// The manager's watch says that a workload is gone.
    pub(crate) fn delete_workload(&self, uid: &str) -> Vec<Uid> {
        let mut state = self.lock();
        if state.deleted.len() == DELETED_REMEMBERED {
            state.deleted.pop_front();
        }
        state.deleted.push_back(uid.to_owned());
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
            // A list is the truth, even if its versions went back.
            state.forget_sighting(worker, &mirror.origin_uid);
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
        let Some(known) = state.workloads.get(&uid) else { return Vec::new() };
        // The end of an old mirror says nothing about a new one of the same name.
        if known.mirrors.get(worker).is_some_and(|seen| uid_of(seen) != last.uid || overtakes(seen, &last)) {
            return Vec::new();
        }
        state.change(&uid, |known| {
            known.mirrors.insert(worker.to_owned(), Sighting::Vanished(last));
        });
        state.with_woken(vec![uid])
    }

    /// A delete of ours was accepted: no need to send it again before the watch tells.
    pub(crate) fn mark_deleting(&self, uid: &str, worker: &str, mirror_uid: &str) {
        self.change_mirror(uid, worker, mirror_uid, |sighting| {
            if let Sighting::Present(mirror) = sighting {
                mirror.deleting = true;
            }
        });
    }

    /// A fresh read says that the mirror is not there any more.
    pub(crate) fn mark_vanished(&self, uid: &str, worker: &str, mirror_uid: &str) {
        self.change_mirror(uid, worker, mirror_uid, |sighting| {
            if let Sighting::Present(mirror) = sighting {
                *sighting = Sighting::Vanished(mirror.clone());
            }
        });
    }

    fn change_mirror(&self, uid: &str, worker: &str, mirror_uid: &str, change: impl FnOnce(&mut Sighting)) {
        let mut state = self.lock();
        if state.workloads.contains_key(uid) {
            state.change(uid, |known| {
                if let Some(sighting) = known.mirrors.get_mut(worker).filter(|seen| uid_of(seen) == mirror_uid) {
                    change(sighting);
                }
            });
        }
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
        let mut came_back = false;
        if let Some(worker) = state.workers.get_mut(name) {
            let was_live = worker.live_identity().is_some();
            change(worker);
            came_back = !was_live && worker.live_identity().is_some();
        }
        let mut touched: Vec<Uid> = state.waiting.iter().cloned().collect();
        if came_back {
            // What is placed there and was not to be seen, and what has a mirror there, was left alone until now.
            let concerned = |known: &Knowledge| known.mirrors.contains_key(name) || placed_on(known) == Some(name);
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
        state.slot_waiters.remove(name);
        state.identities.retain(|_, worker| worker != name);
        let seen: Vec<Uid> =
            state.workloads.iter().filter(|(_, k)| k.mirrors.contains_key(name)).map(|(uid, _)| uid.clone()).collect();
        for uid in seen {
            state.change(&uid, |known| drop(known.mirrors.remove(name)));
        }
        let waiting = state.waiting.iter().cloned().collect();
        state.with_woken(waiting)
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

    /// When (monotonic) the manager acknowledged the placement of this epoch to us.
    pub(crate) fn acknowledged(&self, uid: &str, epoch: u32) -> Option<Duration> {
        let state = self.lock();
        let (acknowledged, at) = state.workloads.get(uid)?.memory.acknowledged?;
        (acknowledged == epoch).then_some(at)
    }

    /// What is to be done for this workload.
    pub(crate) fn plan(&self, uid: &str, rules: Rules, leading_since: Duration, now: Now) -> Planned {
        let mut state = self.lock();
        let State { workloads, workers, manager_listed, .. } = &mut *state;
        let mut planned = Planned { actions: Vec::new(), workload: None, woken: Vec::new() };
        let Some(known) = workloads.get_mut(uid).filter(|_| *manager_listed) else { return planned };
        known.notice(now);
        planned.actions = plan(known, Surroundings { workers, rules, leading_since, now });
        planned.workload.clone_from(&known.workload);
        if matches!(phase(known, workers), Phase::Waiting | Phase::Moving { .. }) {
            state.wait(uid);
        } else {
            state.stop_waiting(uid);
        }
        state.offer_free_slots();
        planned.woken.append(&mut state.woken);
        planned
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
            self.stop_waiting(uid);
            self.fresh.remove(uid);
        }
        if before != after {
            self.account(before.as_ref(), false);
            self.account(after.as_ref(), true);
        }
    }

    fn wait(&mut self, uid: &str) {
        self.waiting.insert(uid.to_owned());
        let Some(workload) = self.workloads.get(uid).and_then(|known| known.workload.as_ref()) else { return };
        let Ok(decision) = choose(workload, &self.workers, |_| false) else { return };
        for (worker, verdict) in decision.verdicts {
            if verdict == Verdict::NoFreeSlot {
                self.slot_waiters.entry(worker).or_default().insert(uid.to_owned());
            }
        }
    }

    fn stop_waiting(&mut self, uid: &str) {
        if self.waiting.remove(uid) {
            for waiters in self.slot_waiters.values_mut() {
                waiters.remove(uid);
            }
        }
    }

    /// Each worker with a free create slot wakes one workload that waits for it. Whether that one takes it or not, its
    /// plan offers what is left to the next.
    fn offer_free_slots(&mut self) {
        for (worker, waiters) in &mut self.slot_waiters {
            let free = self.workers.get(worker).is_some_and(|worker| worker.unacknowledged < CREATE_SLOTS);
            if free && let Some(uid) = waiters.pop_first() {
                self.woken.push(uid);
            }
        }
    }

    fn forget_sighting(&mut self, worker: &str, uid: &str) {
        if self.workloads.get(uid).is_some_and(|known| known.mirrors.contains_key(worker)) {
            self.change(uid, |known| drop(known.mirrors.remove(worker)));
        }
    }

    fn see(&mut self, worker: &str, mirror: Mirror) -> Option<Uid> {
        // Without the UID of its origin it is not ours, whatever its labels say.
        let uid = Some(mirror.origin_uid.clone()).filter(|uid| !uid.is_empty())?;
        let known = self.workloads.get(&uid).and_then(|known| known.mirrors.get(worker));
        // An answer that the watch has overtaken.
        if known.is_some_and(|sighting| overtakes(sighting, &mirror)) {
            return None;
        }
        self.change(&uid, |known| {
            known.memory.absent = None;
            known.memory.gone = None;
            known.memory.refusals.remove(worker);
            known.mirrors.insert(worker.to_owned(), Sighting::Present(mirror));
        });
        Some(uid)
    }

    fn with_woken(&mut self, mut touched: Vec<Uid>) -> Vec<Uid> {
        self.offer_free_slots();
        touched.append(&mut self.woken);
        touched
    }

    fn account(&mut self, load: Option<&Load>, add: bool) {
        let Some(load) = load else { return };
        let Some(worker) = self.workers.get_mut(&load.worker) else { return };
        let step = |count: u32, by: u32| if add { count + by } else { count.saturating_sub(by) };
        worker.unfinished = step(worker.unfinished, 1);
        worker.unacknowledged = step(worker.unacknowledged, u32::from(load.unacknowledged));
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
    // A slot is taken by a create that is under way or whose outcome is unknown.
    let refused = known.memory.refusals.contains_key(&placement.worker);
    let settled = placement.mirror.is_some() || placement.moving || refused;
    let unacknowledged = !settled && !known.mirrors.contains_key(&placement.worker);
    Some(Load { worker: placement.worker.clone(), unacknowledged })
}

fn uid_of(sighting: &Sighting) -> &str {
    let (Sighting::Present(mirror) | Sighting::Vanished(mirror)) = sighting;
    &mirror.uid
}

fn vanish(known: &mut Knowledge, worker: &str) {
    if let Some(sighting) = known.mirrors.get_mut(worker)
        && let Sighting::Present(mirror) = sighting
    {
        *sighting = Sighting::Vanished(mirror.clone());
    }
}

/// Whether `new` is an older version than `known` of the same object. Versions of one API server can be compared.
fn is_older(new: &str, known: &str) -> bool {
    matches!((new.parse::<u64>(), known.parse::<u64>()), (Ok(new), Ok(known)) if new < known)
}

/// Whether a sighting says more than this state of a mirror: it is of the same object and later.
fn overtakes(sighting: &Sighting, mirror: &Mirror) -> bool {
    let (Sighting::Present(known) | Sighting::Vanished(known)) = sighting;
    known.uid == mirror.uid && is_older(&mirror.resource_version, &known.resource_version)
}

#[cfg(test)]
mod tests;
