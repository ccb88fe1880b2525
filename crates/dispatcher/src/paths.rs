//! Paths of the objects that we read and write.

use jobferry_core::custom::FIELD_MANAGER;

/// The same path, for a write: the API server notes what we write as ours, whatever our client calls itself.
pub(crate) fn by_us(path: &str) -> String {
    format!("{path}?fieldManager={FIELD_MANAGER}")
}

pub(crate) fn jobs(namespace: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/jobs")
}

pub(crate) fn job(namespace: &str, name: &str) -> String {
    format!("{}/{name}", jobs(namespace))
}

pub(crate) const POLICIES: &str = "/apis/jobferry.dev/v1alpha1/dispatchpolicies";
pub(crate) const WORKLOAD_KINDS: &str = "/apis/jobferry.dev/v1alpha1/workloadkinds";
pub(crate) const WORKERS: &str = "/apis/jobferry.dev/v1alpha1/workers";

pub(crate) fn worker(name: &str) -> String {
    format!("{WORKERS}/{name}")
}

pub(crate) fn worker_status(name: &str) -> String {
    format!("{}/status", worker(name))
}
