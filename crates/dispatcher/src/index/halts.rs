//! Whether anything new of a kind may be placed at all.

use std::collections::{BTreeMap, BTreeSet};

use jobferry_core::{
    custom::KindRef,
    knowledge::Halt,
    placement::{KindLink, WorkerView},
};

use super::{Index, State, Uid};

/// The workers, by name.
type Workers = BTreeMap<String, WorkerView>;

#[derive(Debug, Default)]
pub(super) struct Halts {
    /// What the canary tells.
    canary: Option<Halt>,
    /// The manager was restored from a backup.
    restored: Option<Restored>,
    /// The first looks at the mirrors of each kind that are not over.
    first_looks: Vec<FirstLook>,
    /// The highest version of the manager that was read.
    manager_version: u64,
}

/// Any mirror may tell of a restore: nothing of its kind is placed before the workers were asked.
#[derive(Debug)]
struct FirstLook {
    kind: KindRef,
    /// Workers that were there when it began, and have not answered yet.
    unasked: BTreeSet<String>,
}

/// It may have forgotten placements, so a workload without one may still have a mirror somewhere.
#[derive(Debug)]
struct Restored {
    /// A mirror that is younger than the manager's own version.
    mirror: String,
    /// The workers that there were when that was found.
    workers: BTreeSet<String>,
    /// Which of them have shown their mirrors of which kind since. Other kinds may come into use at any time.
    seen: BTreeSet<(String, String)>,
}

impl Index {
    /// What the canary tells. Returns the workloads to plan.
    pub(crate) fn heed_canary(&self, halt: Option<Halt>) -> Vec<Uid> {
        let mut state = self.lock();
        state.halts.canary = halt;
        state.waiting.all().collect()
    }

    /// The highest version of the manager that was read.
    pub(crate) fn manager_version(&self) -> u64 {
        self.lock().halts.manager_version
    }

    /// The manager itself says how far it has come.
    pub(crate) fn note_manager_version(&self, version: u64) {
        let mut state = self.lock();
        state.halts.manager_version = state.halts.manager_version.max(version);
    }

    /// The manager is older than this mirror: all workers must be seen before anything is placed.
    pub(crate) fn find_restored(&self, mirror: String) {
        let mut state = self.lock();
        let State { halts, workers, .. } = &mut *state;
        let over = |restored: &Restored| restored.unseen(workers, &KindRef::Job.name()).is_none();
        if halts.restored.as_ref().is_none_or(over) {
            let workers = workers.keys().cloned().collect();
            halts.restored = Some(Restored { mirror, workers, seen: BTreeSet::new() });
            state.settle_halts();
        }
    }

    /// The manager's objects of this kind are about to be planned for the first time.
    pub(crate) fn begin_first_look(&self, kind: &KindRef) {
        self.lock().await_first_look(kind.clone());
    }

    /// Workers that have not shown their mirrors of this kind by now are not waited for. Returns the workloads to plan.
    pub(crate) fn end_first_look(&self, kind: &KindRef) -> Vec<Uid> {
        let mut state = self.lock();
        state.halts.first_looks.retain(|look| !look.kind.is(kind));
        state.waiting.all().collect()
    }
}

impl State {
    /// All workers are known: those that have not been asked are waited for.
    pub(super) fn await_first_looks(&mut self) {
        let begun: Vec<KindRef> = self.halts.first_looks.iter().map(|look| look.kind.clone()).collect();
        for kind in begun.into_iter().chain([KindRef::Job]) {
            self.await_first_look(kind);
        }
    }

    /// Before these workers were asked, it is not known whether the manager was restored.
    fn await_first_look(&mut self, kind: KindRef) {
        self.halts.first_looks.retain(|look| !look.kind.is(&kind));
        let unasked = self.workers.keys().cloned().collect();
        self.halts.first_looks.push(FirstLook { kind, unasked });
        self.settle_halts();
    }

    /// To be called when a worker, or what the halts are made from, has changed.
    pub(super) fn settle_halts(&mut self) {
        for FirstLook { kind, unasked } in &mut self.halts.first_looks {
            unasked.retain(|name| self.workers.get(name).is_some_and(|worker| worker.is_being_asked(kind)));
        }
        let Some(Restored { workers, seen, .. }) = &mut self.halts.restored else { return };
        for (name, worker) in self.workers.iter().filter(|(name, _)| workers.contains(*name)) {
            seen.extend(kinds_in_sight(worker).into_iter().map(|kind| (name.clone(), kind)));
        }
    }
}

/// The kinds of which this worker hides no mirror from us.
fn kinds_in_sight(worker: &WorkerView) -> Vec<String> {
    if worker.live_identity().is_none() {
        return Vec::new();
    }
    let in_sight = |link: &KindLink| matches!(link, KindLink::Listed | KindLink::Missing { .. });
    let others = worker.kinds.iter().filter(|(_, link)| in_sight(link)).map(|(name, _)| name.clone());
    others.chain([KindRef::Job.name()]).collect()
}

impl Restored {
    /// A worker that has not shown its mirrors of this kind yet.
    fn unseen<'a>(&'a self, workers: &Workers, kind: &str) -> Option<&'a str> {
        let unseen = |name: &&String| !self.seen.contains(&((*name).clone(), kind.to_owned()));
        self.workers.iter().filter(|name| workers.contains_key(*name)).find(unseen).map(String::as_str)
    }

    fn halt(&self, workers: &Workers, kind: &str) -> Option<Halt> {
        let worker = self.unseen(workers, kind)?;
        let view = workers.get(worker)?;
        let mirror = &self.mirror;
        let what = match view.kinds.get(kind) {
            _ if view.live_identity().is_none() => "is not connected",
            Some(KindLink::Forbidden { why }) => why.as_str(),
            _ => "has not shown its mirrors of this kind",
        };
        Some(Halt::Because(format!(
            "the management cluster is older than the mirror {mirror}: it was restored from a backup, and may have \
             forgotten what it placed; placing goes on when every worker was seen, and {worker} {what}"
        )))
    }
}

impl Halts {
    /// Whether there may be any at all: mostly not, and then nothing need be asked about a kind.
    pub(super) const fn any(&self) -> bool {
        self.canary.is_some() || self.restored.is_some() || !self.first_looks.is_empty()
    }

    /// Why nothing of the kind of this name may be placed, if so.
    pub(super) fn halt(&self, workers: &Workers, kind: &str) -> Option<Halt> {
        let forgotten = || self.restored.as_ref()?.halt(workers, kind);
        let mut looks = self.first_looks.iter();
        let undecided = looks.any(|look| look.kind.name() == kind && !look.unasked.is_empty());
        self.canary.clone().or_else(forgotten).or(undecided.then_some(Halt::Undecided))
    }

    /// Nobody looks at the mirrors of this kind any more.
    pub(super) fn forget_kind(&mut self, name: &str) {
        self.first_looks.retain(|look| look.kind.name() != name);
    }

    /// Whether placing is stopped, of any kind.
    pub(super) fn stop_something(&self, workers: &Workers) -> bool {
        let kinds: BTreeSet<&String> = workers.values().flat_map(|worker| worker.kinds.keys()).collect();
        let stopped = |kind: &str| matches!(self.halt(workers, kind), Some(Halt::Because(_)));
        stopped(&KindRef::Job.name()) || kinds.into_iter().any(|kind| stopped(kind))
    }
}
