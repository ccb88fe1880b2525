//! Workloads of kinds other than Job, read by the rules of their kind.
//!
//! Decisions speak the words of a Job, whatever the kind: suspended, started, complete, failed. Reading an object
//! translates it into them; its own status is kept beside, as JSON, to be copied.

mod kind_ref;
mod notes;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use job_api::{SpecView, conditions};
use jobferry_api::{self as api, Outcome};
use k8s_openapi::{api::batch::v1::JobStatus, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    forward,
    kind::{Delegation, Kind, Standing, Stored},
    workload::{Mirror, Narrowing, Workload, wrote_since},
};

pub use kind_ref::{KindRef, NoMirror};
pub(crate) use notes::{note_placement, note_told};
use notes::{read_record, read_told};

/// By this name the API server notes what we wrote.
pub const FIELD_MANAGER: &str = "jobferry";

/// What is kept of a custom workload beside the words of a Job.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomWorkload {
    /// Its kind.
    pub kind: Arc<Kind>,
    /// What its next status depends on.
    pub stored: Stored,
    /// It is handed to us and must not be dispatched: why.
    pub refused: Option<String>,
    /// The queue of Kueue's that it names, if a MultiKueue on the manager might take it for its own.
    pub queue: Option<String>,
    /// How it ended, and how long it may stay on the manager from when people were told so, if that is our business.
    pub ended: Option<(Outcome, Option<Duration>)>,
    settling: Settling,
}

/// What is kept of its mirror.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomMirror {
    /// Its kind.
    pub kind: Arc<Kind>,
    /// Its status.
    pub status: Value,
    /// Its generation, which the status counts.
    pub generation: Option<i64>,
    settling: Settling,
}

/// An end that does not count yet, and when it does.
type Settling = Option<(Timestamp, Outcome)>;

impl Workload {
    /// Its kind.
    pub fn kind(&self) -> KindRef {
        self.custom.as_ref().map_or(KindRef::Job, |custom| KindRef::Custom(Arc::clone(&custom.kind)))
    }

    /// Time has passed: an end that was not taken back counts.
    pub fn settle(&mut self, now: Timestamp) {
        if let Some(custom) = &mut self.custom
            && let Some(outcome) = settle(&mut custom.settling, &mut self.status, now)
        {
            custom.ended = Some((outcome, None));
        }
    }
}

impl Mirror {
    /// Its kind.
    pub fn kind(&self) -> KindRef {
        self.custom.as_ref().map_or(KindRef::Job, |custom| KindRef::Custom(Arc::clone(&custom.kind)))
    }

    /// Time has passed: an end that was not taken back counts.
    pub fn settle(&mut self, now: Timestamp) {
        if let Some(custom) = &mut self.custom {
            settle(&mut custom.settling, &mut self.status, now);
        }
    }

    /// When an end of it that may be taken back will count.
    pub fn settles_at(&self) -> Option<Timestamp> {
        self.custom.as_ref()?.settling.map(|(until, _)| until)
    }
}

fn settle(settling: &mut Settling, status: &mut JobStatus, now: Timestamp) -> Option<Outcome> {
    let (_, outcome) = settling.take_if(|(until, _)| *until <= now)?;
    status.conditions.get_or_insert_default().push(ended(outcome));
    Some(outcome)
}

fn ended(outcome: Outcome) -> k8s_openapi::api::batch::v1::JobCondition {
    let type_ = match outcome {
        Outcome::Succeeded | Outcome::Unknown => conditions::COMPLETE,
        Outcome::Failed => conditions::FAILED,
    };
    let condition = conditions::new(type_, true, "", "", Timestamp::UNIX_EPOCH);
    k8s_openapi::api::batch::v1::JobCondition { last_transition_time: None, last_probe_time: None, ..condition }
}

/// How an object ended, and how long it may stay then.
fn ended_for_good(kind: &Kind, object: &Value, now: Timestamp) -> Option<(Outcome, Option<Duration>)> {
    let Standing::Finished(outcome) = kind.standing(object, now) else { return None };
    let ours = kind.ttl_on_manager == api::TtlOnManager::Dispatcher;
    Some((outcome, kind.time_to_live(object, outcome).filter(|_| ours)))
}

/// The status of an object in the words of a Job.
fn in_words_of_a_job(kind: &Kind, object: &Value, now: Timestamp) -> (JobStatus, Settling) {
    // Whoever has anything to say in its status has been run by somebody.
    let start_time = says_something(&object["status"]).then_some(Time(Timestamp::UNIX_EPOCH));
    let mut status = JobStatus { start_time, ..JobStatus::default() };
    match kind.standing(object, now) {
        Standing::Unfinished => (status, None),
        Standing::Settling { until, outcome } => (status, Some((until, outcome))),
        Standing::Finished(outcome) => {
            status.conditions = Some(vec![ended(outcome)]);
            (status, None)
        }
    }
}

/// Whether there is anything in a value beside what a definition fills in by default.
pub(crate) fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => list.iter().any(says_something),
        Value::Object(map) => map.values().any(says_something),
    }
}

/// The metadata that both sides have.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
    generation: Option<i64>,
    #[serde(default)]
    managed_fields: Vec<Writer>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Owner {
    controller: bool,
}

/// Somebody who wrote the object, as the API server notes it.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Writer {
    manager: String,
    subresource: String,
    time: Option<String>,
    fields_v1: WrittenFields,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WrittenFields {
    #[serde(rename = "f:status")]
    status: Option<serde::de::IgnoredAny>,
}

impl Writer {
    fn wrote_status(&self, kind: &Kind) -> bool {
        self.subresource == "status" || (kind.status.in_object && self.fields_v1.status.is_some())
    }
}

/// Who else than us writes the status of an object that is ours. An operator that does not heed managedBy says so within
/// its first look at the object, before anything of it has ended.
fn foreign_writer(kind: &Kind, meta: &Meta) -> Option<String> {
    let created = meta.creation_timestamp.as_deref();
    let since = meta.managed_fields.iter().filter(|writer| wrote_since(writer.time.as_deref(), created));
    let foreign = since.filter(|writer| writer.wrote_status(kind) && writer.manager != FIELD_MANAGER);
    // Of several always the same: servers list first whoever wrote longest ago.
    foreign.map(|writer| &writer.manager).min().cloned()
}

fn meta(object: &Value) -> Result<Meta, serde_json::Error> {
    Meta::deserialize(&object["metadata"])
}

/// Reads a workload of this kind.
pub fn read_workload(kind: &Arc<Kind>, object: &Value, now: Timestamp) -> Result<Workload, serde_json::Error> {
    let meta = meta(object)?;
    let (delegated, refused, queue) = match kind.delegation(object) {
        Delegation::Elsewhere => (false, None, None),
        Delegation::Ours => (true, None, None),
        Delegation::Queued(queue) => (true, None, Some(queue)),
        Delegation::Refused(why) => (true, Some(why), None),
    };
    let (mut status, settling) = in_words_of_a_job(kind, object, now);
    let placed = read_told(&meta);
    // For people it ended when they were told.
    if let Some(told) = placed.as_ref().filter(|told| told.reason == api::conditions::REASON_FINISHED) {
        for condition in status.conditions.iter_mut().flatten() {
            condition.last_transition_time.clone_from(&told.at);
        }
    }
    let forwarded = kind.forwarded(object).map(|forwarded| forwarded.digest()).unwrap_or_default();
    Ok(Workload {
        deleting: meta.deletion_timestamp.is_some(),
        managed_by: delegated.then(|| api::managed_by::DISPATCHER.to_owned()),
        spec: SpecView { suspended: kind.is_suspended(object), ..SpecView::default() },
        needs_minor: 0,
        policy: meta.labels.get(api::labels::POLICY).cloned(),
        acted_on: foreign_writer(kind, &meta),
        narrowing: Narrowing {
            workers: meta.annotations.get(api::annotations::WORKERS).cloned(),
            selector: meta.annotations.get(api::annotations::WORKER_SELECTOR).cloned(),
        },
        record: read_record(&meta),
        worker_label: meta.labels.get(api::labels::WORKER).cloned(),
        placed,
        forwardable: forwarded,
        status,
        custom: Some(Box::new(CustomWorkload {
            ended: ended_for_good(kind, object, now),
            kind: Arc::clone(kind),
            stored: kind.stored(object),
            refused,
            queue,
            settling,
        })),
        namespace: meta.namespace,
        name: meta.name,
        uid: meta.uid,
        resource_version: meta.resource_version,
    })
}

/// Reads a mirror of this kind.
pub fn read_mirror(kind: &Arc<Kind>, object: &Value, now: Timestamp) -> Result<Mirror, serde_json::Error> {
    let meta = meta(object)?;
    let mark = |name: &str| meta.annotations.get(name).cloned().unwrap_or_default();
    // Operators hand labels and annotations down to what they create, ours among them: a TaskRun of a PipelineRun and the
    // RayCluster of a RayJob look like mirrors. A mirror belongs to nobody, and what has no origin is not taken for one.
    let is_child = meta.owner_references.iter().any(|owner| owner.controller);
    let noted = Some(mark(api::annotations::ORIGIN_UID)).filter(|uid| !uid.is_empty());
    let origin_uid = noted.or_else(|| kind.labelled_uid(object)).filter(|_| !is_child);
    let (status, settling) = in_words_of_a_job(kind, object, now);
    let custom = CustomMirror {
        kind: Arc::clone(kind),
        status: object.get("status").cloned().unwrap_or_default(),
        generation: meta.generation,
        settling,
    };
    Ok(Mirror {
        origin_uid: origin_uid.unwrap_or_default(),
        epoch: mark(api::annotations::EPOCH).parse().ok(),
        manager_version: mark(api::annotations::MANAGER_VERSION).parse().ok(),
        controller: kind.foreign_controller(object).map(str::to_owned),
        deleting: meta.deletion_timestamp.is_some(),
        forwarded: meta.annotations.get(api::annotations::FORWARDED).map(|mark| forward::digest(mark)),
        status,
        custom: Some(Box::new(custom)),
        namespace: meta.namespace,
        name: meta.name,
        uid: meta.uid,
        resource_version: meta.resource_version,
    })
}
