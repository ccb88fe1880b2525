//! Whether anything new may be placed at all.

use jobferry_core::{
    knowledge::Halt,
    placement::{Link, WorkerView},
};

use super::{Index, State, Uid};

#[derive(Debug, Default)]
pub(super) struct Halts {
    /// What the canary tells.
    canary: Option<Halt>,
    /// A mirror that is younger than the manager's own version: the manager was restored from a backup.
    restored: Option<String>,
    /// The highest version of the manager that was read.
    manager_version: u64,
    /// What follows from all this.
    pub(super) halted: Option<Halt>,
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

    /// The manager is older than this mirror. It may have forgotten placements, so a workload without one may still have a
    /// mirror: all workers must be seen before anything is placed.
    pub(crate) fn find_restored(&self, mirror: String) {
        let mut state = self.lock();
        state.halts.restored = Some(mirror);
        state.settle_halts();
    }
}

impl State {
    /// To be called when a worker, or what the halts are made from, has changed.
    pub(super) fn settle_halts(&mut self) {
        let live = |worker: &WorkerView| matches!(worker.link, Link::Live { .. });
        let unseen = self.workers.iter().find(|(_, worker)| !live(worker)).map(|(name, _)| name);
        let restored = self.halts.restored.as_ref().zip(unseen).map(|(mirror, worker)| {
            Halt::Because(format!(
                "the management cluster is older than the mirror {mirror}: it was restored from a backup, and may have \
                 forgotten what it placed; placing goes on when every worker was seen, and {worker} is not connected"
            ))
        });
        self.halts.halted = self.halts.canary.clone().or(restored);
    }
}
