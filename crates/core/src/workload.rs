//! What the dispatcher keeps of a user's workload and of its mirror.
//!
//! Both are decoded straight from the API server's JSON; everything that no decision reads is skipped on the way.

use job_api::{SpecView, conditions};
use jobferry_api as api;
use k8s_openapi::{api::batch::v1::JobStatus, apimachinery::pkg::apis::meta::v1::Time};
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::Value;
use std::collections::BTreeMap;

use crate::{
    claim::DEFAULT_REPLACEMENT,
    custom::{CustomMirror, CustomWorkload},
    fingerprint::fingerprint,
    forward::{self, Digest, Forwarded, Template},
    record::{Placement, Record},
};

/// A user's workload on the management cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its identity: names are reused, UIDs are not.
    pub uid: String,
    /// The version that this view was read at; every write carries it.
    pub resource_version: String,
    /// Somebody asked for its deletion.
    pub deleting: bool,
    /// `spec.managedBy`.
    pub managed_by: Option<String>,
    /// The spec fields that statuses are written by.
    pub spec: SpecView,
    /// The minor version (of Kubernetes 1) below which a server would drop a field of the spec.
    pub needs_minor: u32,
    /// The `DispatchPolicy` that it names.
    pub policy: Option<String>,
    /// Somebody else's controller writes its status, though managedBy says that it is ours: the name by which it writes.
    pub acted_on: Option<String>,
    /// Which workers the user allows.
    pub narrowing: Narrowing,
    /// Where it was placed, as recorded on it.
    pub record: Record,
    /// The worker that its label names. Users can write it: a hint, never a record.
    pub worker_label: Option<String>,
    /// What people were last told about its placement.
    pub placed: Option<Told>,
    /// A fingerprint of everything that is forwarded to its mirror.
    pub forwardable: Digest,
    /// Its status without our own conditions. Of another kind than Job: in the words of a Job.
    pub status: JobStatus,
    /// What more is known of it if it is of another kind than Job.
    pub custom: Option<Box<CustomWorkload>>,
}

/// What there is to do for a workload, the most pressing first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errand {
    /// It is being deleted: what runs of it is to be stopped.
    Remove,
    /// It has no worker yet. It goes before the progress of others: that is the order in which clusters are kept busy, and
    /// what is told of a burst is then told in fewer words.
    Start,
    /// It is under way, or over, or waits for its user.
    Follow,
}

/// A user's limits on where a workload may go: what the annotations say, not yet interpreted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Narrowing {
    /// `jobferry.dev/workers`: names, separated by commas.
    pub workers: Option<String>,
    /// `jobferry.dev/worker-selector`: a label selector over Workers.
    pub selector: Option<String>,
}

/// The `Placed` condition as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// `True` or `False`.
    pub holds: bool,
    /// Its reason.
    pub reason: String,
    /// Its text.
    pub message: String,
    /// When it was last written.
    pub at: Option<Time>,
}

impl Told {
    /// What it says, whenever it was said.
    pub fn fingerprint(&self) -> u64 {
        fingerprint([u8::from(self.holds)].into_iter().chain(self.reason.bytes()).chain(self.message.bytes()))
    }
}

/// A workload's copy on a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Mirror {
    /// Its namespace, the same as the workload's.
    pub namespace: String,
    /// Its name, the same as the workload's.
    pub name: String,
    /// Its own UID: every delete carries it.
    pub uid: String,
    /// The version that this view was read at.
    pub resource_version: String,
    /// The UID of the workload that it was made from.
    pub origin_uid: String,
    /// The placement that it was made for. `None`: the mark cannot be read, so nothing may be concluded from it.
    pub epoch: Option<u32>,
    /// The manager's resourceVersion when it was made. `None`: the mark cannot be read.
    pub manager_version: Option<u64>,
    /// Somebody gave it to this other controller, so the worker does not run it.
    pub controller: Option<String>,
    /// Somebody asked for its deletion; its pods may still run.
    pub deleting: bool,
    /// A fingerprint of what was last forwarded to it. `None`: somebody took the mark off, and nothing is forwarded.
    pub forwarded: Option<Digest>,
    /// Its status. Of another kind than Job: in the words of a Job.
    pub status: JobStatus,
    /// What more is known of it if it is of another kind than Job.
    pub custom: Option<Box<CustomMirror>>,
}

impl Mirror {
    /// Whether it was made of a later state of the workload than this one: somebody has recorded a placement since, which we
    /// have not seen yet. Nothing is concluded from what our record says of it.
    pub fn is_younger_than(&self, workload: &Workload) -> bool {
        let known = workload.resource_version.parse::<u64>().ok();
        self.manager_version.zip(known).is_some_and(|(made_of, known)| made_of > known)
    }
}

impl Workload {
    /// Whether the dispatcher is responsible for it.
    pub fn is_ours(&self) -> bool {
        self.managed_by.as_deref() == Some(api::managed_by::DISPATCHER)
    }

    /// A Job to the eyes of the dispatcher that answers to `name`: what is handed to that name is ours, and nothing else.
    /// Of another kind it was said before what is ours.
    pub fn be_seen_by(&mut self, name: &str) {
        if self.custom.is_none() && name != api::managed_by::DISPATCHER {
            let ours = self.managed_by.as_deref() == Some(name);
            self.managed_by = ours.then(|| api::managed_by::DISPATCHER.to_owned());
        }
    }

    /// Complete or Failed, for good.
    pub fn is_finished(&self) -> bool {
        is_finished(&self.status)
    }

    /// Whether people were last told that it is placed.
    pub fn is_said_to_be_placed(&self) -> bool {
        self.placed.as_ref().is_some_and(|told| told.holds)
    }

    /// Whether nothing speaks of a placement, not even an old one.
    pub fn is_new(&self) -> bool {
        self.record == Record::None && self.worker_label.is_none() && !self.is_said_to_be_placed()
    }

    /// Whether its user holds it back. With nothing to complete there is nothing to hold back: the built-in controller ends
    /// such a Job at once.
    pub fn is_held_back(&self) -> bool {
        self.spec.suspended && self.spec.completions != Some(0)
    }

    /// What there is to do for it, as far as the order of work is concerned.
    pub fn errand(&self) -> Errand {
        if self.deleting {
            Errand::Remove
        } else if matches!(self.record, Record::None) && !self.is_finished() && !self.spec.suspended {
            Errand::Start
        } else {
            Errand::Follow
        }
    }
}

impl Mirror {
    /// Whether it is the mirror of this placement: by its mark, or, whatever somebody made of the mark, by its UID.
    pub fn belongs_to(&self, at: &Placement) -> bool {
        self.epoch == Some(at.epoch) || at.mirror.as_ref() == Some(&self.uid)
    }

    /// Complete or Failed, for good.
    pub fn is_finished(&self) -> bool {
        is_finished(&self.status)
    }
}

fn is_finished(status: &JobStatus) -> bool {
    status.conditions.as_deref().is_some_and(conditions::is_finished)
}

impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WireJob::<Map, Map, Template>::deserialize(deserializer)?;
        let (labels, annotations) =
            (wire.metadata.labels.unwrap_or_default(), wire.metadata.annotations.unwrap_or_default());
        let said = Forwarded::from_parts(wire.spec.forwarded_fields(), &labels, &annotations);
        let needs_minor = wire.spec.needs_minor();
        let forwardable = said.with_template(wire.spec.template).digest();
        let mut status = wire.status;
        let mut record = Record::None;
        let mut placed = None;
        status.conditions.get_or_insert_default().retain(|condition| match condition.type_.as_str() {
            api::conditions::PLACEMENT => {
                record = Record::read(condition.message.as_deref().unwrap_or_default());
                false
            }
            api::conditions::PLACED => {
                placed = Some(Told {
                    holds: condition.status == conditions::TRUE,
                    reason: condition.reason.clone().unwrap_or_default(),
                    message: condition.message.clone().unwrap_or_default(),
                    at: condition.last_transition_time.clone(),
                });
                false
            }
            _ => true,
        });
        // Our own conditions have left more room than the others need, for as long as the workload is known.
        status.conditions.as_mut().map(Vec::shrink_to_fit);
        Ok(Self {
            namespace: wire.metadata.namespace,
            name: wire.metadata.name,
            uid: wire.metadata.uid,
            resource_version: wire.metadata.resource_version,
            deleting: wire.metadata.deletion_timestamp.is_some(),
            needs_minor,
            policy: labels.get(api::labels::POLICY).cloned(),
            acted_on: (wire.metadata.managed_fields.into_iter().flatten())
                .find(|writer| {
                    writer.is_the_built_in_controller()
                        && wrote_since(writer.time.as_deref(), wire.metadata.creation_timestamp.as_deref())
                })
                .map(|writer| writer.manager),
            managed_by: wire.spec.managed_by,
            spec: SpecView {
                completions: wire.spec.completions,
                parallelism: wire.spec.parallelism,
                indexed: wire.spec.completion_mode.as_deref() == Some("Indexed"),
                suspended: wire.spec.suspend == Some(true),
                has_backoff_limit_per_index: wire.spec.backoff_limit_per_index.is_some(),
                has_success_policy: wire.spec.success_policy.is_some(),
                active_deadline_seconds: wire.spec.active_deadline_seconds,
            },
            narrowing: Narrowing {
                workers: annotations.get(api::annotations::WORKERS).cloned(),
                selector: annotations.get(api::annotations::WORKER_SELECTOR).cloned(),
            },
            record,
            worker_label: labels.get(api::labels::WORKER).cloned(),
            placed,
            forwardable,
            status,
            custom: None,
        })
    }
}

impl<'de> Deserialize<'de> for Mirror {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WireJob::<MirrorMarks, IgnoredAny, WireTemplate>::deserialize(deserializer)?;
        let marks = wire.metadata.annotations.unwrap_or_default();
        Ok(Self {
            namespace: wire.metadata.namespace,
            name: wire.metadata.name,
            uid: wire.metadata.uid,
            resource_version: wire.metadata.resource_version,
            // The label that its pods inherit cannot be taken off once it runs.
            origin_uid: wire.spec.template.origin_uid().unwrap_or(marks.origin_uid),
            epoch: marks.epoch.parse().ok(),
            manager_version: marks.manager_version.parse().ok(),
            controller: wire.spec.managed_by.filter(|name| name != job_api::managed_by::RESERVED),
            deleting: wire.metadata.deletion_timestamp.is_some(),
            forwarded: marks.forwarded.as_deref().map(forward::digest),
            status: wire.status,
            custom: None,
        })
    }
}

#[derive(Deserialize, Default)]
struct MirrorMarks {
    #[serde(rename = "jobferry.dev/origin-uid", default)]
    origin_uid: String,
    #[serde(rename = "jobferry.dev/epoch", default)]
    epoch: String,
    #[serde(rename = "jobferry.dev/manager-resource-version", default)]
    manager_version: String,
    #[serde(rename = "jobferry.dev/forwarded", default)]
    forwarded: Option<String>,
}

/// What a mirror's pods are labelled with.
#[derive(Deserialize, Default)]
#[serde(default)]
struct WireTemplate {
    metadata: Option<WireTemplateMeta>,
}

impl WireTemplate {
    fn origin_uid(self) -> Option<String> {
        self.metadata?.labels?.origin_uid.filter(|uid| !uid.is_empty())
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireTemplateMeta {
    labels: Option<PodMarks>,
}

#[derive(Deserialize, Default)]
struct PodMarks {
    #[serde(rename = "jobferry.dev/origin-uid", default)]
    origin_uid: Option<String>,
}

type Map = BTreeMap<String, String>;

/// The JSON of a Job, as far as we read it. `A` is the annotations that matter, `L` the labels, `T` what matters of the template.
#[derive(Deserialize)]
struct WireJob<A, L, T: Default> {
    metadata: WireMeta<A, L>,
    #[serde(default)]
    spec: WireSpec<T>,
    #[serde(default)]
    status: JobStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMeta<A, L> {
    #[serde(default)]
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<IgnoredAny>,
    managed_fields: Option<Vec<Writer>>,
    labels: Option<L>,
    annotations: Option<A>,
}

/// Somebody who wrote the object, as the API server notes it.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Writer {
    manager: String,
    subresource: String,
    time: Option<String>,
}

/// Whether somebody wrote an object after it was created: a copy of another one may have come with the names of its writers. The
/// API server writes both times alike, in UTC.
pub(crate) fn wrote_since(time: Option<&str>, created: Option<&str>) -> bool {
    time.zip(created).is_none_or(|(time, created)| time >= created)
}

impl Writer {
    fn is_the_built_in_controller(&self) -> bool {
        self.subresource == "status" && self.manager == "kube-controller-manager"
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec<T: Default> {
    managed_by: Option<String>,
    completions: Option<i32>,
    parallelism: Option<i32>,
    completion_mode: Option<String>,
    suspend: Option<bool>,
    backoff_limit_per_index: Option<i32>,
    success_policy: Option<IgnoredAny>,
    active_deadline_seconds: Option<i64>,
    backoff_limit: Option<i64>,
    max_failed_indexes: Option<i64>,
    pod_replacement_policy: Option<String>,
    template: T,
}

impl<T: Default> WireSpec<T> {
    /// Servers drop fields whose feature they do not have, without a word: the Job would run with another meaning.
    fn needs_minor(&self) -> u32 {
        if self.success_policy.is_some() {
            return 31;
        }
        let per_index = self.backoff_limit_per_index.is_some() || self.max_failed_indexes.is_some();
        // Without the feature pods are replaced as by the default.
        let replaced = self.pod_replacement_policy.as_deref().is_some_and(|policy| policy != DEFAULT_REPLACEMENT);
        if per_index || replaced { 29 } else { 0 }
    }

    fn forwarded_fields(&self) -> [(&'static str, Value); forward::FIELDS.len()] {
        [
            ("activeDeadlineSeconds", self.active_deadline_seconds.into()),
            ("backoffLimit", self.backoff_limit.into()),
            ("completions", self.completions.into()),
            ("maxFailedIndexes", self.max_failed_indexes.into()),
            ("parallelism", self.parallelism.into()),
            ("podReplacementPolicy", self.pod_replacement_policy.clone().into()),
            ("suspend", self.suspend.into()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_workload_is_read_from_the_servers_json_and_our_own_conditions_are_set_apart() {
        let workload: Workload = serde_json::from_value(json!({
            "metadata": {"namespace": "ml", "name": "train", "uid": "u1", "resourceVersion": "7",
                         "annotations": {"jobferry.dev/workers": "eu-1,eu-2", "other": "x"}, "managedFields": [{"a": 1}]},
            "spec": {"managedBy": "jobferry.dev/dispatcher", "completions": 3, "completionMode": "Indexed", "template": {"spec": {}}},
            "status": {"active": 1, "conditions": [
                {"type": "jobferry.dev/Placement", "status": "True", "message": "not json"},
                {"type": "jobferry.dev/Placed", "status": "False", "reason": "NoWorkerFits", "message": "2 cordoned"},
                {"type": "Suspended", "status": "False"}]},
        }))
        .unwrap();
        assert!(workload.is_ours() && workload.spec.indexed && !workload.deleting);
        assert_eq!(workload.narrowing.workers.as_deref(), Some("eu-1,eu-2"));
        assert_eq!(workload.record, Record::Unreadable);
        assert_eq!(workload.placed.as_ref().map(|told| told.reason.as_str()), Some("NoWorkerFits"));
        let types: Vec<_> = workload.status.conditions.iter().flatten().map(|c| c.type_.as_str()).collect();
        assert_eq!(types, ["Suspended"]);
    }

    #[test]
    fn what_is_deleted_goes_before_what_is_new_and_that_before_everything_else() {
        let errand = |metadata: Value, spec: Value| {
            let mut job = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}, "spec": spec});
            job["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
            serde_json::from_value::<Workload>(job).unwrap().errand()
        };
        assert_eq!(errand(json!({}), json!({"template": {}})), Errand::Start);
        assert_eq!(errand(json!({}), json!({"suspend": true})), Errand::Follow, "its user has not let it go yet");
        let deleted = json!({"deletionTimestamp": "2026-11-15T10:00:00Z"});
        assert_eq!(errand(deleted, json!({"suspend": true})), Errand::Remove);
    }

    #[test]
    fn a_job_is_that_dispatchers_whose_name_it_bears() {
        let (ours, other) = (api::managed_by::DISPATCHER, "example.com/other");
        for (managed_by, to_us, to_the_other) in [
            (Some(ours), true, false),
            (Some(other), false, true),
            (Some("example.com/third"), false, false),
            (None, false, false),
        ] {
            let job = json!({
                "metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}, "spec": {"managedBy": managed_by, "template": {}},
            });
            let job: Workload = serde_json::from_value(job).unwrap();
            for (dispatcher, is_its) in [(ours, to_us), (other, to_the_other)] {
                let mut seen: Workload = job.clone();
                seen.be_seen_by(dispatcher);
                assert_eq!(seen.is_ours(), is_its, "{managed_by:?} to {dispatcher}");
            }
        }
    }

    #[test]
    fn what_is_forwardable_is_the_same_whether_read_lean_or_whole() {
        let job = json!({
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "labels": {"team": "ml", "job-name": "a"},
                         "annotations": {"note": "x", "jobferry.dev/workers": "eu-1"}},
            "spec": {"activeDeadlineSeconds": 5, "backoffLimit": 6, "completions": 3, "maxFailedIndexes": 1,
                     "parallelism": 2, "podReplacementPolicy": "Failed", "suspend": false, "template": {
                         "metadata": {"labels": {"app": "a", "job-name": "a"}, "annotations": {"note": "x"}},
                         "spec": {"nodeSelector": {"zone": "a"}, "affinity": {"nodeAffinity": {"to": "gpus"}}, "tolerations": [],
                                  "schedulingGates": [{"name": "g"}], "containers": [
                                      {"name": "c", "image": "i", "resources": {"requests": {"memory": "1Gi", "cpu": "1"}}}]},
                     }},
        });
        let lean: Workload = serde_json::from_value(job.clone()).unwrap();
        assert_eq!(lean.forwardable, Forwarded::of(&job).digest());
    }

    #[test]
    fn a_job_without_status_and_annotations_is_read_too() {
        let bare = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}, "spec": {"template": {}}});
        let workload: Workload = serde_json::from_value(bare).unwrap();
        assert!(!workload.is_ours() && !workload.is_finished());
        assert_eq!(workload.record, Record::None);
    }
}
