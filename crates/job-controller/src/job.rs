//! A Job as this controller sees it: what decisions read, and the pod template untouched.

use std::sync::Arc;

use job_api::SpecView;
use k8s_openapi::{
    api::batch::v1::{JobStatus, PodFailurePolicy, SuccessPolicy},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, Time},
};
use serde::Deserialize;
use serde_json::Value;

use crate::names;

/// A Job, decoded from the API server's JSON.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "wire::Job")]
pub struct JobView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its identity; a Job created again under the same name has another.
    pub uid: String,
    /// The version that a status write is based on.
    pub resource_version: String,
    /// Someone asked for its deletion; only finalizers hold it.
    pub deleting: bool,
    /// What is wanted.
    pub spec: Spec,
    /// What is recorded.
    pub status: JobStatus,
    /// The pod template as raw JSON, so that fields of newer servers reach the pods.
    pub template: Arc<Value>,
}

/// The part of `spec` that decides, with the API server's defaults in place.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each flag is a field of the API of its own")]
pub struct Spec {
    /// Which controller owns this Job; absent for the cluster's own.
    pub managed_by: Option<String>,
    /// Which pods belong to it; the API server makes one up for most Jobs.
    pub selector: Option<LabelSelector>,
    /// The user chose the selector, so that pods of other origin may match.
    pub manual_selector: bool,
    /// Whether each success belongs to an index.
    pub indexed: bool,
    /// How many successes make it complete; absent for a work queue, where the pods know.
    pub completions: Option<u32>,
    /// How many pods may be active at once.
    pub parallelism: u32,
    /// No pods while this is set.
    pub suspend: bool,
    /// How many failed pods are tolerated.
    pub backoff_limit: u32,
    /// How many failed pods each index is granted on its own.
    pub backoff_limit_per_index: Option<u32>,
    /// How many failed indexes are tolerated.
    pub max_failed_indexes: Option<u32>,
    /// Seconds from the start until the Job fails.
    pub active_deadline_seconds: Option<i64>,
    /// What a failed pod means, by exit code and pod condition.
    pub pod_failure_policy: Option<PodFailurePolicy>,
    /// Which indexes suffice.
    pub success_policy: Option<SuccessPolicy>,
    /// A terminating pod is replaced only when it has really ended.
    pub replace_only_failed: bool,
    /// Containers restart in place (`restartPolicy: OnFailure`).
    pub restarts_in_place: bool,
    /// Seconds after the end until the Job is deleted.
    pub ttl_seconds_after_finished: Option<i64>,
}

impl JobView {
    /// The finalizer on this Job's pods.
    pub fn finalizer(&self) -> &'static str {
        names::tracking_finalizer(self.spec.managed_by.as_deref())
    }

    /// What the API server judges a status of this Job by.
    pub fn spec_view(&self) -> SpecView {
        let wire = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        SpecView {
            completions: self.spec.completions.map(wire),
            parallelism: Some(wire(self.spec.parallelism)),
            indexed: self.spec.indexed,
            suspended: self.spec.suspend,
            has_backoff_limit_per_index: self.spec.backoff_limit_per_index.is_some(),
            has_success_policy: self.spec.success_policy.is_some(),
            active_deadline_seconds: self.spec.active_deadline_seconds,
        }
    }

    /// The number of indexes of an Indexed Job; none for others.
    pub(crate) fn indexes(&self) -> Option<u32> {
        if self.spec.indexed { self.spec.completions } else { None }
    }

    /// An Indexed Job whose width follows its parallelism may shrink, and its counters with it.
    pub(crate) fn elastic(&self) -> bool {
        self.spec.indexed && self.spec.completions == Some(self.spec.parallelism)
    }
}

/// A count that the API server keeps non-negative.
pub(crate) fn count(value: Option<i32>) -> u32 {
    value.map_or(0, |v| u32::try_from(v).unwrap_or(0))
}

/// A count for the wire.
pub(crate) fn wire_count(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// The shape of the JSON.
mod wire {
    use super::{
        Arc, Deserialize, JobStatus, LabelSelector, PodFailurePolicy, Spec, SuccessPolicy, Time, Value, count,
    };

    #[derive(Deserialize)]
    pub(super) struct Job {
        metadata: Meta,
        spec: JobSpec,
        #[serde(default)]
        status: JobStatus,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        #[serde(default)]
        namespace: String,
        name: String,
        uid: String,
        #[serde(default)]
        resource_version: String,
        deletion_timestamp: Option<Time>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct JobSpec {
        managed_by: Option<String>,
        selector: Option<LabelSelector>,
        manual_selector: Option<bool>,
        completion_mode: Option<String>,
        completions: Option<i32>,
        parallelism: Option<i32>,
        suspend: Option<bool>,
        backoff_limit: Option<i32>,
        backoff_limit_per_index: Option<i32>,
        max_failed_indexes: Option<i32>,
        active_deadline_seconds: Option<i64>,
        pod_failure_policy: Option<PodFailurePolicy>,
        success_policy: Option<SuccessPolicy>,
        pod_replacement_policy: Option<String>,
        ttl_seconds_after_finished: Option<i64>,
        #[serde(default)]
        template: Arc<Value>,
    }

    impl From<Job> for super::JobView {
        fn from(job: Job) -> Self {
            let Job { metadata, spec, status } = job;
            let restart_policy = spec.template.pointer("/spec/restartPolicy").and_then(Value::as_str);
            let decided = Spec {
                selector: spec.selector,
                manual_selector: spec.manual_selector.unwrap_or(false),
                indexed: spec.completion_mode.as_deref() == Some("Indexed"),
                completions: spec.completions.map(|c| count(Some(c))),
                parallelism: spec.parallelism.map_or(1, |p| count(Some(p))),
                suspend: spec.suspend.unwrap_or(false),
                backoff_limit: spec.backoff_limit.map_or(6, |b| count(Some(b))),
                backoff_limit_per_index: spec.backoff_limit_per_index.map(|b| count(Some(b))),
                max_failed_indexes: spec.max_failed_indexes.map(|m| count(Some(m))),
                active_deadline_seconds: spec.active_deadline_seconds,
                replace_only_failed: spec.pod_failure_policy.is_some()
                    || spec.pod_replacement_policy.as_deref() == Some("Failed"),
                pod_failure_policy: spec.pod_failure_policy,
                success_policy: spec.success_policy,
                restarts_in_place: restart_policy == Some("OnFailure"),
                ttl_seconds_after_finished: spec.ttl_seconds_after_finished,
                managed_by: spec.managed_by,
            };
            Self {
                namespace: metadata.namespace,
                name: metadata.name,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                deleting: metadata.deletion_timestamp.is_some(),
                spec: decided,
                status,
                template: spec.template,
            }
        }
    }
}
