//! Where the containers of a pod report what becomes of them.

use tokio::sync::watch;

use crate::status::{ContainerRun, PodRun};

/// The state of a pod, shared by its containers and the writer of its status.
#[derive(Debug)]
pub(crate) struct Board {
    run: watch::Sender<PodRun>,
}

/// A container's place on the board.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) init: bool,
    pub(crate) position: usize,
}

impl Board {
    pub(crate) fn new(run: PodRun) -> Self {
        Self { run: watch::Sender::new(run) }
    }

    pub(crate) fn read(&self) -> PodRun {
        self.run.borrow().clone()
    }

    /// Sees every change from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<PodRun> {
        self.run.subscribe()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut PodRun)) {
        self.run.send_modify(change);
    }

    pub(crate) fn update_container(&self, place: Place, change: impl FnOnce(&mut ContainerRun)) {
        self.update(|run| {
            let list = if place.init { &mut run.init } else { &mut run.main };
            if let Some(container) = list.get_mut(place.position) {
                change(container);
            }
        });
    }
}
