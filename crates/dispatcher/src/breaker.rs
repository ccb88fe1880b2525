//! A worker that takes connections and does not answer would hold every request for its whole deadline. After a few in a
//! row nothing is sent to it for a while; then one request is let through to see how it is.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jobferry_kubeio::Backoff;
use tokio::{sync::Notify, time::Instant};

/// So many unanswered requests in a row.
const PATIENCE: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// What a worker made of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It said something, even if that was no.
    Answered,
    /// It did not, or only that it cannot.
    Unanswered,
}

#[derive(Debug)]
pub(crate) struct Breaker {
    state: Mutex<State>,
    closed: Notify,
}

#[derive(Debug)]
struct State {
    unanswered: u32,
    /// Open: nothing is sent until then.
    open_until: Option<Instant>,
    pauses: Backoff,
}

impl Breaker {
    pub(crate) fn new(seed: u64) -> Self {
        let state = State { unanswered: 0, open_until: None, pauses: Backoff::new(FIRST_PAUSE, LAST_PAUSE, seed) };
        Self { state: Mutex::new(state), closed: Notify::new() }
    }

    /// Waits until a request may be sent.
    pub(crate) async fn pass(&self) {
        loop {
            let closed = self.closed.notified();
            let until = {
                let mut state = self.lock();
                match state.open_until {
                    None => return,
                    Some(until) if until <= Instant::now() => {
                        // This one finds out; the others wait for what it finds.
                        state.open_until = Some(Instant::now() + state.pauses.next_delay());
                        return;
                    }
                    Some(until) => until,
                }
            };
            tokio::select! { biased;
                () = closed => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// What came of a request. Returns whether that changed something: see [`Breaker::is_open`].
    pub(crate) fn learn(&self, outcome: Outcome) -> bool {
        let mut state = self.lock();
        match outcome {
            Outcome::Answered => {
                state.unanswered = 0;
                let was_open = state.open_until.take().is_some();
                if was_open {
                    state.pauses.reset();
                    self.closed.notify_waiters();
                }
                was_open
            }
            Outcome::Unanswered => {
                state.unanswered += 1;
                if state.unanswered < PATIENCE || state.open_until.is_some() {
                    return false;
                }
                state.open_until = Some(Instant::now() + state.pauses.next_delay());
                true
            }
        }
    }

    /// Whether requests are held back.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().open_until.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; if it did, every change is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn passes(breaker: &Breaker) -> bool {
        tokio::time::timeout(Duration::from_millis(1), breaker.pass()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_few_unanswered_requests_only_one_is_let_through_now_and_then() {
        let breaker = Breaker::new(1);
        for _ in 1..PATIENCE {
            assert!(!breaker.learn(Outcome::Unanswered) && !breaker.is_open());
            assert!(passes(&breaker).await);
        }
        assert!(breaker.learn(Outcome::Unanswered) && breaker.is_open());
        assert!(!passes(&breaker).await);
        breaker.pass().await;
        assert!(!passes(&breaker).await, "one is enough to see how it is");
        assert!(!breaker.learn(Outcome::Unanswered) && breaker.is_open());
        breaker.pass().await;
        assert!(breaker.learn(Outcome::Answered) && !breaker.is_open());
        assert!(passes(&breaker).await && passes(&breaker).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_in_between_is_enough_to_go_on() {
        let breaker = Breaker::new(1);
        for _ in 0..3 * PATIENCE {
            breaker.learn(Outcome::Unanswered);
            breaker.learn(Outcome::Answered);
        }
        assert!(passes(&breaker).await);
    }
}
