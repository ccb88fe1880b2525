//! Jobs for scenarios.

use k8s_openapi::api::batch::v1::{Job, JobCondition};
use serde_json::{Value, json};

use crate::{EXIT_CODE, FAILING_INDEXES};

/// A Job that is written down step by step.
#[derive(Debug, Clone)]
pub struct JobManifest(Value);

impl JobManifest {
    /// A Job of one pod that succeeds at once, for the cluster's own controller.
    pub fn new(name: &str) -> Self {
        Self(json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "annotations": {}},
            "spec": {"template": {
                "metadata": {"annotations": {}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work", "command": ["true"]}]},
            }},
        }))
    }

    /// The same, for the dispatcher.
    pub fn delegated(name: &str) -> Self {
        Self::new(name).spec("managedBy", json!(jobferry_api::managed_by::DISPATCHER))
    }

    /// Sets a field of the spec.
    #[must_use]
    pub fn spec(mut self, field: &str, value: Value) -> Self {
        self.0["spec"][field] = value;
        self
    }

    /// Sets an annotation of the Job.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"][key] = json!(value);
        self
    }

    /// Its pods end with this code.
    #[must_use]
    pub fn exits(mut self, code: i32) -> Self {
        self.0["spec"]["template"]["metadata"]["annotations"][EXIT_CODE] = json!(code.to_string());
        self
    }

    /// The pods of these indexes fail.
    #[must_use]
    pub fn failing_indexes(mut self, indexes: &str) -> Self {
        self.0["spec"]["template"]["metadata"]["annotations"][FAILING_INDEXES] = json!(indexes);
        self
    }

    /// Its pods run until they are deleted.
    #[must_use]
    pub fn runs_for_ever(mut self) -> Self {
        self.0["spec"]["template"]["metadata"]["annotations"][crate::RUN_SECONDS] = json!("100000");
        self
    }

    /// The manifest.
    pub const fn manifest(&self) -> &Value {
        &self.0
    }
}

/// The condition of this type, if the Job has it.
pub fn condition<'a>(job: &'a Job, type_: &str) -> Option<&'a JobCondition> {
    job.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

/// Complete for good.
pub fn is_complete(job: &Job) -> bool {
    condition(job, "Complete").is_some_and(|condition| condition.status == "True")
}

/// Failed for good.
pub fn is_failed(job: &Job) -> bool {
    condition(job, "Failed").is_some_and(|condition| condition.status == "True")
}
