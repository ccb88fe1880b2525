//! Labels.

/// On a mirror: the identity of the management cluster that it came from. Our watches on workers select by it.
pub const ORIGIN: &str = "jobferry.dev/origin";
/// On a mirror's pods: the UID of the user's workload. Pods prove that a mirror existed, even when it is gone.
pub const ORIGIN_UID: &str = "jobferry.dev/origin-uid";
/// On the user's workload: the worker that it was placed on, for `kubectl get jobs -L jobferry.dev/worker`.
pub const WORKER: &str = "jobferry.dev/worker";
/// By an admin on a namespace, or by a user on a workload: the name of the DispatchPolicy to follow. A workload's choice
/// counts only if that policy is open to its namespace.
pub const POLICY: &str = "jobferry.dev/policy";
/// By a user on a workload of a kind whose admission does not let our value of managedBy pass, or that has no such field:
/// `true` hands it to the dispatcher. See the WorkloadKind's `managedBy`.
pub const DISPATCH: &str = "jobferry.dev/dispatch";
/// Every label and annotation of ours starts so.
pub const PREFIX: &str = "jobferry.dev/";
