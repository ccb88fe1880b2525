//! Tells watchers that a table has something new.
//!
//! Tokio's own `watch` channel wakes its receivers in a random order; here whoever waits longest is woken first, so that a
//! simulated run can be repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// Rings with a version. Its listeners learn when it is dropped.
#[derive(Debug)]
pub(crate) struct Bell(Arc<State>);

#[derive(Debug)]
struct State {
    version: AtomicU64,
    gone: AtomicBool,
    rung: Notify,
}

/// Hears a [`Bell`].
#[derive(Debug)]
pub(crate) struct Listener {
    state: Arc<State>,
    heard: u64,
}

/// The bell is gone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gone;

impl Bell {
    pub(crate) fn new(version: u64) -> Self {
        let (version, gone, rung) = (AtomicU64::new(version), AtomicBool::new(false), Notify::new());
        Self(Arc::new(State { version, gone, rung }))
    }

    pub(crate) fn ring(&self, version: u64) {
        self.0.version.store(version, Ordering::Release);
        self.0.rung.notify_waiters();
    }

    /// Hears everything from now on.
    pub(crate) fn listen(&self) -> Listener {
        Listener { state: Arc::clone(&self.0), heard: self.0.version.load(Ordering::Acquire) }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.gone.store(true, Ordering::Release);
        self.0.rung.notify_waiters();
    }
}

impl Listener {
    /// What rang until now counts as heard.
    pub(crate) fn catch_up(&mut self) {
        self.heard = self.state.version.load(Ordering::Acquire);
    }

    /// Waits for a ring that was not heard yet. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<(), Gone> {
        loop {
            let mut rung = std::pin::pin!(self.state.rung.notified());
            // From here on no ring is missed, so the state may be looked at.
            rung.as_mut().enable();
            if self.state.gone.load(Ordering::Acquire) {
                return Err(Gone);
            }
            let version = self.state.version.load(Ordering::Acquire);
            if version != self.heard {
                self.heard = version;
                return Ok(());
            }
            rung.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn a_ring_between_two_looks_is_not_missed_and_the_end_is_heard() {
        let bell = Bell::new(1);
        let mut listener = bell.listen();
        bell.ring(2);
        bell.ring(3);
        assert_eq!(listener.next().await, Ok(()), "both at once");
        bell.ring(4);
        listener.catch_up();
        drop(bell);
        assert_eq!(listener.next().await, Err(Gone));
    }

    #[tokio::test]
    async fn listeners_are_woken_in_the_order_in_which_they_wait() {
        let bell = Bell::new(0);
        let order = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..20)
            .map(|number| {
                let (mut listener, order) = (bell.listen(), Arc::clone(&order));
                tokio::spawn(async move {
                    listener.next().await.unwrap();
                    order.lock().unwrap().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        bell.ring(1);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }
}
