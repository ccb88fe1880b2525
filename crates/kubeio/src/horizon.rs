//! How far a server is known to have come.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The highest resourceVersion that a server has shown, shared by all who talk to it. A watch that was silent has seen less of
/// it than the answers to requests did: a server that is behind those was restored from a backup.
#[derive(Debug, Clone, Default)]
pub struct Horizon(Arc<AtomicU64>);

impl Horizon {
    /// An answer had this resourceVersion.
    pub fn show(&self, version: &str) {
        if let Ok(version) = version.parse() {
            self.0.fetch_max(version, Ordering::Relaxed);
        }
    }

    /// How far it is now.
    pub(crate) fn reached(&self) -> Reached {
        Reached(self.0.load(Ordering::Relaxed))
    }
}

/// A horizon at one moment.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
pub(crate) struct Reached(u64);

impl Reached {
    /// Whether a server that is at `current` was further before.
    pub(crate) fn is_beyond(self, current: &str) -> bool {
        current.parse::<u64>().is_ok_and(|current| current < self.0)
    }
}
