//! Creates of unknown outcome, of workloads of which nothing else is known: deleted, say, before their mirror was seen. When a
//! mirror shows up after all, the name that it holds still guards against such a create.

use std::{collections::HashMap, time::Duration};

use jobferry_core::time::QUARANTINE;

use super::Uid;

#[derive(Debug, Default)]
pub(super) struct Doubts(HashMap<Uid, Duration>);

impl Doubts {
    /// A create was sent at this (monotonic) time. Those that cannot land any more are forgotten.
    pub(super) fn keep(&mut self, uid: &str, sent: Duration) {
        self.0.retain(|_, before| *before + QUARANTINE > sent);
        self.0.insert(uid.to_owned(), sent);
    }

    pub(super) fn take(&mut self, uid: &str) -> Option<Duration> {
        self.0.remove(uid)
    }
}
