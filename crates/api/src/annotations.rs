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
/// On a user's workload of a kind other than Job: the placement record, for the dispatcher. Jobs have it in their status.
pub const PLACEMENT: &str = "jobferry.dev/placement";
/// On a user's workload of a kind other than Job: whether it is placed, and why not, for people.
pub const PLACED: &str = "jobferry.dev/placed";
/// On a user's workload of a kind other than Job: the worker, and the fields of the status that name something there: pods,
/// addresses, identifiers that mean nothing on the manager.
pub const WORKER_REFERENCES: &str = "jobferry.dev/worker-references";
/// By the user, on a workload: only these workers, by name, separated by commas.
pub const WORKERS: &str = "jobferry.dev/workers";
/// By the user, on a workload: only workers whose labels match this selector.
pub const WORKER_SELECTOR: &str = "jobferry.dev/worker-selector";
