//! Time as the controllers see it.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;

/// Tells the time of day. Injected, so that a simulation can run a week in a second.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The clock of this machine.
#[allow(clippy::disallowed_methods, reason = "the rim where the real clock enters")]
pub fn system_clock() -> Clock {
    Arc::new(Timestamp::now)
}

/// How long until `at`; nothing if that is over.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}
