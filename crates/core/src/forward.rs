//! Edits of the user's Job that must reach its mirror: each change once.
//!
//! What was last forwarded stands on the mirror. Only what differs from *that* is sent, never what differs from the
//! mirror itself: when a worker's own Kueue suspends the mirror, that is reported, not fought.
//!
//! - `template`: what of the pod template may change while a Job is suspended.

mod template;

use std::collections::BTreeMap;

use job_api::{
    IndexSet,
    conditions::{SUSPENDED, TRUE},
};
use jobferry_api::annotations;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{fingerprint::fingerprint, ownership::is_users_own, record::Carried};
pub(crate) use template::{Noted, Template};

/// The fields of a Job's spec that may change while it runs and that mean the same on a worker.
pub const FIELDS: [&str; 7] = [
    "activeDeadlineSeconds",
    "backoffLimit",
    "completions",
    "maxFailedIndexes",
    "parallelism",
    "podReplacementPolicy",
    "suspend",
];

/// What a user's Job says, as far as it is forwarded: values of spec fields, and a fingerprint of each own label and
/// annotation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Forwarded {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) spec: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    /// `None`: what the mirror's template was made of is not known, or the kind has rules of its own for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<Noted>,
}

/// A fingerprint of a whole [`Forwarded`]: equal means that there is nothing to forward.
pub type Digest = u64;

impl Forwarded {
    /// What this Job says now.
    pub fn of(job: &Value) -> Self {
        let text = |map: Option<&Value>| -> BTreeMap<String, String> {
            let map = map.and_then(Value::as_object).into_iter().flatten();
            map.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
        };
        let spec = |field| job.get("spec").and_then(|spec| spec.get(field)).cloned().unwrap_or_default();
        Self::from_parts(
            FIELDS.into_iter().map(|field| (field, spec(field))),
            &text(job.pointer("/metadata/labels")),
            &text(job.pointer("/metadata/annotations")),
        )
        .with_template(Template::of(job.pointer("/spec/template")))
    }

    /// The same, with what may change in this pod template.
    #[must_use]
    pub(crate) fn with_template(self, template: Template) -> Self {
        Self { template: Some(template.noted()), ..self }
    }

    /// The same, from fields that were decoded already.
    pub(crate) fn from_parts(
        spec: impl IntoIterator<Item = (impl Into<String>, Value)>,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Self {
        let fingerprints = |map: &BTreeMap<String, String>| {
            let own = map.iter().filter(|(key, _)| is_users_own(key));
            own.map(|(key, value)| (key.clone(), format!("{:x}", fingerprint(value.bytes())))).collect()
        };
        Self {
            spec: spec
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(field, value)| (field.into(), value))
                .collect(),
            labels: fingerprints(labels),
            annotations: fingerprints(annotations),
            template: None,
        }
    }

    /// The same, suspended or not as the other one is.
    #[must_use]
    fn suspended_as(mut self, other: &Self) -> Self {
        match other.spec.get("suspend") {
            Some(suspend) => self.spec.insert("suspend".into(), suspend.clone()),
            None => self.spec.remove("suspend"),
        };
        self
    }

    /// How it stands in the mirror's annotation.
    pub fn annotation(&self) -> String {
        // Maps of strings and JSON values always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The fingerprint of the whole.
    pub fn digest(&self) -> Digest {
        digest(&self.annotation())
    }
}

/// The fingerprint of what a mirror's annotation says.
pub fn digest(annotation: &str) -> Digest {
    fingerprint(annotation.bytes())
}

/// How much of what its user changed a mirror is to get. A worker that refuses one change refuses all that came with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// All of it.
    Everything,
    /// All but the pod template, which some workers take of no Job that has run before.
    AllButTemplate,
    /// The pod template, and whether it is suspended: what does not come before the pods start comes too late.
    TemplateAndSuspension,
    /// Whether it is suspended: whatever else is refused, what is to stop must stop.
    Suspension,
}

impl Share {
    /// In the order in which they are tried.
    pub const ALL: [Self; 4] = [Self::Everything, Self::AllButTemplate, Self::TemplateAndSuspension, Self::Suspension];
}

/// The patch (RFC 7386) that brings the mirror up to date with its user's Job, or `None` if nothing is to be forwarded now.
/// Both are raw JSON, read fresh; the patch carries the mirror's uid and resourceVersion.
pub fn edit(job: &Value, mirror: &Value, carried: Carried, share: Share) -> Option<Value> {
    let annotation = mirror.pointer("/metadata/annotations")?.get(annotations::FORWARDED)?.as_str()?;
    let before: Forwarded = serde_json::from_str(annotation).ok()?;
    let now = next(&before, Forwarded::of(job), mirror, share);
    if now == before {
        return None;
    }
    let mut spec = Map::new();
    for field in FIELDS {
        let value = now.spec.get(field);
        if value != before.spec.get(field) {
            spec.insert(field.into(), on_mirror(field, value.cloned().unwrap_or_default(), carried));
        }
    }
    if let (Some(before), Some(now)) = (&before.template, &now.template)
        && let Some(template) = template::edit(before, now, &job["spec"]["template"], &mirror["spec"]["template"])
    {
        spec.insert("template".into(), template);
    }
    let labels = changes(&before.labels, &now.labels, job.pointer("/metadata/labels"));
    let mut own_annotations = changes(&before.annotations, &now.annotations, job.pointer("/metadata/annotations"));
    own_annotations.insert(annotations::FORWARDED.into(), now.annotation().into());
    Some(json!({
        "metadata": {
            "uid": mirror.pointer("/metadata/uid"), "resourceVersion": mirror.pointer("/metadata/resourceVersion"),
            "labels": labels, "annotations": own_annotations,
        },
        "spec": spec,
    }))
}

/// What the mirror is to say next, on its way from `before` to `wanted`: a server does not take every change at once.
fn next(before: &Forwarded, wanted: Forwarded, mirror: &Value, share: Share) -> Forwarded {
    let has_new_template = before.template.is_some() && before.template != wanted.template;
    let is_suspended = mirror["spec"]["suspend"] == true;
    let mut rest = Forwarded { template: before.template.clone(), ..wanted.clone() };
    // A template can change only where pods are held back and gone: what stops them goes ahead of it, and what lets them go
    // waits to go along with it.
    let is_stopping = has_new_template && is_suspended && !has_stopped(&mirror["status"]);
    if is_stopping {
        rest = rest.suspended_as(before);
    }
    let goes_ahead = is_stopping || (has_new_template && !is_suspended && rest != *before);
    let mut now = match share {
        Share::Everything if !goes_ahead => wanted,
        Share::Everything | Share::AllButTemplate => rest,
        Share::TemplateAndSuspension if !goes_ahead => {
            Forwarded { template: wanted.template.clone(), ..before.clone() }.suspended_as(&wanted)
        }
        Share::TemplateAndSuspension | Share::Suspension => before.clone().suspended_as(&rest),
    };
    // The number of indexes changes in tandem with that of pods only, which is put right afterwards.
    if let Some(completions) = now.spec.get("completions").filter(|new| before.spec.get("completions") != Some(*new)) {
        now.spec.insert("parallelism".into(), completions.clone());
    } else if counts_lost_indexes(mirror) {
        let parallelism = before.spec.get("parallelism").cloned();
        now.spec.extend(parallelism.map(|parallelism| ("parallelism".to_owned(), parallelism)));
    }
    now
}

/// Whether the worker still counts indexes that the mirror does not have any more. It may take back successes only as long as
/// there are as many pods as indexes: if that changed now, no status of the mirror would ever be legal again.
fn counts_lost_indexes(mirror: &Value) -> bool {
    let Some(completions) = mirror["spec"]["completions"].as_u64() else { return false };
    let counted = mirror["status"]["completedIndexes"].as_str().unwrap_or_default();
    let counted = IndexSet::parse(counted, i32::MAX).unwrap_or_default();
    counted.clip(u32::try_from(completions).unwrap_or(u32::MAX)) != counted
}

/// Whether the worker has stopped what is suspended, and says so.
fn has_stopped(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let is_suspended = conditions.into_iter().any(|one| one["type"] == SUSPENDED && one["status"] == TRUE);
    is_suspended && status["active"].as_i64().unwrap_or(0) == 0
}

/// A spec field's value on the mirror: pods that failed in earlier epochs count against the same limit.
pub(crate) fn on_mirror(field: &str, value: Value, carried: Carried) -> Value {
    match value.as_i64() {
        Some(limit) if field == "backoffLimit" => (limit - i64::from(carried.failed)).max(0).into(),
        _ => value,
    }
}

/// New and changed keys with their values, removed ones with null.
pub(crate) fn changes(
    before: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
    values: Option<&Value>,
) -> Map<String, Value> {
    let value = |key: &str| values.and_then(|values| values.get(key)).cloned().unwrap_or_default();
    let changed = now.iter().filter(|(key, print)| before.get(*key) != Some(print)).map(|(key, _)| key);
    let mut patch: Map<_, _> = changed.map(|key| (key.clone(), value(key))).collect();
    patch.extend(before.keys().filter(|key| !now.contains_key(*key)).map(|key| (key.clone(), Value::Null)));
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Value {
        json!({
            "metadata": {"labels": {"team": "ml", "job-name": "train"}, "annotations": {"note": "x"}},
            "spec": {"parallelism": 2, "completions": 4, "suspend": false, "backoffLimit": 6},
        })
    }

    fn mirror_of(job: &Value) -> Value {
        json!({"metadata": {"uid": "m1", "resourceVersion": "7",
                            "annotations": {annotations::FORWARDED: Forwarded::of(job).annotation()}}})
    }

    fn whole(job: &Value, mirror: &Value) -> Option<Value> {
        edit(job, mirror, Carried::default(), Share::Everything)
    }

    /// The parts of the patch that are the user's edit.
    fn edited(change: impl FnOnce(&mut Value)) -> (Value, Value, Value) {
        let (before, mut now) = (job(), job());
        change(&mut now);
        let patch = whole(&now, &mirror_of(&before)).expect("something to forward");
        let mut annotations = patch["metadata"]["annotations"].clone();
        let stamp = annotations.as_object_mut().unwrap().remove(annotations::FORWARDED).unwrap();
        assert_eq!(stamp, Forwarded::of(&now).annotation(), "the edit is marked as forwarded in the same write");
        assert_eq!((&patch["metadata"]["uid"], &patch["metadata"]["resourceVersion"]), (&json!("m1"), &json!("7")));
        (patch["spec"].clone(), patch["metadata"]["labels"].clone(), annotations)
    }

    #[test]
    fn only_what_the_user_changed_is_sent() {
        assert_eq!(whole(&job(), &mirror_of(&job())), None);
        let change = edited(|job| job["spec"]["suspend"] = json!(true));
        assert_eq!(change, (json!({"suspend": true}), json!({}), json!({})));
        let change = edited(|job| job["spec"]["activeDeadlineSeconds"] = json!(60));
        assert_eq!(change.0, json!({"activeDeadlineSeconds": 60}));
        let change = edited(|job| drop(job["spec"].as_object_mut().unwrap().remove("parallelism")));
        assert_eq!(change.0, json!({"parallelism": null}));
    }

    #[test]
    fn labels_and_annotations_are_added_changed_and_removed() {
        let (spec, labels, annotations) = edited(|job| {
            job["metadata"]["labels"] = json!({"stage": "2", "controller-uid": "u"});
            job["metadata"]["annotations"] = json!({"note": "y", "jobferry.dev/workers": "eu-1"});
        });
        assert_eq!((spec, labels), (json!({}), json!({"stage": "2", "team": null})));
        assert_eq!(annotations, json!({"note": "y"}));
    }

    #[test]
    fn every_field_that_may_change_while_a_job_runs_is_forwarded() {
        for (field, value) in [
            ("activeDeadlineSeconds", json!(60)),
            ("backoffLimit", json!(3)),
            ("maxFailedIndexes", json!(1)),
            ("parallelism", json!(5)),
            ("podReplacementPolicy", json!("Failed")),
            ("suspend", json!(true)),
        ] {
            let change = edited(|job| job["spec"][field] = value.clone());
            assert_eq!(change, (json!({field: value}), json!({}), json!({})));
        }
    }

    #[test]
    fn the_number_of_indexes_changes_in_tandem_with_that_of_pods_which_follows() {
        let (before, mut now) = (job(), job());
        now["spec"]["completions"] = json!(5);
        now["spec"]["parallelism"] = json!(3);
        let mut mirror = mirror_of(&before);
        let patch = whole(&now, &mirror).unwrap();
        assert_eq!(patch["spec"], json!({"completions": 5, "parallelism": 5}));
        mirror["metadata"]["annotations"] = patch["metadata"]["annotations"].clone();
        let patch = whole(&now, &mirror).unwrap();
        assert_eq!(patch["spec"], json!({"parallelism": 3}));
        mirror["metadata"]["annotations"] = patch["metadata"]["annotations"].clone();
        assert_eq!(whole(&now, &mirror), None);
    }

    #[test]
    fn what_a_worker_refuses_does_not_hold_back_what_came_with_it() {
        let (mut job, mut mirror) = suspended();
        job["spec"]["template"]["spec"]["nodeSelector"]["zone"] = json!("b");
        job["spec"]["suspend"] = json!(false);
        job["spec"]["backoffLimit"] = json!(9);
        let patch = |mirror: &Value, share| edit(&job, mirror, Carried::default(), share);
        let rest = patch(&mirror, Share::AllButTemplate).unwrap();
        assert_eq!(rest["spec"], json!({"suspend": false, "backoffLimit": 9}));
        let first_things = patch(&mirror, Share::TemplateAndSuspension).unwrap();
        assert_eq!(
            first_things["spec"],
            json!({"suspend": false, "template": {"spec": {"nodeSelector": {"zone": "b"}}}})
        );
        assert_eq!(patch(&mirror, Share::Suspension).unwrap()["spec"], json!({"suspend": false}));
        mirror["metadata"]["annotations"] = rest["metadata"]["annotations"].clone();
        assert_eq!(spec_of(whole(&job, &mirror)), json!({"template": {"spec": {"nodeSelector": {"zone": "b"}}}}));
        assert_eq!([Share::AllButTemplate, Share::Suspension].map(|share| patch(&mirror, share)), [None, None]);
    }

    #[test]
    fn indexes_that_are_gone_are_taken_back_by_the_worker_before_the_number_of_pods_changes_alone() {
        let (mut before, mut now) = (job(), job());
        (before["spec"]["completions"], before["spec"]["parallelism"]) = (json!(2), json!(2));
        (now["spec"]["completions"], now["spec"]["parallelism"]) = (json!(2), json!(1));
        let mut mirror = mirror_of(&before);
        mirror["spec"] = before["spec"].clone();
        mirror["status"]["completedIndexes"] = json!("1-3");
        assert_eq!(whole(&now, &mirror), None);
        now["spec"]["backoffLimit"] = json!(9);
        assert_eq!(whole(&now, &mirror).unwrap()["spec"], json!({"backoffLimit": 9}), "that is no reason to wait");
        now["spec"]["completions"] = json!(5);
        let grown = json!({"backoffLimit": 9, "completions": 5, "parallelism": 5});
        assert_eq!(whole(&now, &mirror).unwrap()["spec"], grown, "both change");
        mirror["status"]["completedIndexes"] = json!("1");
        now["spec"]["completions"] = json!(2);
        assert_eq!(whole(&now, &mirror).unwrap()["spec"], json!({"backoffLimit": 9, "parallelism": 1}));
    }

    #[test]
    fn a_worker_that_shows_something_else_in_place_of_an_object_is_sent_no_nonsense() {
        let (before, mirror) = suspended();
        let mut job = before;
        job["spec"]["template"]["metadata"]["labels"]["app"] = json!("serve");
        job["spec"]["template"]["spec"]["nodeSelector"]["zone"] = json!("b");
        job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"] = json!({"required": "x"});
        job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
        let places = ["", "/metadata", "/metadata/labels", "/spec", "/spec/nodeSelector", "/spec/affinity"];
        let lists = ["/spec/containers", "/spec/containers/0", "/spec/containers/0/resources"];
        for place in places.into_iter().chain(lists) {
            for nonsense in [json!("x"), json!(7), json!(true), json!([1]), json!([]), Value::Null] {
                let mut mirror = mirror.clone();
                *mirror.pointer_mut(&format!("/spec/template{place}")).unwrap() = nonsense.clone();
                let patch = whole(&job, &mirror).expect("the fingerprints differ");
                assert!(patch["spec"].get("suspend").is_none(), "{place} is {nonsense}: {patch}");
            }
        }
    }

    /// A suspended Job with a template, and its mirror as a worker shows it.
    fn suspended() -> (Value, Value) {
        let mut job = job();
        job["spec"]["suspend"] = json!(true);
        job["spec"]["template"] = json!({
            "metadata": {"labels": {"app": "train"}},
            "spec": {
                "nodeSelector": {"zone": "a", "disk": "ssd"}, "affinity": {"podAffinity": {"of": "others"}},
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
            },
        });
        let mut mirror = mirror_of(&job);
        mirror["spec"] = job["spec"].clone();
        mirror["status"] = json!({"conditions": [{"type": "Suspended", "status": "True"}]});
        mirror["spec"]["template"]["metadata"]["labels"] = json!({"app": "train", "jobferry.dev/origin-uid": "u1"});
        // What somebody on the worker added.
        mirror["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "batch"}]);
        mirror["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "ZONE"}]);
        (job, mirror)
    }

    fn spec_of(patch: Option<Value>) -> Value {
        patch.map(|patch| patch["spec"].clone()).unwrap_or_default()
    }

    #[test]
    fn what_may_change_in_the_template_of_a_suspended_job_is_forwarded_and_nothing_else_of_it() {
        let edited = |change: fn(&mut Value)| {
            let (mut job, mirror) = suspended();
            change(&mut job["spec"]["template"]);
            spec_of(whole(&job, &mirror))["template"].take()
        };
        let selector = edited(|template| template["spec"]["nodeSelector"] = json!({"zone": "b"}));
        assert_eq!(selector, json!({"spec": {"nodeSelector": {"zone": "b", "disk": null}}}));
        let labels = edited(|template| template["metadata"]["labels"] = json!({"stage": "2"}));
        assert_eq!(labels, json!({"metadata": {"labels": {"stage": "2", "app": null}}}), "our own mark stays");
        let annotations = edited(|template| template["metadata"]["annotations"] = json!({"note": "x"}));
        assert_eq!(annotations, json!({"metadata": {"annotations": {"note": "x"}}}));
        let gates = edited(|template| template["spec"]["schedulingGates"] = json!([{"name": "g"}]));
        assert_eq!(gates, json!({"spec": {"schedulingGates": [{"name": "g"}]}}));
        let affinity = edited(|template| template["spec"]["affinity"]["nodeAffinity"] = json!({"to": "gpus"}));
        assert_eq!(affinity, json!({"spec": {"affinity": {"nodeAffinity": {"to": "gpus"}}}}));
        let tolerations = edited(|template| template["spec"]["tolerations"] = json!([{"key": "spot"}]));
        assert_eq!(tolerations, json!({"spec": {"tolerations": [{"key": "spot"}]}}));
        let resources = edited(|template| template["spec"]["containers"][0]["resources"] = json!({}));
        let container = json!({"name": "c", "image": "i", "env": [{"name": "ZONE"}]});
        assert_eq!(resources, json!({"spec": {"containers": [container]}}), "what the worker added stays");
        assert_eq!(edited(|template| template["spec"]["containers"][0]["image"] = json!("j")), json!(null));
    }

    #[test]
    fn a_template_follows_when_the_mirror_is_stopped_and_goes_along_with_the_resumption() {
        let (mut job, mut mirror) = suspended();
        job["spec"]["template"]["spec"]["nodeSelector"]["zone"] = json!("b");
        let moved = json!({"spec": {"nodeSelector": {"zone": "b"}}});

        let mut resumed = job.clone();
        resumed["spec"]["suspend"] = json!(false);
        resumed["spec"]["backoffLimit"] = json!(9);
        let stopped = mirror["status"].take();
        for not_yet in [json!({"active": 1, "conditions": stopped["conditions"]}), json!({})] {
            mirror["status"] = not_yet;
            assert_eq!(whole(&job, &mirror), None, "its pods are still on their way out");
            let resumption = edit(&resumed, &mirror, Carried::default(), Share::Suspension);
            assert_eq!(resumption, None, "it does not overtake what it should go along with");
            assert_eq!(spec_of(whole(&resumed, &mirror)), json!({"backoffLimit": 9}), "the rest need not wait");
        }
        mirror["status"] = stopped;
        resumed["spec"]["backoffLimit"] = job["spec"]["backoffLimit"].clone();
        let patch = whole(&resumed, &mirror);
        assert_eq!(spec_of(patch), json!({"suspend": false, "template": moved}));

        // The mirror has not heard of the suspension yet.
        let mut running = suspended().0;
        running["spec"]["suspend"] = json!(false);
        mirror["spec"]["suspend"] = json!(false);
        mirror["metadata"]["annotations"] = mirror_of(&running)["metadata"]["annotations"].take();
        let patch = whole(&job, &mirror).unwrap();
        assert_eq!(patch["spec"], json!({"suspend": true}), "a worker refuses both at once");
        mirror["spec"]["suspend"] = json!(true);
        mirror["metadata"]["annotations"] = patch["metadata"]["annotations"].clone();
        assert_eq!(spec_of(whole(&job, &mirror)), json!({"template": moved}));
    }

    #[test]
    fn a_mirror_whose_note_does_not_tell_of_a_template_gets_no_other() {
        let (mut job, mut mirror) = suspended();
        let untold = Forwarded { template: None, ..Forwarded::of(&job) };
        mirror["metadata"]["annotations"][annotations::FORWARDED] = untold.annotation().into();
        job["spec"]["template"]["spec"]["nodeSelector"]["zone"] = json!("b");
        assert_eq!(spec_of(whole(&job, &mirror)), json!({}));
    }

    #[test]
    fn the_back_off_limit_of_a_mirror_counts_what_failed_before() {
        let mut now = job();
        now["spec"]["backoffLimit"] = json!(3);
        let patch = edit(&now, &mirror_of(&job()), Carried { failed: 2 }, Share::Everything).unwrap();
        assert_eq!(patch["spec"]["backoffLimit"], 1);
    }

    #[test]
    fn fields_that_are_the_managers_own_are_not_forwarded() {
        let mut now = job();
        now["spec"]["ttlSecondsAfterFinished"] = json!(5);
        now["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json!("{}");
        now["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"] = json!("jobs:batch/Job:ml/train");
        assert_eq!(whole(&now, &mirror_of(&job())), None);
    }
}
