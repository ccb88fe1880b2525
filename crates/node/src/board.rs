//! Where the containers of a pod report what becomes of them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::status::{ContainerRun, PodRun};

/// The state of a pod, shared by its containers and the writer of its status.
#[derive(Debug)]
pub(crate) struct Board {
    run: Mutex<PodRun>,
    changed: Notify,
}

/// A container's place on the board.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) init: bool,
    pub(crate) position: usize,
}

impl Board {
    pub(crate) fn new(run: PodRun) -> Self {
        Self { run: Mutex::new(run), changed: Notify::new() }
    }

    pub(crate) fn read(&self) -> PodRun {
        self.lock().clone()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut PodRun)) {
        change(&mut self.lock());
        self.changed.notify_one();
    }

    pub(crate) fn update_container(&self, place: Place, change: impl FnOnce(&mut ContainerRun)) {
        self.update(|run| {
            let list = if place.init { &mut run.init } else { &mut run.main };
            if let Some(container) = list.get_mut(place.position) {
                change(container);
            }
        });
    }

    /// Waits for the next change.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, PodRun> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
