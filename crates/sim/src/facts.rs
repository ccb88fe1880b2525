//! What checkers need to know of a Job, or of an object of another kind, read from the truth: the object as its API server stores it.

use jobferry_api::{annotations, conditions, labels, managed_by};
use serde_json::Value;

use crate::etl::OPERATOR;

/// A Job as it really is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct JobFacts {
    /// Its UID.
    pub uid: String,
    /// Its namespace and name.
    pub name: String,
    /// It is a workload of ours: its `managedBy` says so.
    pub is_workload: bool,
    /// The origin that it is a mirror of.
    pub origin: Option<String>,
    /// The UID of the workload that it is a mirror of.
    pub origin_uid: Option<String>,
    /// The epoch of the mirror.
    pub epoch: Option<u32>,
    /// It is given to a controller that is not the cluster's own.
    pub delegated: bool,
    /// `Complete` or `Failed`, and the reason.
    pub ending: Option<(String, String)>,
    /// Its deletion was asked for.
    pub deleting: bool,
    /// The user holds it back: it is suspended, or wants no pods.
    pub suspended: bool,
    /// How many completions it wants.
    pub completions: Option<u64>,
    /// Of a mirror: which edits it has, is written on it.
    pub tells_edits: bool,
    /// What people are told of its placement: whether it holds, and the reason.
    pub told: Option<(bool, String)>,
    /// Its placement record.
    pub placement: Option<PlacementFacts>,
    /// Its status, our own conditions left out.
    pub status: Value,
}

/// What a placement record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementFacts {
    /// The worker.
    pub worker: String,
    /// Who the worker was at that time.
    pub identity: String,
    /// The epoch.
    pub epoch: u32,
    /// The UID of its mirror, once that is known.
    pub mirror: Option<String>,
}

impl PlacementFacts {
    fn of(record: &Value) -> Option<Self> {
        let epoch = record["epoch"].as_u64().and_then(|epoch| u32::try_from(epoch).ok())?;
        let text = |field: &str| record[field].as_str().map(str::to_owned);
        Some(Self { worker: text("worker")?, identity: text("identity")?, epoch, mirror: text("mirror") })
    }
}

impl JobFacts {
    /// Reads an object of the API server.
    pub fn of(object: &Value) -> Self {
        if object["kind"] == "EtlRun" || object["apiVersion"] == "workloads.example.dev/v1alpha1" {
            Self::of_etl_run(object)
        } else {
            Self::of_job(object)
        }
    }

    fn of_job(job: &Value) -> Self {
        let text = |pointer: &str| job.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let keyed = |map: &str, key: &str| job["metadata"][map][key].as_str().map(str::to_owned);
        let all = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let find = |kind: &str| all.iter().find(|condition| condition["type"] == kind);
        let word = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        let is_true = |condition: &&Value| condition["status"] == "True";
        let ending = ["Complete", "Failed"].iter().find_map(|kind| find(kind).filter(is_true));
        let record = find(conditions::PLACEMENT).map(|condition| word(condition, "message"));
        let record: Option<Value> = record.and_then(|record| serde_json::from_str(&record).ok());
        let mut status = job["status"].clone();
        if let Some(list) = status["conditions"].as_array_mut() {
            list.retain(|condition| !word(condition, "type").starts_with("jobferry.dev/"));
        }
        Self {
            uid: text("/metadata/uid").unwrap_or_default(),
            name: text("/metadata/name").unwrap_or_default(),
            is_workload: text("/spec/managedBy").as_deref() == Some(managed_by::DISPATCHER),
            origin: keyed("labels", labels::ORIGIN),
            origin_uid: keyed("annotations", annotations::ORIGIN_UID),
            epoch: keyed("annotations", annotations::EPOCH).and_then(|epoch| epoch.parse().ok()),
            delegated: text("/spec/managedBy").is_some(),
            ending: ending.map(|condition| (word(condition, "type"), word(condition, "reason"))),
            deleting: job["metadata"]["deletionTimestamp"].is_string(),
            suspended: job["spec"]["suspend"] == true || job["spec"]["parallelism"] == 0,
            completions: job["spec"]["completions"].as_u64(),
            tells_edits: keyed("annotations", annotations::FORWARDED).is_some(),
            told: find(conditions::PLACED).map(|told| (is_true(&told), word(told, "reason"))),
            placement: record.and_then(|record| PlacementFacts::of(&record)),
            status,
        }
    }

    fn of_etl_run(run: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (meta, control) = (&run["metadata"], &run["spec"]["control"]);
        // A note of ours, if it is about this object.
        let note = |name: &str| {
            let note: Value = serde_json::from_str(meta["annotations"][name].as_str()?).ok()?;
            (note["of"] == meta["uid"]).then_some(note)
        };
        let ending = match run["status"]["phase"].as_str() {
            Some("Done") => Some("Complete"),
            Some("Broken") => Some("Failed"),
            _ => None,
        };
        let told = note(annotations::PLACED);
        Self {
            uid: text(&meta["uid"]).unwrap_or_default(),
            name: text(&meta["name"]).unwrap_or_default(),
            is_workload: control["managedBy"] == managed_by::DISPATCHER,
            origin: text(&meta["labels"][labels::ORIGIN]),
            origin_uid: text(&meta["annotations"][annotations::ORIGIN_UID]),
            epoch: meta["annotations"][annotations::EPOCH].as_str().and_then(|epoch| epoch.parse().ok()),
            delegated: control["managedBy"].as_str().is_some_and(|name| name != OPERATOR),
            ending: ending.map(|kind| (kind.to_owned(), String::new())),
            deleting: meta["deletionTimestamp"].is_string(),
            suspended: control["paused"] == true,
            completions: None,
            tells_edits: meta["annotations"][annotations::FORWARDED].is_string(),
            told: told.map(|told| (told["placed"] == true, text(&told["reason"]).unwrap_or_default())),
            placement: note(annotations::PLACEMENT).and_then(|record| PlacementFacts::of(&record)),
            status: run["status"].clone(),
        }
    }

    /// The end that it has come to, or has announced, and the reason.
    pub fn announced(&self) -> impl Iterator<Item = (String, String)> + use<> {
        let ends = [
            ("Complete", "Complete"),
            ("SuccessCriteriaMet", "Complete"),
            ("Failed", "Failed"),
            ("FailureTarget", "Failed"),
        ];
        let list = self.status["conditions"].as_array().cloned().unwrap_or_default();
        let said = list.into_iter().filter(|condition| condition["status"] == "True").filter_map(move |condition| {
            let (_, end) = ends.into_iter().find(|(kind, _)| condition["type"] == *kind)?;
            Some((end.to_owned(), condition["reason"].as_str().unwrap_or_default().to_owned()))
        });
        self.ending.clone().into_iter().chain(said)
    }

    /// Of a Job on a worker: its admission made it something that nobody can use, and which is taken back.
    pub fn is_altered(&self) -> bool {
        !self.is_mirror() || self.epoch.is_none() || self.delegated
    }

    /// Both marks that make it a mirror.
    pub fn is_mirror(&self) -> bool {
        self.origin.is_some() && self.origin_uid.is_some()
    }
}
