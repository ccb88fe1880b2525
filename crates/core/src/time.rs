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

/// QUARANTINE, the D of the protocol: how long a create that we sent may still surface. A create carries a deadline of
/// 10 s from our side, and an API server gives up on a request whose client has gone after 60 s; the rest is margin.
/// A mirror is created only within this time after its placement was acknowledged, and nothing is moved before it is over.
pub const QUARANTINE: Duration = Duration::from_secs(75);

/// The deadline of one write. Well inside [`QUARANTINE`], long enough for a busy API server with webhooks.
pub const WRITE_DEADLINE: Duration = Duration::from_secs(10);

/// After the first status change of a workload, which is written at once, changes are gathered for this long. People do
/// not read faster, and a Job with a thousand pods would otherwise cost a thousand writes.
pub const STATUS_INTERVAL: Duration = Duration::from_millis(200);

/// How often the reason for waiting may be rewritten on one workload. One flapping worker must not rewrite ten thousand.
pub const WAITING_INTERVAL: Duration = Duration::from_secs(60);

/// How long a worker that refused a workload is not asked again while another one may take it. Quotas, permissions and
/// namespaces are changed by people.
pub const REFUSAL_REMEMBERED: Duration = Duration::from_secs(600);

/// How long to wait before the same worker is asked again when no other one fits.
pub const REFUSAL_PAUSE: Duration = Duration::from_secs(15);
