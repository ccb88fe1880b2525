//! What people see of a worker: the status of its `Worker` object. Written when the connection changes, and now and then
//! when its number of workloads did.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use job_api::conditions::whole_seconds;
use jobferry_api::conditions::{ACCEPTED, CONNECTED};
use jobferry_core::time::WRITE_DEADLINE;
use jobferry_kubeio::{self as kubeio, Patch};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::{Shared, paths};

/// How often the number of a worker's workloads is written, if it changed. For people, who do not count along.
const COUNT_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) async fn connected(
    shared: &Arc<Shared>,
    worker: &str,
    identity: &str,
    version: &str,
    expires: Option<Timestamp>,
) {
    let now = whole_seconds(shared.clock.now().wall).to_string();
    let unfinished = shared.index.worker(worker).map(|view| view.unfinished);
    let conditions = [
        condition(ACCEPTED, true, "Accepted", "its credentials and identity are fit to be used", &now),
        condition(CONNECTED, true, "Watching", "its mirrors are watched", &now),
    ];
    let status = json!({
        "identity": identity, "version": version, "connectedSince": now, "lostSince": null,
        "credentialExpires": expires.map(|at| whole_seconds(at).to_string()),
        "unfinished": unfinished, "conditions": conditions,
    });
    write(shared, worker, &status).await;
}

/// It has another credential, which expires then.
pub(crate) async fn credential(shared: &Arc<Shared>, worker: &str, expires: Option<Timestamp>) {
    write(shared, worker, &json!({"credentialExpires": expires.map(|at| whole_seconds(at).to_string())})).await;
}

/// It does not answer, since that time: a later leader takes the clock over from here.
pub(crate) async fn disconnected(shared: &Arc<Shared>, worker: &str, why: &str, since: Timestamp) {
    let now = whole_seconds(shared.clock.now().wall).to_string();
    let conditions = [
        condition(ACCEPTED, true, "Accepted", "its credentials and identity are fit to be used", &now),
        condition(CONNECTED, false, "NoAnswer", why, &now),
    ];
    let since = whole_seconds(since).to_string();
    write(shared, worker, &json!({ "connectedSince": null, "lostSince": since, "conditions": conditions })).await;
}

/// It must not be used until somebody changes something.
pub(crate) async fn refused(shared: &Arc<Shared>, worker: &str, why: &str) {
    let now = whole_seconds(shared.clock.now().wall).to_string();
    let conditions =
        [condition(ACCEPTED, false, "Refused", why, &now), condition(CONNECTED, false, "Refused", why, &now)];
    write(shared, worker, &json!({ "connectedSince": null, "lostSince": null, "conditions": conditions })).await;
}

/// Keeps `status.unfinished` roughly right.
pub(crate) async fn keep_counts(shared: Arc<Shared>) {
    let mut written = BTreeMap::new();
    loop {
        tokio::time::sleep(COUNT_INTERVAL).await;
        for (worker, unfinished) in shared.index.unfinished() {
            if written.insert(worker.clone(), unfinished) != Some(unfinished) {
                write(&shared, &worker, &json!({ "unfinished": unfinished })).await;
            }
        }
    }
}

fn condition(type_: &str, holds: bool, reason: &str, message: &str, now: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": now})
}

async fn write(shared: &Arc<Shared>, worker: &str, status: &Value) {
    if !shared.leadership.holds() {
        return;
    }
    let body = json!({ "status": status }).to_string().into_bytes();
    let path = paths::worker_status(worker);
    if let Err(error) = kubeio::patch(&shared.manager, &path, Patch::Merge, body, WRITE_DEADLINE).await {
        tracing::warn!(worker, %error, "could not write the Worker's status");
    }
}
