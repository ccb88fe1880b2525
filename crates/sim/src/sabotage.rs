//! Planted bugs: a protection is taken out of the dispatcher's requests, or out of the answers that it relies on, on their
//! way. The dispatcher itself stays the one that ships. A simulator that does not find these proves nothing.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use jobferry_api::{annotations, labels};
use jobferry_core::time::LOSS_NOTICED;
use jobferry_testkit::fault::Asked;
use serde_json::{Value, json};

use crate::actors::POLICIES;
use crate::truth::is_manager;

/// Longer than what is healthy takes.
const IN_QUEUE: Duration = Duration::from_secs(40);

/// A protection that is taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Status writes carry no resourceVersion: two dispatchers overwrite each other's placements.
    NoVersion,
    /// Deletes carry no UID.
    NoUidOnDelete,
    /// Every doubt about a workload counts as proof that it is gone: its mirrors are orphans.
    FalseGone,
    /// The mirror's status is laid over the stored one as it is: what the mirror has no more, such as active pods, stays.
    RawStatus,
    /// Mirrors are created without the mark of their origin.
    NoMarks,
    /// The end of a workload is taken as written before it is.
    UnwrittenEnd,
    /// An orphan is taken as deleted before it is.
    UnsentDelete,
    /// Whoever answers at a worker's address is taken for that worker.
    NoIdentity,
    /// A worker is lost as soon as it does not answer: a short disconnect counts, and a clock that an earlier dispatcher
    /// started fires at once.
    HastyLoss,
    /// A policy that nobody made lets the workloads of a lost worker fail.
    UnaskedPolicy,
    /// All workers share a queue: while one is in trouble, creates on the others wait.
    OneQueue,
    /// A mirror is taken as created before it is.
    UnsentCreate,
    /// The failure of a mirror is told as a success.
    InventedEnd,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::NoVersion,
        Self::NoUidOnDelete,
        Self::FalseGone,
        Self::RawStatus,
        Self::NoMarks,
        Self::UnwrittenEnd,
        Self::UnsentDelete,
        Self::NoIdentity,
        Self::HastyLoss,
        Self::UnaskedPolicy,
        Self::OneQueue,
        Self::UnsentCreate,
        Self::InventedEnd,
    ];

    /// What the server gets to see of a request.
    pub(crate) fn request(self, cluster: &str, asked: &Asked, body: Bytes) -> Bytes {
        let Ok(mut value) = serde_json::from_slice::<Value>(&body) else { return body };
        let is_job = asked.path.starts_with("/apis/batch/v1/");
        let is_status = is_job && asked.method == Method::PATCH && asked.path.ends_with("/status");
        match self {
            Self::NoVersion if is_status => remove(&mut value["metadata"], "resourceVersion"),
            Self::NoUidOnDelete if asked.method == Method::DELETE => remove(&mut value, "preconditions"),
            Self::RawStatus if is_status && value["status"]["active"].as_i64().unwrap_or_default() == 0 => {
                remove(&mut value["status"], "active");
            }
            Self::InventedEnd if is_status => succeed(&mut value["status"]),
            Self::NoMarks if is_job && asked.method == Method::POST && !is_manager(cluster) => {
                remove(&mut value["metadata"]["labels"], labels::ORIGIN);
                remove(&mut value["metadata"]["annotations"], annotations::ORIGIN_UID);
            }
            _ => return body,
        }
        value.to_string().into()
    }

    /// How long a worker must be missed to count as lost.
    pub(crate) const fn notices_loss_after(self) -> Duration {
        match self {
            Self::HastyLoss => Duration::ZERO,
            _ => LOSS_NOTICED,
        }
    }

    /// How long a request waits for others, if another worker is in trouble.
    pub(crate) fn waits(self, cluster: &str, asked: &Asked) -> Option<Duration> {
        let is_create = asked.method == Method::POST && asked.path.ends_with("/jobs") && !is_manager(cluster);
        (self == Self::OneQueue && is_create).then_some(IN_QUEUE)
    }

    /// A lie in place of the server's answer; the server sees nothing of the request.
    pub(crate) fn answer(self, cluster: &str, asked: &Asked, body: &[u8]) -> Option<(StatusCode, Value)> {
        if self == Self::NoIdentity && asked.path == "/api/v1/namespaces/kube-system" && !is_manager(cluster) {
            return Some((StatusCode::OK, json!({"metadata": {"uid": format!("identity-of-{cluster}")}})));
        }
        if self == Self::UnsentCreate && asked.method == Method::POST && asked.path.ends_with("/jobs") {
            let mut made: Value = serde_json::from_slice(body).ok()?;
            made["metadata"]["uid"] = format!("never-made-{}", made["metadata"]["name"]).into();
            made["metadata"]["resourceVersion"] = "1".into();
            return (!is_manager(cluster)).then_some((StatusCode::CREATED, made));
        }
        if self == Self::UnaskedPolicy && asked.path == POLICIES && is_manager(cluster) {
            // A watch, by which a list may come too, is refused: what is listed instead stays as it is.
            let refusal =
                || (StatusCode::UNPROCESSABLE_ENTITY, json!({"kind": "Status", "code": 422, "reason": "Invalid"}));
            return Some(if asked.is_watch { refusal() } else { (StatusCode::OK, unasked_policy()) });
        }
        let (_, name) = asked.path.strip_prefix("/apis/batch/v1/namespaces/")?.split_once("/jobs/")?;
        let absent = || {
            let details = json!({"name": name, "group": "batch", "kind": "jobs"});
            let status = json!({"kind": "Status", "code": 404, "reason": "NotFound", "details": details});
            (StatusCode::NOT_FOUND, status)
        };
        let on_manager = is_manager(cluster);
        match self {
            Self::FalseGone if asked.method == Method::GET && on_manager => Some(absent()),
            Self::UnsentDelete if asked.method == Method::DELETE && !on_manager => {
                Some((StatusCode::OK, json!({"kind": "Status", "status": "Success"})))
            }
            Self::UnwrittenEnd if asked.method == Method::PATCH && on_manager && ends(body) => Some(absent()),
            _ => None,
        }
    }
}

fn unasked_policy() -> Value {
    let metadata = json!({"name": "default", "uid": "nobody-made-it", "resourceVersion": "1"});
    let policy = json!({"metadata": metadata, "spec": {"onWorkerLost": {"action": "Fail", "after": "10s"}}});
    json!({"kind": "DispatchPolicyList", "metadata": {"resourceVersion": "1"}, "items": [policy]})
}

fn ends(body: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let conditions = value["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Complete" || condition["type"] == "Failed")
}

/// Makes a success of a failure.
fn succeed(status: &mut Value) {
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        let success = match condition["type"].as_str() {
            Some("FailureTarget") => "SuccessCriteriaMet",
            Some("Failed") => "Complete",
            _ => continue,
        };
        (condition["type"], condition["reason"]) = (success.into(), "CompletionsReached".into());
        let time = condition["lastTransitionTime"].clone();
        if success == "Complete" {
            status["completionTime"] = time;
            return;
        }
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}
