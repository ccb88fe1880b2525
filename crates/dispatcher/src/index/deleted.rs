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
        if self.uids.remove(uid) {
            // If it is deleted once more, its time begins anew.
            self.order.retain(|other| other != uid);
        }
    }

    pub(super) fn contains(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_was_forgotten_and_deleted_again_is_remembered_as_long_as_any_other() {
        let mut deleted = Deleted::default();
        let fill = |deleted: &mut Deleted, numbers: std::ops::Range<usize>| {
            numbers.for_each(|number| deleted.add(&format!("other-{number}")));
        };
        deleted.add("again");
        deleted.forget("again");
        fill(&mut deleted, 0..REMEMBERED - 1);
        deleted.add("again");
        assert!(deleted.contains("other-0"), "what was forgotten takes nobody's place");
        fill(&mut deleted, REMEMBERED..2 * REMEMBERED - 1);
        assert!(deleted.contains("again"));
        deleted.add("one too many");
        assert!(!deleted.contains("again"));
    }
}
