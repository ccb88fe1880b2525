//! What people see of a worker: the status of its `Worker` object. Written when the connection changes, and now and then
//! when its number of workloads or its kinds did.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use job_api::conditions::whole_seconds;
use jobferry_api::{
    Worker,
    conditions::{
        ACCEPTED, CONNECTED, REASON_ACCEPTED, REASON_NO_ANSWER, REASON_SECRET_UNREADABLE, REASON_UNFIT, REASON_WATCHING,
    },
};
use jobferry_core::time::WRITE_DEADLINE;
use jobferry_kubeio::{self as kubeio, Patch};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use crate::{Shared, index::Standing, paths};

/// How often the number of a worker's workloads and its kinds are written, if they changed. For people, who do not count
/// along.
const COUNT_INTERVAL: Duration = Duration::from_secs(10);

/// What could not be written yet, by the name of the Worker: since when a worker is lost must not be forgotten. Held while
/// a report is written, so that none overtakes another.
#[derive(Debug, Default)]
pub(crate) struct Unwritten(Mutex<BTreeMap<String, Report>>);

/// Changes of one Worker's status.
#[derive(Debug, Clone)]
struct Report {
    /// The Worker that is meant: one that was registered anew under its name was never lost, nor connected.
    uid: String,
    status: Map<String, Value>,
}

pub(crate) async fn connected(
    shared: &Arc<Shared>,
    worker: &Worker,
    identity: &str,
    version: &str,
    expires: Option<Timestamp>,
) {
    let now = whole_seconds(shared.clock.now().wall).to_string();
    let name = worker.metadata.name.as_deref().unwrap_or_default();
    let unfinished = shared.index.worker(name).map(|view| view.unfinished);
    let conditions = [accepted(&now), condition(CONNECTED, true, REASON_WATCHING, "its mirrors are watched", &now)];
    let status = json!({
        "identity": identity, "version": version, "connectedSince": now, "lostSince": null,
        "credentialExpires": expires.map(|at| whole_seconds(at).to_string()),
        "unfinished": unfinished, "conditions": conditions,
    });
    write(shared, worker, status).await;
}

/// It has another credential, which expires then.
pub(crate) async fn credential(shared: &Arc<Shared>, worker: &Worker, expires: Option<Timestamp>) {
    write(shared, worker, json!({"credentialExpires": expires.map(|at| whole_seconds(at).to_string())})).await;
}

/// It does not answer, since that time: a later leader takes the clock over from here.
pub(crate) async fn disconnected(shared: &Arc<Shared>, worker: &Worker, why: &str, lost_since: Option<Timestamp>) {
    let now = whole_seconds(shared.clock.now().wall).to_string();
    let conditions = [accepted(&now), condition(CONNECTED, false, REASON_NO_ANSWER, why, &now)];
    let lost_since = lost_since.map(|since| whole_seconds(since).to_string());
    write(shared, worker, json!({ "connectedSince": null, "lostSince": lost_since, "conditions": conditions })).await;
}

/// It must not be used until somebody changes something.
pub(crate) async fn refused(shared: &Arc<Shared>, worker: &Worker, why: &str) {
    let now = whole_seconds(shared.clock.now().wall).to_string();
    let conditions =
        [condition(ACCEPTED, false, REASON_UNFIT, why, &now), condition(CONNECTED, false, REASON_UNFIT, why, &now)];
    write(shared, worker, json!({ "connectedSince": null, "lostSince": null, "conditions": conditions })).await;
}

/// It was not even asked, which says nothing about the worker, nor since when it is lost.
pub(crate) async fn unasked(shared: &Arc<Shared>, worker: &Worker, why: &str) {
    let now = whole_seconds(shared.clock.now().wall).to_string();
    let conditions = [ACCEPTED, CONNECTED].map(|type_| {
        json!({"type": type_, "status": "Unknown", "reason": REASON_SECRET_UNREADABLE, "message": why, "lastTransitionTime": now})
    });
    write(shared, worker, json!({ "connectedSince": null, "conditions": conditions })).await;
}

/// Keeps `status.unfinished` and `status.missingKinds` roughly right, and writes what could not be written before.
pub(crate) async fn keep_counts(shared: Arc<Shared>) {
    let mut written = BTreeMap::new();
    loop {
        tokio::time::sleep(COUNT_INTERVAL).await;
        for (worker, standing) in shared.index.standings() {
            let changed = written.insert(worker.clone(), standing.clone()).as_ref() != Some(&standing);
            if changed || shared.unwritten.0.lock().await.contains_key(&worker) {
                let Standing { uid, unfinished, missing_kinds } = standing;
                let missing = Some(missing_kinds).filter(|missing| !missing.is_empty());
                let status = fields(json!({ "unfinished": unfinished, "missingKinds": missing }));
                send(&shared, &worker, Report { uid, status }).await;
            }
        }
    }
}

fn accepted(now: &str) -> Value {
    condition(ACCEPTED, true, REASON_ACCEPTED, "its credentials and identity are fit to be used", now)
}

fn condition(type_: &str, holds: bool, reason: &str, message: &str, now: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": now})
}

async fn write(shared: &Arc<Shared>, worker: &Worker, status: Value) {
    let name = worker.metadata.name.as_deref().unwrap_or_default();
    send(shared, name, Report { uid: worker.metadata.uid.clone().unwrap_or_default(), status: fields(status) }).await;
}

fn fields(status: Value) -> Map<String, Value> {
    match status {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

async fn send(shared: &Arc<Shared>, worker: &str, report: Report) {
    let mut unwritten = shared.unwritten.0.lock().await;
    if !shared.leadership.holds() {
        return;
    }
    let report = report.after(unwritten.remove(worker));
    let body = report.patch().to_string().into_bytes();
    let path = paths::by_us(&paths::worker_status(worker));
    if let Err(error) = kubeio::patch(&shared.manager, &path, Patch::Merge, body, WRITE_DEADLINE).await {
        tracing::warn!(worker, %error, "could not write the Worker's status");
        // An answer is an answer: it is gone, or another one has its name.
        if error.refusal().is_none_or(|refusal| refusal.code >= 429) {
            unwritten.insert(worker.to_owned(), report);
        }
    }
}

impl Report {
    /// With what could not be written before, as far as it is about the same Worker and still true.
    fn after(self, earlier: Option<Self>) -> Self {
        let Some(mut whole) = earlier.filter(|earlier| earlier.uid == self.uid) else { return self };
        whole.status.extend(self.status);
        whole
    }

    /// No resourceVersion: the fields are ours alone and true whatever else was written meanwhile, by people to the spec or
    /// by us. A conflict would protect nothing and lose the report.
    fn patch(&self) -> Value {
        json!({"metadata": {"uid": self.uid}, "status": self.status})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(uid: &str, status: Value) -> Report {
        Report { uid: uid.into(), status: fields(status) }
    }

    #[test]
    fn what_could_not_be_written_goes_with_the_next_report_of_the_same_worker_only() {
        let lost = || Some(report("first", json!({"lostSince": "2026-11-15T10:00:00Z", "unfinished": 1})));
        for (uid, status) in [
            ("first", json!({"lostSince": "2026-11-15T10:00:00Z", "unfinished": 2})),
            ("second", json!({"unfinished": 2})),
        ] {
            let next = report(uid, json!({"unfinished": 2})).after(lost());
            assert_eq!(next.patch(), json!({"metadata": {"uid": uid}, "status": status}));
        }
    }
}
