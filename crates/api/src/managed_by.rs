//! Values of `spec.managedBy`.

/// The dispatcher runs the workload on a worker.
pub const DISPATCHER: &str = "jobferry.dev/dispatcher";
/// Our own Job controller runs it in the cluster where it was submitted.
pub const LOCAL: &str = "jobferry.dev/local";
/// Nobody runs it: a suspended Job of ours that shows whether this cluster leaves delegated Jobs alone.
pub const CANARY: &str = "jobferry.dev/canary";
/// Kueue's own, and the only value beside their operators' that some kinds accept. With the label
/// `jobferry.dev/dispatch: "true"` it means the dispatcher.
pub const MULTIKUEUE: &str = "kueue.x-k8s.io/multikueue";
