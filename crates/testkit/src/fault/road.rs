//! The road between a client and a server, which may be closed.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Which directions are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    /// Requests arrive.
    pub there: bool,
    /// Answers and events of watches arrive.
    pub back: bool,
}

impl Passage {
    /// Both directions.
    pub const OPEN: Self = Self { there: true, back: true };
}

/// A road. Clones are the same road. Whoever waits longest passes first when it is opened, so that a run can be repeated
/// (tokio's `watch` channel would wake them in a random order).
#[derive(Debug, Clone)]
pub struct Road(Arc<State>);

#[derive(Debug)]
struct State {
    passage: Mutex<Passage>,
    changed: Notify,
}

impl Road {
    /// A road in this state.
    pub fn new(passage: Passage) -> Self {
        Self(Arc::new(State { passage: Mutex::new(passage), changed: Notify::new() }))
    }

    /// Opens or closes directions.
    pub fn set(&self, passage: Passage) {
        *self.0.passage.lock().unwrap_or_else(PoisonError::into_inner) = passage;
        self.0.changed.notify_waiters();
    }

    /// Waits until `enough` is open.
    pub async fn until(&self, enough: impl Fn(Passage) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if enough(*self.0.passage.lock().unwrap_or_else(PoisonError::into_inner)) {
                return;
            }
            changed.await;
        }
    }
}
