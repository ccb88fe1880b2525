//! Events are news, not state: an hour after its last write an event is gone, as upstream.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::registry::Resource;
use crate::server::Inner;
use crate::store::Key;

/// How long an event is kept.
const LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// Written events in the order of their writes. One that was written again has a later entry.
#[derive(Default)]
pub(crate) struct Expiry(Mutex<VecDeque<Entry>>);

struct Entry {
    written: Timestamp,
    key: Key,
    version: u64,
}

impl Expiry {
    /// Notes a write and returns what has had its time, as (key, version at that time).
    fn note(&self, now: Timestamp, key: Key, version: u64) -> Vec<(Key, u64)> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push_back(Entry { written: now, key, version });
        let mut over = Vec::new();
        while entries.front().is_some_and(|entry| now.duration_since(entry.written) > LIFETIME) {
            over.extend(entries.pop_front().map(|entry| (entry.key, entry.version)));
        }
        over
    }
}

impl Inner {
    /// Called after an event was written: the old ones make room. A cluster without news keeps its last ones.
    pub(crate) fn expire_events(&self, resource: &Resource, key: &Key) {
        let Some(stored) = self.store.get(&resource.table, key) else { return };
        for (key, version) in self.expiry.note(self.now(), key.clone(), stored.version) {
            let is_unchanged = self.store.get(&resource.table, &key).is_some_and(|stored| stored.version == version);
            if is_unchanged {
                self.remove_silently(resource, &key);
            }
        }
    }
}
