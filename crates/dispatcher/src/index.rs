//! What the dispatcher knows, by workload UID and by worker. Fed by watches and by the answers to our own writes.

mod children;
mod deleted;
mod doubts;
mod halts;
mod mirrors;
mod orphans;
mod policies;
mod waiting;
mod workers;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use job_api::Rules;
use jobferry_core::{
    action::Action,
    custom::KindRef,
    halts::Halts,
    knowledge::{Knowledge, Load, Memory, Sighting, Surroundings},
    phase::{Phase, phase},
    placement::{Choice, Verdict, WorkerView, choose},
    plan::plan,
    policy::{Policies, Policy},
    refusal::Ground,
    selector::SelectorError,
    time::Now,
    workload::Workload,
};

use jobferry_kubeio::events::About;

use crate::events::about;
use children::Owned;
use deleted::Deleted;
use doubts::Doubts;
use orphans::Orphans;
use waiting::Waiting;

pub(crate) use children::Child;
pub(crate) use workers::Standing;

pub(crate) type Uid = String;
/// An object as the index keeps it. It is boxed when it is decoded: the list of a start has all of them at once, and grows.
pub(crate) type Kept<T> = Box<T>;
pub(crate) type Labels = BTreeMap<String, String>;
/// A policy, or why it cannot be read.
pub(crate) type ReadPolicy = Result<Policy, SelectorError>;

/// Shared by all tasks. The lock is held for microseconds and never across an await. Every method that changes what is
/// known returns the workloads that want to be planned because of it.
#[derive(Debug, Default)]
pub(crate) struct Index {
    state: Mutex<State>,
}

/// How things stand.
#[derive(Debug)]
pub(crate) struct Survey {
    /// Everything that plans look at has been listed.
    pub(crate) listed: bool,
    /// Nothing new is placed.
    pub(crate) halted: bool,
    /// How many workloads no worker fits yet.
    pub(crate) waiting: usize,
    pub(crate) workers: BTreeMap<String, WorkerView>,
}

#[derive(Debug, Default)]
struct State {
    /// Boxed: a map that grows has room for twice what it holds.
    workloads: HashMap<Uid, Box<Knowledge>>,
    /// How many workloads there are in each namespace.
    namespaces: HashMap<String, usize>,
    workers: BTreeMap<String, WorkerView>,
    /// The UIDs of their `Worker` objects: one that is registered anew under the same name is another one.
    registered: BTreeMap<String, Uid>,
    policies: Policies,
    halts: Halts,
    /// The highest version of the manager that was read.
    manager_version: u64,
    waiting: Waiting,
    deleted: Deleted,
    doubts: Doubts,
    orphans: Orphans,
    owned: Owned,
    listed: Listed,
    /// How many lists of mirrors each worker has given, by kind.
    lists: HashMap<String, HashMap<String, u64>>,
    /// Which worker has which identity; kept while it is away.
    identities: BTreeMap<String, String>,
    /// The manager's answer to a placement: the whole Job, from which the mirror is made without another read.
    fresh: HashMap<Uid, (String, Bytes)>,
}

/// What a dispatcher's term of leadership is like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Term {
    /// The status rules of the manager's API server.
    pub(crate) rules: Rules,
    /// Since when (monotonic).
    pub(crate) since: Duration,
    /// A lease keeps others from working at the same time.
    pub(crate) alone: bool,
    /// How long a worker must be missed to count as lost.
    pub(crate) notice_loss_after: Duration,
}

/// What is to be done for a workload.
pub(crate) struct Planned {
    pub(crate) actions: Vec<Action>,
    /// The workload as the plan saw it.
    pub(crate) workload: Option<Box<Workload>>,
}

/// The lists of the manager that plans look at. Before its workloads are listed every mirror would look like an orphan;
/// before its policies and namespaces are, every worker would look open; before its workers are, every placement would
/// look forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum List {
    Workloads,
    Policies,
    Namespaces,
    Workers,
}

impl List {
    const ALL: usize = 4;
}

/// Those that have been seen.
#[derive(Debug, Default)]
struct Listed(BTreeSet<List>);

impl Listed {
    /// Whether it is the first of its kind.
    fn add(&mut self, list: List) -> bool {
        self.0.insert(list)
    }

    fn all(&self) -> bool {
        self.0.len() == List::ALL
    }
}

impl Index {
    /// The manager's whole list of one kind. Returns the workloads to plan: all that are there, and all that are no longer.
    pub(crate) fn reset_workloads(&self, kind: &KindRef, workloads: Vec<Kept<Workload>>) -> Vec<Uid> {
        let mut state = self.lock();
        let listed: BTreeSet<&str> = workloads.iter().map(|w| w.uid.as_str()).collect();
        let first = matches!(kind, KindRef::Job) && state.listed.add(List::Workloads);
        let of_kind = |workload: &Workload| workload.kind().is(kind);
        let known = state.workloads.iter().filter(|(_, known)| known.workload.as_deref().is_some_and(of_kind));
        let mut touched: Vec<Uid> =
            known.filter(|(uid, _)| !listed.contains(uid.as_str())).map(|(uid, _)| uid.clone()).collect();
        touched.sort_unstable();
        for uid in &touched {
            state.lose_workload(uid);
        }
        if first {
            // Mirrors that were listed before are judged only now.
            touched.extend(state.workloads.keys().cloned());
        }
        for workload in workloads {
            if !state.concerns_us(&workload) {
                continue;
            }
            touched.push(workload.uid.clone());
            let uid = workload.uid.clone();
            state.deleted.forget(&uid);
            // A list is the truth even if its version went back: the manager was restored.
            state.change(&uid, |known| known.workload = Some(workload));
        }
        touched
    }

    /// A workload was created or changed, or a write of ours returned it.
    pub(crate) fn apply_workload(&self, workload: impl Into<Box<Workload>>) -> Vec<Uid> {
        let workload = workload.into();
        let uid = workload.uid.clone();
        let mut state = self.lock();
        if state.deleted.contains(&uid) || !state.concerns_us(&workload) {
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
        vec![uid]
    }

    /// The manager's watch says that a workload is gone.
    pub(crate) fn delete_workload(&self, uid: &str) -> Vec<Uid> {
        let mut state = self.lock();
        state.deleted.add(uid);
        if !state.workloads.contains_key(uid) {
            return Vec::new();
        }
        state.lose_workload(uid);
        vec![uid.to_owned()]
    }

    /// Changes what only this process knows of a workload.
    pub(crate) fn remember(&self, uid: &str, change: impl FnOnce(&mut Memory)) {
        let mut state = self.lock();
        if state.workloads.contains_key(uid) {
            state.change(uid, |known| change(&mut known.memory));
        }
    }

    /// How things stand, for metrics and health.
    pub(crate) fn survey(&self) -> Survey {
        let state = self.lock();
        Survey {
            listed: state.listed.all(),
            halted: state.halts.stop_something(&state.workers),
            waiting: state.waiting.all().count(),
            workers: state.workers.clone(),
        }
    }

    /// What kind of workload it is.
    pub(crate) fn kind_of(&self, uid: &str) -> Option<KindRef> {
        self.lock().workloads.get(uid)?.kind()
    }

    /// The object that a workload is.
    pub(crate) fn about(&self, uid: &str) -> Option<About> {
        let state = self.lock();
        let workload = state.workloads.get(uid)?.workload.as_ref()?;
        Some(about(workload))
    }

    /// Whether there is any workload in this namespace.
    pub(crate) fn has_work_in(&self, namespace: &str) -> bool {
        self.lock().namespaces.contains_key(namespace)
    }

    /// What this worker said when it refused the workload last.
    pub(crate) fn refusal(&self, uid: &str, worker: &str) -> Option<String> {
        self.lock().workloads.get(uid)?.memory.refusals.get(worker).map(|refusal| refusal.why.clone())
    }

    /// Whether this worker's server has failed at it before.
    pub(crate) fn failed_before(&self, uid: &str, worker: &str) -> bool {
        let state = self.lock();
        let refusal = state.workloads.get(uid).and_then(|known| known.memory.refusals.get(worker));
        refusal.is_some_and(|refusal| refusal.ground == Ground::Failing)
    }

    /// When (monotonic) the manager acknowledged the placement of this epoch to us.
    pub(crate) fn acknowledged(&self, uid: &str, epoch: u32) -> Option<Duration> {
        let state = self.lock();
        let (acknowledged, at) = state.workloads.get(uid)?.memory.acknowledged?;
        (acknowledged == epoch).then_some(at)
    }

    /// What is to be done for this workload.
    pub(crate) fn plan(&self, uid: &str, term: Term, now: Now) -> Planned {
        let mut state = self.lock();
        state.notice_child(uid);
        let State { workloads, workers, policies, halts, listed, orphans, .. } = &mut *state;
        let mut planned = Planned { actions: Vec::new(), workload: None };
        let Some(known) = workloads.get_mut(uid).filter(|_| listed.all()) else { return planned };
        known.notice(workers, now);
        let halt = known.kind().and_then(|kind| halts.of(&kind, workers));
        let of_unknown_descent = known.workload.is_none() && !known.memory.owner_seen;
        let around = Surroundings {
            workers,
            policies,
            halted: halt.as_ref(),
            rules: term.rules,
            leading_since: term.since,
            leads_alone: term.alone,
            notice_loss_after: term.notice_loss_after,
            may_delete_orphan: !of_unknown_descent || orphans.may_delete(uid, now),
            now,
        };
        planned.actions = plan(known, around);
        planned.workload.clone_from(&known.workload);
        let phase = phase(known, workers);
        let held_back = halt.is_some() && matches!(phase, Phase::Placed { .. });
        if matches!(phase, Phase::Waiting | Phase::Moving { .. } | Phase::Unknown) || held_back {
            state.wait(uid, now);
        } else {
            state.waiting.remove(uid);
        }
        planned
    }

    /// Workloads that have waited for a create slot which is free now.
    pub(crate) fn offer_free_slots(&self) -> Vec<Uid> {
        let State { waiting, workers, .. } = &mut *self.lock();
        waiting.take_free_slots(workers)
    }

    pub(crate) fn keep_fresh(&self, uid: &str, version: &str, job: Bytes) {
        let mut state = self.lock();
        if state.workloads.contains_key(uid) {
            state.fresh.insert(uid.to_owned(), (version.to_owned(), job));
        }
    }

    /// What was kept, if it is still the workload's last version.
    pub(crate) fn take_fresh(&self, uid: &str, version: &str) -> Option<Bytes> {
        let (kept, job) = self.lock().fresh.remove(uid)?;
        (kept == version).then_some(job)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; if it did, every change is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The one way to lose a workload.
    fn lose_workload(&mut self, uid: &str) {
        let workload = self.workloads.get(uid).and_then(|known| known.workload.as_ref());
        if let Some(Entry::Occupied(mut count)) = workload.map(|lost| self.namespaces.entry(lost.namespace.clone())) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        self.change(uid, Knowledge::lose_workload);
    }

    /// The one way to change what is known of a workload: it keeps the load of the workers right and forgets what is over.
    fn change(&mut self, uid: &str, change: impl FnOnce(&mut Knowledge)) {
        let known = match self.workloads.entry(uid.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let memory = Memory { in_doubt: self.doubts.take(uid), ..Memory::default() };
                new.insert(Box::new(Knowledge { memory, ..Knowledge::default() }))
            }
        };
        let before = known.load();
        let is_new = known.workload.is_none();
        change(known);
        let after = known.load();
        if let Some(workload) = known.workload.as_ref().filter(|_| is_new) {
            *self.namespaces.entry(workload.namespace.clone()).or_default() += 1;
        }
        if known.workload.is_none() && known.present().next().is_none() {
            if let Some(sent) = known.memory.in_doubt {
                self.doubts.keep(uid, sent);
            }
            self.workloads.remove(uid);
            self.waiting.remove(uid);
            self.fresh.remove(uid);
        }
        if before != after {
            self.account(before.as_ref(), false);
            self.account(after.as_ref(), true);
        }
    }

    /// Whether this workload is ours, or was: what is taken back from us is looked at once more. Only kinds other than Job
    /// let that happen.
    fn concerns_us(&self, workload: &Workload) -> bool {
        workload.is_ours() || (workload.custom.is_some() && self.workloads.contains_key(&workload.uid))
    }

    fn everything(&self) -> Vec<Uid> {
        let mut all: Vec<Uid> = self.workloads.keys().cloned().collect();
        all.sort_unstable();
        all
    }

    fn wait(&mut self, uid: &str, now: Now) {
        let Some(known) = self.workloads.get(uid) else { return };
        let Some(workload) = &known.workload else { return };
        let (workers, policies, refusals) = (&self.workers, &self.policies, &known.memory.refusals);
        let choice = Choice { workload, workers, policies, refusals, now: now.monotonic };
        let verdicts = choose(choice).map(|decision| decision.verdicts).unwrap_or_default();
        let full = verdicts.into_iter().filter(|(_, verdict)| *verdict == Verdict::NoFreeSlot);
        self.waiting.add(uid, full.map(|(worker, _)| worker));
    }

    fn account(&mut self, load: Option<&Load>, add: bool) {
        let Some(load) = load else { return };
        let Some(worker) = self.workers.get_mut(&load.worker) else { return };
        let step = |count: u32, by: u32| if add { count + by } else { count.saturating_sub(by) };
        worker.unfinished = step(worker.unfinished, 1);
        worker.unacknowledged = step(worker.unacknowledged, u32::from(load.unacknowledged));
    }
}

fn uid_of(sighting: &Sighting) -> &str {
    &sighting.mirror().uid
}

/// Whether `new` is an older version than `known` of the same object. Versions of one API server can be compared.
fn is_older(new: &str, known: &str) -> bool {
    matches!((new.parse::<u64>(), known.parse::<u64>()), (Ok(new), Ok(known)) if new < known)
}

#[cfg(test)]
mod tests;
