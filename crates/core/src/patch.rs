//! The bodies of our writes to the user's workload. For Jobs one form only: a strategic-merge PATCH to `/status`. Other kinds
//! have neither that form nor room in their status: their record is an annotation, their status a merge PATCH. All carry
//! uid and resourceVersion, so that they never land on another object or over somebody else's change.

use job_api::conditions;
use jobferry_api as api;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use serde_json::{Map, Value, json};

use crate::{
    custom,
    kind::difference,
    project::resumption,
    record::{Placement, Record},
    time::QUARANTINE,
    workload::{Told, Workload},
};

/// Records a placement: the record for us, a condition and a label for people, in one write. `why` is what the worker
/// said, if the workload leaves it. A placement that is recorded once more is no news for people.
pub fn placement(workload: &Workload, placement: &Placement, why: Option<&str>) -> Result<Value, serde_json::Error> {
    let mut body = preconditions(workload);
    // That it was resumed is shown by the same write, as long as there is no mirror to tell it.
    let resumed = resumption(&workload.spec, &workload.status, placement.since.0)
        .filter(|_| workload.custom.is_none() && placement.mirror.is_none());
    if workload.placed.is_some() && matches!(&workload.record, Record::Placed(before) if placement.repeats(before)) {
        if workload.custom.is_some() {
            body["metadata"]["annotations"] = custom::note_placement(workload, placement)?;
        } else {
            body["status"] = json!({ "conditions": conditions_of([placement.condition()?], resumed) });
        }
        return Ok(body);
    }
    let (holds, reason, message) = if placement.moving {
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let wait = QUARANTINE.as_secs();
        let message = format!(
            "leaving worker {}, which refuses it{why}; it goes elsewhere in {wait} s, when no create of it can be under way \
             any more",
            placement.worker
        );
        (false, api::conditions::REASON_MOVING, message)
    } else {
        (true, api::conditions::REASON_PLACED, format!("on worker {}", placement.worker))
    };
    let told = Told { holds, reason: reason.into(), message, at: Some(placement.since.clone()) };
    body["metadata"]["labels"] = json!({ api::labels::WORKER: placement.worker });
    if workload.custom.is_some() {
        let mut notes = custom::note_placement(workload, placement)?;
        notes[api::annotations::PLACED] = custom::note_told(workload, &told)[api::annotations::PLACED].take();
        body["metadata"]["annotations"] = notes;
    } else {
        let noted = [placement.condition()?, placed_condition(&told)];
        body["status"] = json!({ "conditions": conditions_of(noted, resumed) });
    }
    Ok(body)
}

/// Tells people about the placement.
pub fn told(workload: &Workload, told: &Told) -> Value {
    let mut body = preconditions(workload);
    if workload.custom.is_some() {
        body["metadata"]["annotations"] = custom::note_told(workload, told);
    } else {
        body["status"] = json!({ "conditions": [placed_condition(told)] });
    }
    body
}

/// Writes a status, and the record along with it if it changed.
pub fn status(
    workload: &Workload,
    next: &JobStatus,
    placement: Option<&Placement>,
) -> Result<Value, serde_json::Error> {
    let mut status = match serde_json::to_value(next)? {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    // What is not there must be cleared by name: a patch keeps what it does not mention.
    for field in [
        "active",
        "ready",
        "terminating",
        "succeeded",
        "failed",
        "startTime",
        "completionTime",
        "completedIndexes",
        "failedIndexes",
        "uncountedTerminatedPods",
    ] {
        status.entry(field).or_insert(Value::Null);
    }
    let stored = workload.status.conditions.as_deref().unwrap_or_default();
    let mut changed: Vec<JobCondition> =
        next.conditions.iter().flatten().filter(|condition| !stored.contains(condition)).cloned().collect();
    if let Some(placement) = placement {
        changed.push(placement.condition()?);
    }
    let mut conditions: Vec<Value> = changed.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    let kept = |type_: &str| next.conditions.iter().flatten().any(|condition| condition.type_ == type_);
    let gone = stored.iter().filter(|condition| !kept(&condition.type_));
    conditions.extend(gone.map(|condition| json!({"$patch": "delete", "type": condition.type_})));
    status.insert("conditions".into(), conditions.into());
    let mut body = preconditions(workload);
    body["status"] = Value::Object(status);
    Ok(body)
}

/// Writes the whole status of a custom workload: a merge patch (RFC 7386) from the one that is stored.
pub fn custom_status(workload: &Workload, next: &Value) -> Value {
    let stored = workload.custom.as_ref().map_or(&Value::Null, |custom| custom.stored.status());
    let mut body = preconditions(workload);
    body["status"] = difference(stored, next).unwrap_or_else(|| json!({}));
    body
}

fn conditions_of<const N: usize>(noted: [JobCondition; N], resumed: Option<JobCondition>) -> Vec<JobCondition> {
    noted.into_iter().chain(resumed).collect()
}

fn preconditions(workload: &Workload) -> Value {
    json!({ "metadata": { "uid": workload.uid, "resourceVersion": workload.resource_version } })
}

fn placed_condition(told: &Told) -> JobCondition {
    JobCondition {
        type_: api::conditions::PLACED.into(),
        status: if told.holds { conditions::TRUE } else { conditions::FALSE }.into(),
        reason: Some(told.reason.clone()),
        message: Some(told.message.clone()),
        last_probe_time: told.at.clone(),
        last_transition_time: told.at.clone(),
    }
}
