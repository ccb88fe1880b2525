//! How many mirrors of unknown descent were given up for deletion lately.

use std::{collections::BTreeMap, time::Duration};

use jobferry_core::time::{Now, ORPHAN_BATCH, ORPHAN_PAUSE};

use super::Uid;

#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// By the UID of their workload: when (monotonic).
    lately: BTreeMap<Uid, Duration>,
}

impl Orphans {
    /// Whether the mirror of this workload may be deleted now.
    pub(super) fn may_delete(&mut self, uid: &str, now: Now) -> bool {
        self.lately.retain(|_, at| now.since(*at) < ORPHAN_PAUSE);
        let may = self.lately.contains_key(uid) || self.lately.len() < ORPHAN_BATCH;
        if may {
            self.lately.entry(uid.to_owned()).or_insert(now.monotonic);
        }
        may
    }
}
