//! Annotations.

/// On a mirror: the UID of the user's workload.
pub const ORIGIN_UID: &str = "jobferry.dev/origin-uid";
/// On a mirror: the placement that it belongs to; an older one is stale.
pub const EPOCH: &str = "jobferry.dev/epoch";
/// On a mirror: the resourceVersion that the manager had when the mirror was made. A manager whose resourceVersion is
/// lower was restored from a backup and must not judge which mirrors are orphans.
pub const MANAGER_VERSION: &str = "jobferry.dev/manager-resource-version";
/// On a mirror: what of the user's Job was last forwarded to it.
pub const FORWARDED: &str = "jobferry.dev/forwarded";
/// By the user, on a workload: only these workers, by name, separated by commas.
pub const WORKERS: &str = "jobferry.dev/workers";
/// By the user, on a workload: only workers whose labels match this selector.
pub const WORKER_SELECTOR: &str = "jobferry.dev/worker-selector";
