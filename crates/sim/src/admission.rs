//! What stands between a request and a worker's store: quotas, webhooks, namespaces, credentials. A dispatcher meets them;
//! the worker's own controllers do not.

use bytes::Bytes;
use http::{Method, StatusCode};
use jobferry_api::{annotations, labels};
use jobferry_testkit::fault::Asked;
use serde_json::{Value, json};

/// What a worker does to our requests at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The quota of Jobs is used up. It is looked at before the name is.
    Quota,
    /// The namespace does not exist.
    NoNamespace,
    /// The namespace is being deleted.
    Terminating,
    /// Nothing is allowed.
    Denied(u16),
    /// A webhook takes our label off.
    TakesLabel,
    /// A webhook takes the epoch off.
    TakesEpoch,
    /// A webhook gives every Job to another controller.
    Delegates,
    /// A webhook gives Jobs that have no TTL a short one.
    AddsTtl,
    /// A webhook of a queue suspends every Job.
    Suspends,
    /// A policy takes no edit of a Job.
    RefusesEdits,
    /// A webhook that must be asked about every Job is down.
    Fails,
}

impl Rule {
    /// Those that change what is created.
    pub(crate) const WEBHOOKS: [Self; 4] = [Self::TakesLabel, Self::TakesEpoch, Self::Delegates, Self::AddsTtl];

    /// The refusal of a request, if it is refused.
    pub(crate) fn refuse(self, asked: &Asked) -> Option<(StatusCode, Value)> {
        let is_job = asked.path.starts_with("/apis/batch/v1/");
        let creates_job = is_job && asked.method == Method::POST;
        let edits_job = is_job && asked.method == Method::PATCH;
        let (code, reason, message) = match self {
            Self::Quota if creates_job => {
                (403, "Forbidden", "jobs.batch is forbidden: exceeded quota: jobs, used: count/jobs.batch=1")
            }
            Self::NoNamespace if creates_job => (404, "NotFound", "namespaces \"default\" not found"),
            Self::Terminating if creates_job => {
                (403, "Forbidden", "unable to create new content in namespace default because it is being terminated")
            }
            Self::RefusesEdits if edits_job => {
                (403, "Forbidden", "admission webhook \"frozen\" denied the request: Jobs stay as they are")
            }
            Self::Fails if creates_job || edits_job => {
                (500, "InternalError", "failed calling webhook \"absent\": connection refused")
            }
            Self::Denied(401) => (401, "Unauthorized", "Unauthorized"),
            Self::Denied(_) => (403, "Forbidden", "User \"jobferry\" cannot create resource \"jobs\""),
            _ => return None,
        };
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
                            "message": message});
        Some((StatusCode::from_u16(code).unwrap_or(StatusCode::FORBIDDEN), status))
    }

    /// What a request becomes.
    pub(crate) fn change(self, asked: &Asked, body: Bytes) -> Bytes {
        if asked.method != Method::POST || !asked.path.starts_with("/apis/batch/v1/") {
            return body;
        }
        let Ok(mut job) = serde_json::from_slice::<Value>(&body) else { return body };
        match self {
            Self::TakesLabel => remove(&mut job["metadata"]["labels"], labels::ORIGIN),
            Self::TakesEpoch => remove(&mut job["metadata"]["annotations"], annotations::EPOCH),
            Self::Delegates => job["spec"]["managedBy"] = "example.com/other".into(),
            Self::AddsTtl if job["spec"]["ttlSecondsAfterFinished"].is_null() => {
                job["spec"]["ttlSecondsAfterFinished"] = 1.into();
            }
            Self::Suspends => job["spec"]["suspend"] = true.into(),
            _ => return body,
        }
        job.to_string().into()
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}
