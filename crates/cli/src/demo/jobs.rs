//! The Jobs of the demo, and how each should end.

use jobferry_api::{annotations, labels, managed_by};
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

/// The worker that is cut off in the middle.
pub(crate) const CUT_OFF: &str = "worker-2";
/// The Job that runs there meanwhile.
pub(crate) const TRAVELLER: &str = "train";
/// The Job that waits until its selector is corrected.
pub(crate) const PATIENT: &str = "patient";

/// A Job and how it should end.
pub(crate) struct DemoJob {
    pub(crate) name: &'static str,
    /// What it shows.
    pub(crate) tells: &'static str,
    pub(crate) outcome: &'static str,
    /// Where it must run, if only one place will do.
    pub(crate) place: Option<&'static str>,
    /// How many pods it takes, over all clusters.
    pub(crate) pods: usize,
    selector: Option<&'static str>,
    managed_by: Option<&'static str>,
    spec: Value,
}

impl DemoJob {
    pub(crate) fn manifest(&self) -> Value {
        let annotations = self.selector.map(|selector| json!({ annotations::WORKER_SELECTOR: selector }));
        let mut spec = self.spec.clone();
        spec["managedBy"] = self.managed_by.into();
        let metadata = json!({"name": self.name, "annotations": annotations});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    }
}

/// All of them.
pub(crate) fn all() -> [DemoJob; 6] {
    let template = |script: &str| {
        json!({"spec": {"restartPolicy": "Never", "containers": [
            {"name": "main", "image": "none", "command": ["sh", "-c", script]}]}})
    };
    let dispatched = |name, tells, pods, script| DemoJob {
        name,
        tells,
        outcome: "Complete",
        place: None,
        pods,
        selector: None,
        managed_by: Some(managed_by::DISPATCHER),
        spec: json!({"backoffLimit": 0, "template": template(script)}),
    };
    let hello = dispatched("hello", "a quick one", 1, "echo hello from the other side");
    let mut sweep = dispatched("sweep", "six indexes, one fails", 6, "sleep 0.5; test $JOB_COMPLETION_INDEX != 3");
    sweep.outcome = "Failed";
    for (field, value) in [("completions", 6), ("parallelism", 3), ("backoffLimitPerIndex", 0)] {
        sweep.spec[field] = value.into();
    }
    sweep.spec["backoffLimit"] = Value::Null;
    sweep.spec["completionMode"] = "Indexed".into();
    let mut train = dispatched(TRAVELLER, "fits only where the GPU is", 1, "sleep 6");
    (train.selector, train.place) = (Some("gpu=a100"), Some(CUT_OFF));
    let mut patient = dispatched(PATIENT, "waits until its selector is corrected", 1, "echo at last");
    (patient.selector, patient.place) = (Some("region=mars"), Some("worker-1"));
    let mut plain = dispatched("plain", "an ordinary Job: stays on the manager", 1, "echo at home");
    (plain.managed_by, plain.place) = (None, Some(crate::fleet::MANAGER));
    let mut local = dispatched("local", "run on the manager by our own controller", 1, "echo at home, too");
    (local.managed_by, local.place) = (Some(managed_by::LOCAL), Some(crate::fleet::MANAGER));
    [hello, sweep, train, patient, plain, local]
}

/// How a Job has ended, if it has.
pub(crate) fn outcome(job: &Job) -> Option<&'static str> {
    ["Complete", "Failed"].into_iter().find(|wanted| condition(job, wanted).is_some_and(|(holds, _)| holds))
}

/// Whether a condition holds, and its text.
pub(crate) fn condition<'a>(job: &'a Job, type_: &str) -> Option<(bool, &'a str)> {
    let found = job.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)?;
    Some((found.status == "True", found.message.as_deref().unwrap_or_default()))
}

/// Where a Job runs: on a worker, or on the manager.
pub(crate) fn place(job: &Job) -> Option<&str> {
    let managed_by = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    if managed_by != Some(managed_by::DISPATCHER) {
        return Some(crate::fleet::MANAGER);
    }
    job.metadata.labels.as_ref()?.get(labels::WORKER).map(String::as_str)
}

/// `2/6`.
pub(crate) fn completions(job: &Job) -> String {
    let succeeded = job.status.as_ref().and_then(|status| status.succeeded).unwrap_or(0);
    format!("{succeeded}/{}", job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or(1))
}
