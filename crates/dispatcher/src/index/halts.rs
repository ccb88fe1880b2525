//! Whether anything new may be placed at all.

use std::collections::{BTreeMap, BTreeSet};

use jobferry_core::{
    knowledge::Halt,
    placement::{Link, WorkerView},
};

use super::{Index, State, Uid};

#[derive(Debug, Default)]
pub(super) struct Halts {
    /// What the canary tells.
    canary: Option<Halt>,
    /// The manager was restored from a backup.
    restored: Option<Restored>,
    /// Workers that were there when we began, and that have not been asked yet: any of them may tell of a restore.
    unasked: BTreeSet<String>,
    /// The highest version of the manager that was read.
    manager_version: u64,
    /// What follows from all this.
    pub(super) halted: Option<Halt>,
}

/// It may have forgotten placements, so a workload without one may still have a mirror somewhere.
#[derive(Debug)]
struct Restored {
    /// A mirror that is younger than the manager's own version.
    mirror: String,
    /// Workers that have not been seen since that was found.
    unseen: BTreeSet<String>,
}

impl Index {
    /// What the canary tells. Returns the workloads to plan.
    pub(crate) fn heed_canary(&self, halt: Option<Halt>) -> Vec<Uid> {
        let mut state = self.lock();
        state.halts.canary = halt;
        state.settle_halts();
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
        if state.halts.restored.is_none() {
            let unseen = state.workers.keys().cloned().collect();
            state.halts.restored = Some(Restored { mirror, unseen });
            state.settle_halts();
        }
    }

    /// Workers that have not answered by now are not waited for. Returns the workloads to plan.
    pub(crate) fn end_first_looks(&self) -> Vec<Uid> {
        let mut state = self.lock();
        state.halts.unasked.clear();
        state.settle_halts();
        state.waiting.all().collect()
    }
}

impl State {
    /// Before these workers were asked, it is not known whether the manager was restored.
    pub(super) fn await_first_looks(&mut self) {
        self.halts.unasked = self.workers.keys().cloned().collect();
        self.settle_halts();
    }

    /// To be called when a worker, or what the halts are made from, has changed.
    pub(super) fn settle_halts(&mut self) {
        let Halts { canary, restored, unasked, halted, .. } = &mut self.halts;
        let link = |workers: &BTreeMap<String, WorkerView>, name: &str| workers.get(name).map(|view| view.link.clone());
        unasked.retain(|name| link(&self.workers, name) == Some(Link::Connecting));
        if let Some(Restored { unseen, .. }) = restored {
            unseen.retain(|name| !matches!(link(&self.workers, name), None | Some(Link::Live { .. })));
        }
        if restored.as_ref().is_some_and(|restored| restored.unseen.is_empty()) {
            *restored = None;
        }
        let forgotten = restored.as_ref().and_then(|Restored { mirror, unseen }| {
            let worker = unseen.first()?;
            Some(Halt::Because(format!(
                "the management cluster is older than the mirror {mirror}: it was restored from a backup, and may have \
                 forgotten what it placed; placing goes on when every worker was seen, and {worker} is not connected"
            )))
        });
        let undecided = (!unasked.is_empty()).then_some(Halt::Undecided);
        *halted = canary.clone().or(forgotten).or(undecided);
    }
}
