//! A server that stands still: connections stay open, nobody answers. So does a stopped process, or one whose machine
//! has no time for it.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Holds requests and watches up while the server is frozen. They go on in the order in which they came, so that a
/// simulated run can be repeated.
#[derive(Debug, Default)]
pub(crate) struct Freeze {
    frozen: AtomicBool,
    thawed: Notify,
}

impl Freeze {
    pub(crate) fn begin(&self) {
        self.frozen.store(true, Ordering::Release);
    }

    pub(crate) fn end(&self) {
        self.frozen.store(false, Ordering::Release);
        self.thawed.notify_waiters();
    }

    /// Waits until the server is not frozen. Cancel-safe.
    pub(crate) async fn over(&self) {
        while self.frozen.load(Ordering::Acquire) {
            let mut thawed = pin!(self.thawed.notified());
            // From here on no thaw is missed, so the state may be looked at again.
            thawed.as_mut().enable();
            if self.frozen.load(Ordering::Acquire) {
                thawed.await;
            }
        }
    }
}
