//! What people see of a worker: the status of its `Worker` object. Written when the connection changes, never otherwise.

use std::sync::Arc;

use job_api::conditions::whole_seconds;
use jobferry_api::conditions::{ACCEPTED, CONNECTED};
use jobferry_core::time::WRITE_DEADLINE;
use jobferry_kubeio::{self as kubeio, Patch};
use serde_json::{Value, json};

use crate::{Shared, paths};

pub(crate) async fn connected(shared: &Arc<Shared>, worker: &str, identity: &str, version: &str) {
    let now = whole_seconds(shared.clock.now().wall).to_string();
    let unfinished = shared.index.worker(worker).map(|view| view.unfinished);
    let conditions = [
        condition(ACCEPTED, true, "Accepted", "its credentials and identity are fit to be used", &now),
        condition(CONNECTED, true, "Watching", "its mirrors are watched", &now),
    ];
    let status = json!({
        "identity": identity, "version": version, "connectedSince": now, "unfinished": unfinished,
        "conditions": conditions,
    });
    write(shared, worker, &status).await;
}

pub(crate) async fn disconnected(shared: &Arc<Shared>, worker: &str, why: &str, accepted: bool) {
    let now = whole_seconds(shared.clock.now().wall).to_string();
    let accepted = if accepted {
        condition(ACCEPTED, true, "Accepted", "its credentials and identity are fit to be used", &now)
    } else {
        condition(ACCEPTED, false, "Refused", why, &now)
    };
    let conditions = [accepted, condition(CONNECTED, false, "NoAnswer", why, &now)];
    write(shared, worker, &json!({ "connectedSince": null, "conditions": conditions })).await;
}

fn condition(type_: &str, holds: bool, reason: &str, message: &str, now: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": now})
}

async fn write(shared: &Arc<Shared>, worker: &str, status: &Value) {
    let body = json!({ "status": status }).to_string().into_bytes();
    let path = paths::worker_status(worker);
    if let Err(error) = kubeio::patch(&shared.manager, &path, Patch::Merge, body, WRITE_DEADLINE).await {
        tracing::warn!(worker, %error, "could not write the Worker's status");
    }
}
