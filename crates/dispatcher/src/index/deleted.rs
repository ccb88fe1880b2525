//! UIDs that the manager deleted lately: an answer that comes after the watch must not bring them back.

use std::collections::{HashSet, VecDeque};

use super::Uid;

/// How many are remembered. An answer can be overtaken by the watch for seconds, not for longer.
const REMEMBERED: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Deleted {
    order: VecDeque<Uid>,
    uids: HashSet<Uid>,
}

impl Deleted {
    pub(super) fn add(&mut self, uid: &str) {
        if !self.uids.insert(uid.to_owned()) {
            return;
        }
        self.order.push_back(uid.to_owned());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    /// A list shows it again: the manager was restored.
    pub(super) fn forget(&mut self, uid: &str) {
        self.uids.remove(uid);
    }

    pub(super) fn contains(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }
}
