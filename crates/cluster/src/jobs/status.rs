//! Writing the status of a Job.

use job_api::Rules;
use job_controller::JobView;
use jobferry_kubeio::{self as kubeio, Patch};
use k8s_openapi::api::batch::v1::JobStatus;
use serde_json::{Value, json};

use super::{Controller, DEADLINE, SyncError, lock};

/// Every field of the status that we own. Absent ones are sent as null: a merge patch keeps what it does not name.
const FIELDS: [&str; 11] = [
    "active",
    "completedIndexes",
    "completionTime",
    "conditions",
    "failed",
    "failedIndexes",
    "ready",
    "startTime",
    "succeeded",
    "terminating",
    "uncountedTerminatedPods",
];

impl Controller {
    /// Writes the status if nobody changed the Job since it was looked at. Returns false when the view was old; it is
    /// fresh now.
    pub(super) async fn write_status(&self, job: &JobView, status: &JobStatus) -> Result<bool, SyncError> {
        let errors = job_api::status::validate(&job.spec_view(), &job.status, status, Rules::newest());
        if !errors.is_empty() {
            return Err(SyncError::Illegal { job: format!("{}/{}", job.namespace, job.name), errors });
        }
        let path = format!("/apis/batch/v1/namespaces/{}/jobs/{}/status", job.namespace, job.name);
        let body = patch_body(job, status).to_string().into_bytes();
        match kubeio::patch(&self.client, &path, Patch::Merge, body, DEADLINE).await {
            Ok(answer) => {
                if let Ok(stored) = serde_json::from_slice(&answer) {
                    lock(&self.jobs).learn(stored);
                }
                Ok(true)
            }
            Err(error) if error.is_conflict() => self.read_again(job).await.map(|()| false),
            Err(error) if error.is_not_found() => {
                lock(&self.jobs).remove(&job.uid);
                Ok(false)
            }
            Err(source) => Err(call_error("writing the status", job, source)),
        }
    }

    pub(super) async fn read_again(&self, job: &JobView) -> Result<(), SyncError> {
        let path = format!("/apis/batch/v1/namespaces/{}/jobs/{}", job.namespace, job.name);
        match kubeio::get::<JobView>(&self.client, &path, DEADLINE).await {
            Ok(fresh) if fresh.uid == job.uid => lock(&self.jobs).learn(fresh),
            Ok(_) => lock(&self.jobs).remove(&job.uid),
            Err(error) if error.is_not_found() => lock(&self.jobs).remove(&job.uid),
            Err(source) => return Err(call_error("reading", job, source)),
        }
        Ok(())
    }
}

fn call_error(action: &'static str, job: &JobView, source: kubeio::CallError) -> SyncError {
    SyncError::Call { action, object: format!("Job {}/{}", job.namespace, job.name), source }
}

fn patch_body(job: &JobView, status: &JobStatus) -> Value {
    let mut fields = serde_json::to_value(status).unwrap_or_default();
    for field in FIELDS {
        if fields.get(field).is_none() {
            fields[field] = Value::Null;
        }
    }
    // A list that is absent inside the promised pods has to be named as well.
    for list in ["succeeded", "failed"] {
        if let Some(promised) = fields["uncountedTerminatedPods"].as_object_mut() {
            promised.entry(list).or_insert(Value::Null);
        }
    }
    json!({"metadata": {"uid": job.uid, "resourceVersion": job.resource_version}, "status": fields})
}
