//! What happened, in order: every request and its outcome, every fault, every start and end of a pod.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::dice::{fnv, fnv_on};

/// The event log of one run. The same seed gives the same log, byte for byte. Clones write to the same log.
#[derive(Clone)]
pub(crate) struct Log {
    started: Instant,
    state: Arc<Mutex<State>>,
}

struct State {
    lines: VecDeque<String>,
    keep: usize,
    count: u64,
    digest: u64,
}

impl Log {
    /// An empty log that keeps the last `keep` lines; the digest covers all of them.
    pub(crate) fn new(keep: usize) -> Self {
        let state = State { lines: VecDeque::new(), keep, count: 0, digest: fnv(b"") };
        Self { started: Instant::now(), state: Arc::new(Mutex::new(state)) }
    }

    /// Adds a line with the time.
    pub(crate) fn say(&self, what: fmt::Arguments<'_>) {
        let line = format!("{:>10.3}s {what}", self.started.elapsed().as_secs_f64());
        let mut state = self.lock();
        state.digest = fnv_on(state.digest, line.as_bytes());
        state.count += 1;
        if state.lines.len() >= state.keep {
            state.lines.pop_front();
        }
        state.lines.push_back(line);
    }

    /// The last `number` lines that contain one of these words.
    pub(crate) fn about(&self, words: &[String], number: usize) -> Vec<String> {
        let state = self.lock();
        let relevant = |line: &&String| words.iter().any(|word| line.contains(word.as_str()));
        let mut lines: Vec<String> = state.lines.iter().rev().filter(relevant).take(number).cloned().collect();
        lines.reverse();
        lines
    }

    /// All lines that were kept.
    pub(crate) fn text(&self) -> String {
        let state = self.lock();
        state.lines.iter().fold(String::new(), |text, line| text + line + "\n")
    }

    /// How many lines there were, and a digest of all of them.
    pub(crate) fn digest(&self) -> (u64, u64) {
        let state = self.lock();
        (state.count, state.digest)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
