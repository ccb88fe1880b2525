//! Names of metrics, their labels, and the values that labels take. Alert rules and dashboards depend on them.
//!
//! Names of counters are given without the suffix `_total`, which the exposition adds.

/// 1 while this process leads, 0 while it stands by.
pub const LEADER: &str = "jobferry_leader";
/// 1 while no new work is placed: this cluster does not leave delegated Jobs alone, or it was restored from a backup.
pub const HALTED: &str = "jobferry_halted";
/// Workloads that no worker fits now.
pub const WAITING: &str = "jobferry_workloads_waiting";
/// Keys that wait in a lane's queue.
pub const QUEUE_DEPTH: &str = "jobferry_queue_depth";
/// How long a workload took from one stage to the next.
pub const STAGE_DURATION: &str = "jobferry_stage_duration_seconds";
/// How long it took to copy a change of a mirror's status, after it was seen.
pub const STATUS_LAG: &str = "jobferry_status_lag_seconds";
/// Placements that were recorded.
pub const PLACEMENTS: &str = "jobferry_placements";
/// Mirrors that a worker refused.
pub const REFUSALS: &str = "jobferry_refusals";
/// Writes to the management cluster that failed.
pub const MANAGER_WRITES_FAILED: &str = "jobferry_manager_writes_failed";
/// Writes to workers that failed.
pub const WORKER_WRITES_FAILED: &str = "jobferry_worker_writes_failed";
/// Mirrors that were deleted because their workload is gone.
pub const ORPHANS_DELETED: &str = "jobferry_orphans_deleted";
/// Things that should never be.
pub const ALARMS: &str = "jobferry_alarms";
/// Events that were not told because too much was to be told.
pub const EVENTS_DROPPED: &str = "jobferry_events_dropped";
/// 1 while the dispatcher is connected to a worker.
pub const WORKER_UP: &str = "jobferry_worker_up";
/// 1 while a worker is cordoned.
pub const WORKER_CORDONED: &str = "jobferry_worker_cordoned";
/// Unfinished workloads that are placed on a worker.
pub const WORKER_UNFINISHED: &str = "jobferry_worker_unfinished";
/// Creates whose outcome a worker has not told yet.
pub const WORKER_UNACKNOWLEDGED: &str = "jobferry_worker_unacknowledged";
/// Connections that were made to a worker.
pub const WORKER_CONNECTIONS: &str = "jobferry_worker_connections";
/// When the credential of a worker expires, in seconds since 1970; absent where that is not known.
pub const WORKER_CREDENTIAL_EXPIRY: &str = "jobferry_worker_credential_expiry_timestamp_seconds";

/// Values of the label `stage`.
pub mod stages {
    /// From the first sight of a workload to its recorded placement.
    pub const PLACED: &str = "placed";
    /// From the recorded placement to the mirror.
    pub const MIRRORED: &str = "mirrored";
}

/// Values of the label `outcome` of failed writes.
pub mod outcomes {
    /// Somebody else wrote in between.
    pub const CONFLICT: &str = "conflict";
    /// The server says that what we wrote is illegal (422).
    pub const INVALID: &str = "invalid";
    /// The server refused for another reason.
    pub const REFUSED: &str = "refused";
    /// No answer: it may have been carried out.
    pub const UNKNOWN: &str = "unknown";
}
