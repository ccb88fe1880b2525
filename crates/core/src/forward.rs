//! Edits of the user's Job that must reach its mirror: each change once.
//!
//! What was last forwarded stands on the mirror. Only what differs from *that* is sent, never what differs from the
//! mirror itself: when a worker's own Kueue suspends the mirror, that is reported, not fought.
//!
//! - `template`: what of the pod template may change while a Job is suspended.

mod template;

use std::collections::BTreeMap;

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

/// The patch (RFC 7386) that brings the mirror up to date with its user's Job, or `None` if nothing is to be forwarded now.
/// Both are raw JSON, read fresh; the patch carries the mirror's uid and resourceVersion.
///
/// A template can change only where pods are held back and gone: what stops them goes ahead of it, and what lets them go goes
/// along with it.
pub fn edit(job: &Value, mirror: &Value, carried: Carried) -> Option<Value> {
    let mut now = Forwarded::of(job);
    let annotation = mirror.pointer("/metadata/annotations")?.get(annotations::FORWARDED)?.as_str()?;
    let before: Forwarded = serde_json::from_str(annotation).ok()?;
    if before.template.as_ref().is_some_and(|template| Some(template) != now.template.as_ref()) {
        let is_suspended = mirror["spec"]["suspend"] == true;
        let is_idle = mirror["status"]["active"].as_i64().unwrap_or(0) == 0;
        let rest = Forwarded { template: before.template.clone(), ..now.clone() };
        if is_suspended && !is_idle {
            return None;
        }
        if !is_suspended && rest != before {
            now = rest;
        }
    }
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

    /// The parts of the patch that are the user's edit.
    fn edited(change: impl FnOnce(&mut Value)) -> (Value, Value, Value) {
        let (before, mut now) = (job(), job());
        change(&mut now);
        let patch = edit(&now, &mirror_of(&before), Carried::default()).expect("something to forward");
        let mut annotations = patch["metadata"]["annotations"].clone();
        let stamp = annotations.as_object_mut().unwrap().remove(annotations::FORWARDED).unwrap();
        assert_eq!(stamp, Forwarded::of(&now).annotation(), "the edit is marked as forwarded in the same write");
        assert_eq!((&patch["metadata"]["uid"], &patch["metadata"]["resourceVersion"]), (&json!("m1"), &json!("7")));
        (patch["spec"].clone(), patch["metadata"]["labels"].clone(), annotations)
    }

    #[test]
    fn only_what_the_user_changed_is_sent() {
        assert_eq!(edit(&job(), &mirror_of(&job()), Carried::default()), None);
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
            ("completions", json!(5)),
            ("maxFailedIndexes", json!(1)),
            ("parallelism", json!(5)),
            ("podReplacementPolicy", json!("Failed")),
            ("suspend", json!(true)),
        ] {
            let change = edited(|job| job["spec"][field] = value.clone());
            assert_eq!(change, (json!({field: value}), json!({}), json!({})));
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
            spec_of(edit(&job, &mirror, Carried::default()))["template"].take()
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

        mirror["status"] = json!({"active": 1});
        assert_eq!(edit(&job, &mirror, Carried::default()), None, "its pods are still on their way out");
        mirror["status"] = json!({});
        let mut resumed = job.clone();
        resumed["spec"]["suspend"] = json!(false);
        let patch = edit(&resumed, &mirror, Carried::default());
        assert_eq!(spec_of(patch), json!({"suspend": false, "template": moved}));

        // The mirror has not heard of the suspension yet.
        let mut running = suspended().0;
        running["spec"]["suspend"] = json!(false);
        mirror["spec"]["suspend"] = json!(false);
        mirror["metadata"]["annotations"] = mirror_of(&running)["metadata"]["annotations"].take();
        let patch = edit(&job, &mirror, Carried::default()).unwrap();
        assert_eq!(patch["spec"], json!({"suspend": true}), "a worker refuses both at once");
        mirror["spec"]["suspend"] = json!(true);
        mirror["metadata"]["annotations"] = patch["metadata"]["annotations"].clone();
        assert_eq!(spec_of(edit(&job, &mirror, Carried::default())), json!({"template": moved}));
    }

    #[test]
    fn a_mirror_whose_note_does_not_tell_of_a_template_gets_no_other() {
        let (mut job, mut mirror) = suspended();
        let untold = Forwarded { template: None, ..Forwarded::of(&job) };
        mirror["metadata"]["annotations"][annotations::FORWARDED] = untold.annotation().into();
        job["spec"]["template"]["spec"]["nodeSelector"]["zone"] = json!("b");
        assert_eq!(spec_of(edit(&job, &mirror, Carried::default())), json!({}));
    }

    #[test]
    fn the_back_off_limit_of_a_mirror_counts_what_failed_before() {
        let mut now = job();
        now["spec"]["backoffLimit"] = json!(3);
        let patch = edit(&now, &mirror_of(&job()), Carried { failed: 2 }).unwrap();
        assert_eq!(patch["spec"]["backoffLimit"], 1);
    }

    #[test]
    fn fields_that_are_the_managers_own_are_not_forwarded() {
        let mut now = job();
        now["spec"]["ttlSecondsAfterFinished"] = json!(5);
        now["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json!("{}");
        now["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"] = json!("jobs:batch/Job:ml/train");
        assert_eq!(edit(&now, &mirror_of(&job()), Carried::default()), None);
    }
}
