//! The manager's API server as far as a status write can notice it: optimistic locking, the strategic merge, the rules
//! for a status, and what Go leaves out of JSON.

use job_api::{Errors, Rules, status};
use jobferry_core::{patch, workload::Workload};
use k8s_openapi::api::batch::v1::JobStatus;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// One Job on the manager.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) job: Value,
    rules: Rules,
    read: Workload,
}

/// Why a write did not happen.
#[derive(Debug, PartialEq)]
pub(crate) enum Refusal {
    /// 409: the object has another UID or another version.
    Conflict,
    /// 422, with the causes.
    Invalid(Errors),
}

impl Server {
    pub(crate) fn new(spec: &Value, status: &Value, rules: Rules) -> Self {
        let metadata = json!({"namespace": "ml", "name": "train", "uid": "u1", "resourceVersion": "1"});
        let job = json!({"metadata": metadata, "spec": spec, "status": status});
        let read = Workload::deserialize(&job).unwrap();
        Self { job, rules, read }
    }

    /// The Job as the dispatcher reads it.
    pub(crate) fn workload(&self) -> &Workload {
        &self.read
    }

    /// Somebody edits the Job.
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.job);
        let version: u64 = self.job["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        self.job["metadata"]["resourceVersion"] = json!((version + 1).to_string());
        self.read = Workload::deserialize(&self.job).unwrap();
    }

    /// The dispatcher writes a status that it made from `read`.
    pub(crate) fn write(&mut self, read: &Workload, next: &JobStatus) -> Result<(), Refusal> {
        self.patch_status(&body(read, next))
    }

    /// A strategic-merge PATCH to `/status`.
    pub(crate) fn patch_status(&mut self, body: &Value) -> Result<(), Refusal> {
        if ["uid", "resourceVersion"].iter().any(|key| body["metadata"][key] != self.job["metadata"][key]) {
            return Err(Refusal::Conflict);
        }
        let mut merged = self.job["status"].clone();
        merge(&mut merged, &body["status"]);
        let (old, new) = (decode(&self.job["status"]), decode(&merged));
        let errors = status::validate(&self.read.spec, &old, &new, self.rules);
        if !errors.is_empty() {
            return Err(Refusal::Invalid(errors));
        }
        self.edit(|job| job["status"] = stored(&new));
        Ok(())
    }
}

/// The body that the dispatcher sends.
pub(crate) fn body(read: &Workload, next: &JobStatus) -> Value {
    patch::status(read, next, None).unwrap()
}

fn decode(status: &Value) -> JobStatus {
    JobStatus::deserialize(status).unwrap()
}

/// Conditions merge by their type; null takes a field away; everything else replaces.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let fields = target.as_object_mut().unwrap();
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else if name == "conditions" {
            merge_conditions(fields.entry("conditions").or_insert_with(|| json!([])), change);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), change);
        }
    }
}

fn merge_conditions(target: &mut Value, changes: &Value) {
    let list = target.as_array_mut().unwrap();
    for change in changes.as_array().unwrap() {
        if change["$patch"] == "delete" {
            list.retain(|known| known["type"] != change["type"]);
            continue;
        }
        match list.iter_mut().find(|known| known["type"] == change["type"]) {
            Some(known) => merge(known, change),
            None => list.push(change.clone()),
        }
    }
}

/// What is read back: Go omits counters that are zero and texts that are empty, but not what is behind a pointer.
fn stored(status: &JobStatus) -> Value {
    let mut value = serde_json::to_value(status).unwrap();
    let fields = value.as_object_mut().unwrap();
    for (name, zero) in
        [("active", json!(0)), ("succeeded", json!(0)), ("failed", json!(0)), ("completedIndexes", json!(""))]
    {
        if fields.get(name) == Some(&zero) {
            fields.remove(name);
        }
    }
    for condition in fields.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        condition.as_object_mut().unwrap().retain(|_, field| *field != "");
    }
    value
}
