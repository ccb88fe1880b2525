//! What has become known about whether anything new may be placed at all.

use jobferry_core::{custom::KindRef, halts::Halt};

use super::{Index, State, Uid};

impl Index {
    /// What the canary tells. Returns the workloads to plan.
    pub(crate) fn heed_canary(&self, halt: Option<Halt>) -> Vec<Uid> {
        let mut state = self.lock();
        state.halts.canary = halt;
        state.waiting.all().collect()
    }

    /// The highest version of the manager that was read.
    pub(crate) fn manager_version(&self) -> u64 {
        self.lock().manager_version
    }

    /// The manager itself says how far it has come.
    pub(crate) fn note_manager_version(&self, version: u64) {
        let mut state = self.lock();
        state.manager_version = state.manager_version.max(version);
    }

    /// The manager is older than this mirror.
    pub(crate) fn find_restored(&self, mirror: String) {
        let State { halts, workers, .. } = &mut *self.lock();
        halts.find_restored(mirror, workers);
    }

    /// The manager's objects of this kind are about to be planned for the first time.
    pub(crate) fn begin_first_look(&self, kind: &KindRef) {
        let State { halts, workers, .. } = &mut *self.lock();
        halts.await_first_look(kind, workers);
    }

    /// Workers that have not shown their mirrors of this kind by now are not waited for. Returns the workloads to plan.
    pub(crate) fn end_first_look(&self, kind: &KindRef) -> Vec<Uid> {
        let mut state = self.lock();
        state.halts.end_first_look(kind);
        state.waiting.all().collect()
    }
}

impl State {
    /// To be called when a worker has changed.
    pub(super) fn settle_halts(&mut self) {
        self.halts.settle(&self.workers);
    }
}
