//! Names on the wire that a Job controller and its pods share with the rest of Kubernetes.

use job_api::managed_by::ManagedBy;

/// Annotation and label of a pod of an Indexed Job: which index it works on.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Annotation: how many counted failures this index had before this pod.
pub const INDEX_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";
/// Annotation: how many failures of this index a pod failure policy ignored before this pod.
pub const INDEX_IGNORED_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// Environment variable that carries the index into the containers.
pub const COMPLETION_INDEX_ENV: &str = "JOB_COMPLETION_INDEX";

/// Finalizer on the pods of Jobs that the cluster's own Job controller would run. Where this controller stands in its
/// place (an embedded cluster), pods look exactly as they do everywhere else.
pub const STANDARD_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Finalizer on the pods of delegated Jobs (`spec.managedBy`). It must differ from the standard one: the built-in
/// controller removes that from pods whose Job is gone, and Kubernetes asks external controllers not to use it.
pub const DELEGATED_FINALIZER: &str = "jobferry.dev/job-tracking";

/// The finalizer that protects the pods of a Job until they are counted.
pub fn tracking_finalizer(managed_by: Option<&str>) -> &'static str {
    match ManagedBy::of(managed_by) {
        ManagedBy::Standard => STANDARD_FINALIZER,
        ManagedBy::Delegated(_) => DELEGATED_FINALIZER,
    }
}
