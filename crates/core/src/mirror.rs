//! The user's Job turned into the Job that a worker runs.
//!
//! It is made from the raw JSON that the manager stores, never through typed structs, so that fields of servers newer
//! than this build survive. Everything that only means something on the manager is taken off.

use jobferry_api::{annotations, labels};
use serde_json::{Value, json};

use crate::{
    forward::{Forwarded, on_mirror},
    ownership::{relabel, users_own},
    record::Placement,
};

/// How long a finished mirror may outlive us: its own TTL, instead of the user's. A worker's policy that adds a short one
/// where none is set cannot make the result vanish, and a manager that is gone for good leaves nothing for ever.
const MIRROR_TTL_SECONDS: u32 = 30 * 24 * 3600;

/// The longest value of a label. A server that makes the selector writes the Job's name into labels of its pods.
const LABEL_MAX_BYTES: usize = 63;

/// The user's object is not a Job that can be mirrored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stored Job has no `{0}`")]
pub struct NotAJob(&'static str);

/// The mirror of `job` (as the manager stores it) for this placement. `origin` is the manager's identity.
pub fn mirror_of(job: &Value, placement: &Placement, origin: &str) -> Result<Value, NotAJob> {
    let text = |pointer: &str, name| job.pointer(pointer).and_then(Value::as_str).ok_or(NotAJob(name));
    let name = text("/metadata/name", "metadata.name")?;
    let namespace = text("/metadata/namespace", "metadata.namespace")?;
    let uid = text("/metadata/uid", "metadata.uid")?;
    let version = text("/metadata/resourceVersion", "metadata.resourceVersion")?;

    let mut own_labels = users_own(job.pointer("/metadata/labels"));
    own_labels.insert(labels::ORIGIN.into(), origin.into());
    let mut own_annotations = users_own(job.pointer("/metadata/annotations"));
    own_annotations.insert(annotations::ORIGIN_UID.into(), uid.into());
    own_annotations.insert(annotations::EPOCH.into(), placement.epoch.to_string().into());
    own_annotations.insert(annotations::MANAGER_VERSION.into(), version.into());
    own_annotations.insert(annotations::FORWARDED.into(), Forwarded::of(job).annotation().into());

    let mut spec = job.get("spec").and_then(Value::as_object).ok_or(NotAJob("spec"))?.clone();
    for field in ["managedBy", "selector", "manualSelector"] {
        spec.remove(field);
    }
    // A user may choose a longer name together with a selector. That selector may match pods of others on the worker; the
    // mark of its origin matches no others.
    if name.len() > LABEL_MAX_BYTES {
        spec.insert("manualSelector".into(), true.into());
        spec.insert("selector".into(), json!({"matchLabels": {labels::ORIGIN_UID: uid}}));
    }
    spec.insert("ttlSecondsAfterFinished".into(), MIRROR_TTL_SECONDS.into());
    if let Some(limit) = spec.get_mut("backoffLimit") {
        *limit = on_mirror("backoffLimit", limit.take(), placement.carried);
    }
    let template = spec.get_mut("template").and_then(Value::as_object_mut).ok_or(NotAJob("spec.template"))?;
    let mut template_labels = users_own(template.get("metadata").and_then(|m| m.get("labels")));
    template_labels.insert(labels::ORIGIN_UID.into(), uid.into());
    relabel(template, template_labels);
    Ok(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": own_labels, "annotations": own_annotations},
        "spec": spec,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;

    fn stored_job() -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": "train", "namespace": "ml", "uid": "u1", "resourceVersion": "42", "generation": 1,
                "creationTimestamp": "2026-11-15T10:00:00Z", "finalizers": ["example.com/hold"],
                "ownerReferences": [{"kind": "CronJob", "name": "nightly", "uid": "c1", "apiVersion": "batch/v1"}],
                "managedFields": [{"manager": "kubectl"}],
                "labels": {"team": "ml", "job-name": "train", "controller-uid": "u1", "jobferry.dev/worker": "eu-1"},
                "annotations": {"note": "x", "jobferry.dev/workers": "eu-1",
                                "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            },
            "spec": {
                "managedBy": "jobferry.dev/dispatcher", "parallelism": 2, "completions": 2, "ttlSecondsAfterFinished": 0,
                "manualSelector": true, "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}},
                "scheduling": {"of": "a later release"},
                "template": {
                    "metadata": {"creationTimestamp": null, "labels": {
                        "app": "train", "batch.kubernetes.io/job-name": "train", "batch.kubernetes.io/controller-uid": "u1"}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
                },
            },
            "status": {"active": 1},
        })
    }

    #[test]
    fn a_mirror_keeps_what_is_the_users_and_drops_what_is_the_managers() {
        let placement = Placement::new("eu-1".into(), "id".into(), 2, Timestamp::UNIX_EPOCH);
        assert_eq!(
            mirror_of(&stored_job(), &placement, "origin-1").unwrap(),
            json!({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {
                    "name": "train", "namespace": "ml",
                    "labels": {"team": "ml", "jobferry.dev/origin": "origin-1"},
                    "annotations": {"note": "x", "jobferry.dev/origin-uid": "u1", "jobferry.dev/epoch": "2",
                                    "jobferry.dev/manager-resource-version": "42",
                                    "jobferry.dev/forwarded": Forwarded::of(&stored_job()).annotation()},
                },
                "spec": {
                    "parallelism": 2, "completions": 2, "ttlSecondsAfterFinished": 2_592_000,
                    "scheduling": {"of": "a later release"},
                    "template": {
                        "metadata": {"labels": {"app": "train", "jobferry.dev/origin-uid": "u1"}},
                        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
                    },
                },
            })
        );
    }

    #[test]
    fn what_a_kueue_noted_on_the_manager_stays_there() {
        let mut job = stored_job();
        job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = json!("gpus");
        let template = &mut job["spec"]["template"]["metadata"];
        template["labels"]["kueue.x-k8s.io/podset"] = json!("main");
        template["annotations"] = json!({"note": "x", "kueue.x-k8s.io/workload": "job-train-1a2b3"});
        let placement = Placement::new("eu-1".into(), "id".into(), 2, Timestamp::UNIX_EPOCH);
        let mirror = mirror_of(&job, &placement, "origin-1").unwrap();
        assert_eq!(mirror["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "gpus", "the queue is the user's word");
        let template = &mirror["spec"]["template"]["metadata"];
        assert_eq!(template["labels"], json!({"app": "train", "jobferry.dev/origin-uid": "u1"}));
        assert_eq!(template["annotations"], json!({"note": "x"}));
    }

    #[test]
    fn a_mirror_does_not_look_as_if_a_deploying_tool_had_made_it() {
        let mut job = stored_job();
        let marks =
            json!({"team": "ml", "kustomize.toolkit.fluxcd.io/name": "jobs", "argocd.argoproj.io/instance": "jobs"});
        job["metadata"]["labels"] = marks.clone();
        job["spec"]["template"]["metadata"]["labels"] = marks;
        job["metadata"]["annotations"] = json!({
            "note": "x", "argocd.argoproj.io/tracking-id": "jobs:batch/Job:ml/train", "meta.helm.sh/release-name": "jobs",
        });
        let placement = Placement::new("eu-1".into(), "id".into(), 1, Timestamp::UNIX_EPOCH);
        let mirror = mirror_of(&job, &placement, "o").unwrap();
        assert_eq!(mirror["metadata"]["labels"], json!({"team": "ml", "jobferry.dev/origin": "o"}));
        let template = &mirror["spec"]["template"]["metadata"];
        assert_eq!(template["labels"], json!({"team": "ml", "jobferry.dev/origin-uid": "u1"}));
        let annotations = mirror["metadata"]["annotations"].as_object().unwrap();
        let foreign: Vec<_> = annotations.keys().filter(|key| !key.starts_with(labels::PREFIX)).collect();
        assert_eq!(foreign, ["note"], "the tool on the worker would take it for a stray, and delete it");
    }

    #[test]
    fn a_template_without_metadata_gets_the_mark_of_its_origin() {
        let mut job = stored_job();
        job["spec"]["template"].as_object_mut().unwrap().remove("metadata");
        let placement = Placement::new("eu-1".into(), "id".into(), 1, Timestamp::UNIX_EPOCH);
        let mirror = mirror_of(&job, &placement, "o").unwrap();
        assert_eq!(mirror["spec"]["template"]["metadata"], json!({"labels": {"jobferry.dev/origin-uid": "u1"}}));
    }

    #[test]
    fn an_object_that_is_no_job_is_refused_by_the_field_it_lacks() {
        let placement = Placement::new("eu-1".into(), "id".into(), 1, Timestamp::UNIX_EPOCH);
        let mut job = stored_job();
        job["spec"].as_object_mut().unwrap().remove("template");
        let error = mirror_of(&job, &placement, "o").unwrap_err();
        assert_eq!(error.to_string(), "the stored Job has no `spec.template`");
    }
}
