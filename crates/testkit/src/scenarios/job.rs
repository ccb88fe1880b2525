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
        Self::new(name).for_dispatcher()
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

    /// Its pods run for so long.
    #[must_use]
    pub fn runs_for(mut self, seconds: &str) -> Self {
        self.0["spec"]["template"]["metadata"]["annotations"][crate::RUN_SECONDS] = json!(seconds);
        self
    }

    /// Sets a label of the Job.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = json!(value);
        self
    }

    /// Sets a field of the metadata.
    #[must_use]
    pub fn metadata(mut self, field: &str, value: Value) -> Self {
        self.0["metadata"][field] = value;
        self
    }

    /// The same Job for the dispatcher.
    #[must_use]
    pub fn for_dispatcher(self) -> Self {
        self.spec("managedBy", json!(jobferry_api::managed_by::DISPATCHER))
    }

    /// Only this worker may have it.
    #[must_use]
    pub fn only_on(self, worker: &str) -> Self {
        self.annotation(jobferry_api::annotations::WORKERS, worker)
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

/// Has this many active pods.
pub fn has_active(count: i32) -> impl Fn(&Job) -> bool {
    move |job| job.status.as_ref().and_then(|status| status.active).unwrap_or(0) == count
}

/// Has one pod, which is ready: nothing about it changes any more by itself, if it runs for ever.
pub fn is_settled(job: &Job) -> bool {
    job.status.as_ref().is_some_and(|status| (status.active, status.ready) == (Some(1), Some(1)))
}

/// Shown as suspended.
pub fn is_suspended(job: &Job) -> bool {
    condition(job, "Suspended").is_some_and(|condition| condition.status == "True")
}

/// People are told this reason for where it is, or why it is nowhere.
pub fn is_told(reason: &'static str) -> impl Fn(&Job) -> bool {
    move |job| reason_of(job, jobferry_api::conditions::PLACED) == Some(reason)
}

/// The reason of a condition.
pub fn reason_of<'a>(job: &'a Job, type_: &str) -> Option<&'a str> {
    condition(job, type_)?.reason.as_deref()
}

/// The message of a condition.
pub fn message_of<'a>(job: &'a Job, type_: &str) -> &'a str {
    condition(job, type_).and_then(|condition| condition.message.as_deref()).unwrap_or_default()
}

/// The worker that the Job was placed on, by its label.
pub fn worker_of(job: &Job) -> Option<&str> {
    job.metadata.labels.as_ref()?.get(jobferry_api::labels::WORKER).map(String::as_str)
}
