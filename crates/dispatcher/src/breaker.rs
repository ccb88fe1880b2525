//! A worker that takes connections and does not answer would hold every request for its whole deadline. After a few in a
//! row nothing is sent to it for a while; then one request is let through to see how it is. Nothing is placed there meanwhile,
//! so there may be none: then it is asked a question of our own.

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
/// So long after a pause a question of our own waits for a request that is due anyway: that one tells more.
const PRECEDENCE: Duration = Duration::from_secs(1);

/// What a worker made of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It said something, even if that was no.
    Answered,
    /// It answered a question of our own. Whether it does what is asked of it is to be seen.
    Awake,
    /// It did not, or only that it cannot.
    Unanswered,
    /// Nothing was asked of it after all.
    Unasked,
}

#[derive(Debug)]
pub(crate) struct Breaker {
    state: Mutex<State>,
    opened: Notify,
    /// Somebody may be let through, who had to wait.
    freed: Notify,
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
        Self { state: Mutex::new(state), opened: Notify::new(), freed: Notify::new() }
    }

    /// Waits until a request may be sent.
    pub(crate) async fn pass(&self) {
        loop {
            let freed = self.freed.notified();
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
                () = freed => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Waits until nothing has been sent for too long, and nobody comes to find out how it is: whoever waits here must.
    pub(crate) async fn neglected(&self) {
        loop {
            let opened = self.opened.notified();
            let until = {
                let mut state = self.lock();
                match state.open_until.map(|until| until + PRECEDENCE) {
                    Some(until) if until <= Instant::now() => {
                        state.open_until = Some(Instant::now() + state.pauses.next_delay());
                        return;
                    }
                    until => until,
                }
            };
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => opened.await,
            }
        }
    }

    /// What came of a request. Returns whether that changed something: see [`Breaker::is_open`].
    pub(crate) fn learn(&self, outcome: Outcome) -> bool {
        let mut state = self.lock();
        match outcome {
            Outcome::Answered => {
                state.unanswered = 0;
                state.pauses.reset();
                self.close(&mut state)
            }
            Outcome::Awake if state.open_until.is_none() => false,
            Outcome::Awake => {
                // The first request that it leaves unanswered is one too many, and the next pause a longer one.
                state.unanswered = PATIENCE - 1;
                self.close(&mut state)
            }
            Outcome::Unanswered => {
                state.unanswered += 1;
                if state.unanswered < PATIENCE || state.open_until.is_some() {
                    return false;
                }
                state.open_until = Some(Instant::now() + state.pauses.next_delay());
                self.opened.notify_waiters();
                true
            }
            Outcome::Unasked => {
                // Whoever was let through has found out nothing: the next one shall.
                if state.open_until.is_some() {
                    state.open_until = Some(Instant::now());
                    self.freed.notify_waiters();
                }
                false
            }
        }
    }

    fn close(&self, state: &mut State) -> bool {
        let was_open = state.open_until.take().is_some();
        if was_open {
            self.freed.notify_waiters();
        }
        was_open
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

    fn open(breaker: &Breaker) {
        for _ in 0..PATIENCE {
            breaker.learn(Outcome::Unanswered);
        }
        assert!(breaker.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_of_which_nothing_is_wanted_any_more_is_asked_how_it_is_within_half_a_minute() {
        let breaker = Breaker::new(1);
        open(&breaker);
        for _ in 0..10 {
            let asked = tokio::time::timeout(LAST_PAUSE + PRECEDENCE, breaker.neglected()).await;
            assert!(asked.is_ok() && !breaker.learn(Outcome::Unanswered) && breaker.is_open());
        }
        breaker.neglected().await;
        assert!(breaker.learn(Outcome::Awake) && !breaker.is_open());
        assert!(tokio::time::timeout(10 * LAST_PAUSE, breaker.neglected()).await.is_err(), "all is well");
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_not_asked_how_it_is_while_requests_find_that_out() {
        let breaker = Breaker::new(1);
        open(&breaker);
        let requests = async {
            for _ in 0..20 {
                breaker.pass().await;
                breaker.learn(Outcome::Unanswered);
            }
        };
        tokio::select! { biased;
            () = breaker.neglected() => panic!("a request was about to be sent"),
            () = requests => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_turn_out_to_want_nothing_do_not_hold_up_the_one_who_does() {
        let breaker = Breaker::new(1);
        open(&breaker);
        for _ in 0..10 {
            breaker.pass().await;
            assert!(!breaker.learn(Outcome::Unanswered));
        }
        let turns = (0..64).map(|_| async {
            breaker.pass().await;
            breaker.learn(Outcome::Unasked);
        });
        let all = tokio::time::timeout(LAST_PAUSE, futures::future::join_all(turns)).await;
        assert!(all.is_ok() && breaker.is_open());
        assert!(passes(&breaker).await, "nobody has asked yet how it is");
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_only_says_that_it_is_there_has_no_more_credit() {
        let breaker = Breaker::new(1);
        open(&breaker);
        breaker.neglected().await;
        breaker.learn(Outcome::Awake);
        assert!(breaker.learn(Outcome::Unanswered) && breaker.is_open());
        breaker.pass().await;
        breaker.learn(Outcome::Answered);
        assert!(!breaker.learn(Outcome::Unanswered) && !breaker.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_watches_over_a_worker_hears_when_it_stops_answering() {
        let breaker = Breaker::new(1);
        let stops = async {
            tokio::time::sleep(LAST_PAUSE).await;
            open(&breaker);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = breaker.neglected() => {}
            () = stops => {}
            () = tokio::time::sleep(3 * LAST_PAUSE) => panic!("nobody asked"),
        }
    }
}
