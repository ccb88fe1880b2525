//! Time as decisions see it.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// A moment, by two clocks. People and objects use the wall clock, which may jump; waiting uses the monotonic one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Wall-clock time, for what is written into objects.
    pub wall: Timestamp,
    /// Time since this process started, for everything that must have passed.
    pub monotonic: Duration,
}

impl Now {
    /// How long ago `earlier` (monotonic) was; zero if it lies ahead.
    pub const fn since(self, earlier: Duration) -> Duration {
        self.monotonic.saturating_sub(earlier)
    }
}

/// The deadline of one write. Long enough for a busy API server with webhooks.
pub const WRITE_DEADLINE: Duration = Duration::from_secs(10);

/// A mirror's create is sent only this soon after its placement was sent to the manager, which has acknowledged it; later the
/// placement is recorded anew first, which is cheap.
pub const CREATE_WINDOW: Duration = Duration::from_secs(10);

/// QUARANTINE, the D of the protocol: after this time no create of a placement can surface any more. It was sent within
/// [`CREATE_WINDOW`], we gave up on it after [`WRITE_DEADLINE`], and an API server gives up on a request whose client has
/// gone after 60 s; five more because records carry whole seconds. Nothing is moved before it is over.
pub const QUARANTINE: Duration = Duration::from_secs(85);

const _: () = assert!(CREATE_WINDOW.as_secs() + WRITE_DEADLINE.as_secs() + 60 + 5 <= QUARANTINE.as_secs());

/// After the first status change of a workload, which is written at once, changes are gathered for this long. People do
/// not read faster, and a Job with a thousand pods would otherwise cost a thousand writes.
pub const STATUS_INTERVAL: Duration = Duration::from_millis(200);

/// When a record that was not kept is written anew: somebody's admission takes it off, and goes on doing so, or another dispatcher
/// sees what we know to be gone.
pub const RECORD_AGAIN: Duration = Duration::from_secs(30);

/// How often the reason for waiting may be rewritten on one workload. One flapping worker must not rewrite ten thousand.
pub const WAITING_INTERVAL: Duration = Duration::from_secs(60);

/// Mirrors whose workload this process never saw are deleted in batches, one in this time: a mistake must not be able to
/// sweep a worker empty before somebody notices.
pub const ORPHAN_PAUSE: Duration = Duration::from_secs(60);

/// How many of them make a batch.
pub const ORPHAN_BATCH: usize = 100;

/// A worker counts as lost only if this process itself could not reach it for so long: a recorded time alone may be from
/// before a restart of ours.
pub const LOSS_NOTICED: Duration = Duration::from_secs(60);
