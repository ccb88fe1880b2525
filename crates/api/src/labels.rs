//! Labels.

/// On a mirror: the identity of the management cluster that it came from. Our watches on workers select by it.
pub const ORIGIN: &str = "jobferry.dev/origin";
/// On a mirror's pods: the UID of the user's workload. Pods prove that a mirror existed, even when it is gone.
pub const ORIGIN_UID: &str = "jobferry.dev/origin-uid";
/// On the user's workload: the worker that it was placed on, for `kubectl get jobs -L jobferry.dev/worker`.
pub const WORKER: &str = "jobferry.dev/worker";
/// Every label and annotation of ours starts so.
pub const PREFIX: &str = "jobferry.dev/";
