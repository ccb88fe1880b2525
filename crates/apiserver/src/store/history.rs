//! The ring of recent changes of one table.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Expired, Key, Stored};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Created,
    Updated,
    Deleted,
}

/// One committed write. A deletion carries the final state, stamped with the version of the deletion.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) kind: ChangeKind,
    pub(crate) object: Arc<Stored>,
    pub(crate) previous: Option<Arc<Stored>>,
}

/// A piece of history for a watcher.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) list: Vec<Change>,
    /// Everything of this table up to here is in `list` or was seen before: the next cursor, and a safe bookmark.
    pub(crate) reached: u64,
}

pub(super) struct History {
    changes: VecDeque<Change>,
    capacity: usize,
    /// Changes at or below this version may be missing.
    forgotten: u64,
}

impl History {
    pub(super) fn new(capacity: usize, forgotten: u64) -> Self {
        Self { changes: VecDeque::new(), capacity: capacity.max(1), forgotten }
    }

    pub(super) fn push(&mut self, change: Change) {
        if self.changes.len() == self.capacity
            && let Some(oldest) = self.changes.pop_front()
        {
            self.forgotten = oldest.object.version;
        }
        self.changes.push_back(change);
    }

    pub(super) fn last_version(&self) -> u64 {
        self.changes.back().map_or(self.forgotten, |change| change.object.version)
    }

    pub(super) fn after(&self, cursor: u64, visible: u64, limit: usize) -> Result<Changes, Expired> {
        if cursor < self.forgotten {
            return Err(Expired(self.forgotten));
        }
        let begin = self.changes.partition_point(|change| change.object.version <= cursor);
        let end = self.changes.partition_point(|change| change.object.version <= visible);
        let list: Vec<Change> = self.changes.range(begin..end.max(begin)).take(limit).cloned().collect();
        let reached = match list.last() {
            Some(change) if list.len() == limit => change.object.version,
            _ => visible.max(cursor),
        };
        Ok(Changes { list, reached })
    }

    /// Undoes the changes after `version` on `current`; the result is ordered by key.
    pub(super) fn rewind(&self, current: Vec<Arc<Stored>>, version: u64) -> Result<Vec<Arc<Stored>>, Expired> {
        if version < self.forgotten {
            return Err(Expired(self.forgotten));
        }
        let mut objects: BTreeMap<Key, Arc<Stored>> =
            current.into_iter().map(|stored| (stored.key.clone(), stored)).collect();
        for change in self.changes.iter().rev().take_while(|change| change.object.version > version) {
            match &change.previous {
                Some(previous) => objects.insert(previous.key.clone(), Arc::clone(previous)),
                None => objects.remove(&change.object.key),
            };
        }
        Ok(objects.into_values().collect())
    }
}
