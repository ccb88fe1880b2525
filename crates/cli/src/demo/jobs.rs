//! The Jobs of the demo.

use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

/// A Job and how it should end.
pub(crate) struct DemoJob {
    pub(crate) name: &'static str,
    pub(crate) outcome: &'static str,
    spec: Value,
}

impl DemoJob {
    pub(crate) fn manifest(&self) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": self.name}, "spec": self.spec})
    }
}

/// All of them: one that is quick, one of several indexes, one that fails.
pub(crate) fn all() -> [DemoJob; 3] {
    let template = |script: &str| {
        json!({"spec": {"restartPolicy": "Never", "containers": [
            {"name": "main", "image": "none", "command": ["sh", "-c", script]}]}})
    };
    let managed_by = jobferry_api::managed_by::DISPATCHER;
    [
        DemoJob {
            name: "hello",
            outcome: "Complete",
            spec: json!({"managedBy": managed_by, "template": template("echo hello from the other side")}),
        },
        DemoJob {
            name: "sweep",
            outcome: "Complete",
            spec: json!({
                "managedBy": managed_by, "completionMode": "Indexed", "completions": 4, "parallelism": 2,
                "template": template("sleep 0.5; echo $JOB_COMPLETION_INDEX"),
            }),
        },
        DemoJob {
            name: "broken",
            outcome: "Failed",
            spec: json!({"managedBy": managed_by, "backoffLimit": 0, "template": template("exit 3")}),
        },
    ]
}

/// How a Job has ended, if it has.
pub(crate) fn outcome(job: &Job) -> Option<&'static str> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    ["Complete", "Failed"]
        .into_iter()
        .find(|wanted| conditions.iter().any(|condition| condition.type_ == *wanted && condition.status == "True"))
}
