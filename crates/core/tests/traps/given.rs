//! A situation: what is stored on the manager, what the mirror says, and what comes of it.

use job_api::{Rules, status};
use jobferry_core::{
    project::{fail, project},
    record::Carried,
};
use k8s_openapi::{api::batch::v1::JobStatus, jiff::Timestamp};
use serde_json::{Value, json};

use crate::support::server::Server;

/// The manager's time in all situations. Mirrors start at ten and end at eleven.
pub(crate) const NOW: &str = "2026-11-15T12:00:00Z";
pub(crate) const TEN: &str = "2026-11-15T10:00:00Z";
pub(crate) const ELEVEN: &str = "2026-11-15T11:00:00Z";

pub(crate) struct Given {
    spec: Value,
    stored: Value,
    mirror: Value,
    carried: Carried,
    rules: Rules,
}

/// A Job of three pods, a manager that has written no status, and a mirror that has none.
pub(crate) fn given() -> Given {
    Given {
        spec: json!({"completions": 3, "parallelism": 2}),
        stored: json!({}),
        mirror: json!({}),
        carried: Carried::default(),
        rules: Rules::newest(),
    }
}

pub(crate) fn holds(type_: &str, reason: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": reason, "message": "because",
           "lastProbeTime": ELEVEN, "lastTransitionTime": ELEVEN})
}

pub(crate) fn suspended() -> Value {
    with(holds("Suspended", "JobSuspended"), json!({"message": "Job suspended"}))
}

pub(crate) fn resumed() -> Value {
    with(holds("Suspended", "JobResumed"), json!({"status": "False", "message": "Job resumed"}))
}

/// A running mirror, or the status of a Job that was seen running.
pub(crate) fn running() -> Value {
    json!({"active": 2, "ready": 1, "terminating": 0, "startTime": TEN})
}

/// The end of a mirror, as a worker of today writes it.
pub(crate) fn complete() -> Value {
    json!({"succeeded": 3, "ready": 0, "terminating": 0, "startTime": TEN, "completionTime": ELEVEN, "conditions":
           [holds("SuccessCriteriaMet", "CompletionsReached"), holds("Complete", "CompletionsReached")]})
}

/// The end of a mirror that failed.
pub(crate) fn failed() -> Value {
    json!({"failed": 7, "ready": 0, "terminating": 0, "startTime": TEN, "conditions":
           [holds("FailureTarget", "BackoffLimitExceeded"), holds("Failed", "BackoffLimitExceeded")]})
}

/// `base` with some fields changed.
pub(crate) fn with(mut base: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { panic!("{fields} has no fields") };
    for (name, value) in fields {
        base[name] = value;
    }
    base
}

pub(crate) fn types_of(status: &Value) -> Vec<&str> {
    status["conditions"].as_array().into_iter().flatten().map(|c| c["type"].as_str().unwrap()).collect()
}

/// These fields of a status or a condition.
pub(crate) fn pick<const N: usize>(from: &Value, fields: [&str; N]) -> Value {
    fields.iter().map(|field| from[field].clone()).collect()
}

/// The condition of that type.
pub(crate) fn condition<'a>(status: &'a Value, type_: &str) -> &'a Value {
    status["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == type_).unwrap_or(&Value::Null)
}

impl Given {
    pub(crate) fn spec(mut self, fields: Value) -> Self {
        self.spec = with(self.spec, fields);
        self
    }

    pub(crate) fn indexed(self) -> Self {
        self.spec(json!({"completionMode": "Indexed"}))
    }

    pub(crate) fn suspended(self) -> Self {
        self.spec(json!({"suspend": true}))
    }

    pub(crate) fn stored(mut self, status: Value) -> Self {
        self.stored = status;
        self
    }

    pub(crate) fn mirror(mut self, status: Value) -> Self {
        self.mirror = status;
        self
    }

    pub(crate) fn carried(mut self, failed: i32) -> Self {
        self.carried = Carried { failed };
        self
    }

    pub(crate) fn server(mut self, minor: u32, patch: u32) -> Self {
        self.rules = Rules::for_server(1, minor, Some(patch));
        self
    }

    /// The fields on which the manager's API server would refuse a plain copy of the mirror's status: the trap.
    pub(crate) fn a_plain_copy_breaks(&self) -> Vec<String> {
        let server = self.manager();
        let workload = server.workload();
        let errors = status::validate(&workload.spec, &workload.status, &self.seen(), self.rules);
        errors.iter().map(|error| error.field.clone()).collect()
    }

    /// What the manager has stored after our one write. Nothing is left to write after it.
    pub(crate) fn next(&self) -> Value {
        let mut server = self.manager();
        let read = server.workload().clone();
        let next = self.project(&server, NOW).expect("a change was not written");
        server.write(&read, &next).unwrap();
        assert_eq!(self.project(&server, "2026-11-15T13:00:00Z"), None, "the same mirror is written twice");
        server.job["status"].clone()
    }

    pub(crate) fn writes_nothing(&self) -> bool {
        self.project(&self.manager(), NOW).is_none()
    }

    /// What the manager has stored after the dispatcher itself ended the Job.
    pub(crate) fn fail(&self) -> Value {
        let mut server = self.manager();
        let read = server.workload().clone();
        let next = fail(&read.status, "WorkerLost", "it is gone", now()).expect("it has not ended");
        server.write(&read, &next).unwrap();
        assert_eq!(fail(&server.workload().status, "WorkerLost", "again", now()), None);
        server.job["status"].clone()
    }

    fn project(&self, server: &Server, at: &str) -> Option<JobStatus> {
        let workload = server.workload();
        project(&workload.spec, &workload.status, &self.seen(), self.carried, self.rules, at.parse().unwrap()).unwrap()
    }

    fn manager(&self) -> Server {
        Server::new(&self.spec, &self.stored, self.rules)
    }

    fn seen(&self) -> JobStatus {
        serde_json::from_value(self.mirror.clone()).unwrap()
    }
}

fn now() -> Timestamp {
    NOW.parse().unwrap()
}
