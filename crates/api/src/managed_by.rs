//! Values of `spec.managedBy`.

/// The dispatcher runs the workload on a worker.
pub const DISPATCHER: &str = "jobferry.dev/dispatcher";
/// Our own Job controller runs it in the cluster where it was submitted.
pub const LOCAL: &str = "jobferry.dev/local";
