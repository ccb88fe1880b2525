//! Traps in the copy that goes to the worker, and in the user's own object.

use std::{collections::BTreeMap, time::Duration};

use job_api::{Rules, create, defaults};
use jobferry_core::{
    action::{Action, Pods},
    claim::misfit,
    custom::KindRef,
    forward::{Share, edit},
    knowledge::{Knowledge, Sighting, Surroundings},
    mirror::mirror_of,
    patch,
    plan::plan,
    policy::Policies,
    record::{Carried, Placement},
    time::{LOSS_NOTICED, Now},
    workload::{Mirror, Workload},
};
use k8s_openapi::api::batch::v1::Job;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{given::*, support::server::body};

/// A Job as the manager stores it, with everything that must not reach a worker.
fn stored_job() -> Value {
    let sent = json!({
        "metadata": {
            "name": "train", "namespace": "ml", "uid": "manager-uid", "resourceVersion": "42",
            "creationTimestamp": TEN, "finalizers": ["example.com/hold"], "managedFields": [{"manager": "kubectl"}],
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "c1"}],
        },
        "spec": {
            "managedBy": "jobferry.dev/dispatcher", "ttlSecondsAfterFinished": 0,
            "completions": 3, "parallelism": 3, "completionMode": "Indexed",
            "template": {
                "metadata": {"labels": {"app": "train"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]},
            },
        },
    });
    let mut job: Job = serde_json::from_value(sent).unwrap();
    create::prepare(&mut job);
    defaults::apply(&mut job);
    serde_json::to_value(job).unwrap()
}

/// The same, when its user has deleted it.
fn leaving() -> Value {
    let mut job = stored_job();
    job["metadata"]["deletionTimestamp"] = json!(NOW);
    job
}

fn placement() -> Placement {
    Placement::new("eu-1".into(), "id-1".into(), 1, NOW.parse().unwrap())
}

fn mirror() -> Value {
    mirror_of(&stored_job(), &placement(), "origin-1").unwrap()
}

/// The fields on which the worker's API server would refuse to create this.
fn worker_refuses(job: &Value) -> Vec<String> {
    let mut job = Job::deserialize(job).unwrap();
    job.metadata.uid = Some("worker-uid".into());
    create::prepare(&mut job);
    create::validate(&job, Rules::newest()).iter().map(|error| error.field.clone()).collect()
}

fn planned(workload: &Value) -> Vec<Action> {
    let seen = json!({"metadata": {
        "namespace": "ml", "name": "train", "uid": "m1", "resourceVersion": "5",
        "annotations": {"jobferry.dev/origin-uid": "manager-uid", "jobferry.dev/epoch": "1"},
    }});
    let known = Knowledge {
        workload: Some(Workload::deserialize(workload).unwrap().into()),
        mirrors: [("eu-1", Sighting::Present(Mirror::deserialize(seen).unwrap().into()))].into_iter().collect(),
        ..Knowledge::default()
    };
    let now = Now { wall: NOW.parse().unwrap(), monotonic: Duration::from_secs(1000) };
    plan(
        &known,
        Surroundings {
            workers: &BTreeMap::new(),
            policies: &Policies::default(),
            halted: None,
            rules: Rules::newest(),
            leading_since: std::time::Duration::ZERO,
            leads_alone: true,
            notice_loss_after: LOSS_NOTICED,
            may_delete_orphan: true,
            now,
        },
    )
}

#[test]
fn t36_a_mirror_outlives_its_end_long_enough_for_its_result_to_be_read() {
    assert_eq!(stored_job()["spec"]["ttlSecondsAfterFinished"], 0);
    assert!(mirror()["spec"]["ttlSecondsAfterFinished"].as_u64().unwrap() >= 7 * 24 * 3600);
}

#[test]
fn t37_a_mirror_is_run_by_the_workers_own_controller() {
    assert_eq!(stored_job()["spec"]["managedBy"], "jobferry.dev/dispatcher");
    assert_eq!(mirror()["spec"].get("managedBy"), None);
}

#[test]
fn t38_selector_and_generated_labels_are_the_workers_to_make() {
    let copied = with(mirror(), json!({"spec": stored_job()["spec"]}));
    let refused = worker_refuses(&copied);
    assert!(refused.iter().any(|field| field.starts_with("spec.template.metadata.labels")), "{refused:?}");
    assert!(refused.contains(&"spec.selector".to_owned()), "{refused:?}");

    let mirror = mirror();
    assert_eq!(worker_refuses(&mirror), [""; 0]);
    assert_eq!(pick(&mirror["spec"], ["selector", "manualSelector"]), json!([null, null]));
    assert!(stored_job()["metadata"]["labels"].as_object().unwrap().contains_key("controller-uid"));
    assert_eq!(mirror["metadata"]["labels"], json!({"app": "train", "jobferry.dev/origin": "origin-1"}));
}

#[test]
fn t40_a_name_that_is_too_long_for_a_label_is_selected_by_the_mark_of_its_origin() {
    let named = |name: &str| {
        let mut job = stored_job();
        job["metadata"]["name"] = json!(name);
        let spec = with(
            job["spec"].take(),
            json!({"manualSelector": true, "completionMode": "NonIndexed",
            "suspend": true, "selector": {"matchLabels": {"app": "train"}}}),
        );
        job["spec"] = spec;
        job["spec"]["template"]["metadata"]["labels"] = json!({"app": "train"});
        job
    };
    let of = |job: &Value| mirror_of(job, &placement(), "origin-1").unwrap();
    let short = of(&named(&"a".repeat(63)));
    assert_eq!(pick(&short["spec"], ["selector", "manualSelector"]), json!([null, null]));
    assert_eq!(worker_refuses(&short), [""; 0]);

    let job = named(&"a".repeat(64));
    let long = of(&job);
    assert_eq!(long["spec"]["selector"], json!({"matchLabels": {"jobferry.dev/origin-uid": "manager-uid"}}));
    assert_eq!(worker_refuses(&long), [""; 0]);
    assert!(!worker_refuses(&with(long.clone(), json!({"spec": short["spec"]}))).is_empty(), "the trap");
    assert_eq!(misfit(&KindRef::Job, &long, &long), None);

    // An edit of the template leaves it the label that is selected.
    let mut edited = job;
    edited["spec"]["template"]["metadata"]["labels"] = json!({"app": "train", "stage": "2"});
    let stopped = with(long, json!({"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}));
    let patch = edit(&edited, &stopped, Carried::default(), Share::Everything).unwrap();
    assert_eq!(patch["spec"]["template"], json!({"metadata": {"labels": {"stage": "2"}}}));
}

#[test]
fn t39_nothing_that_ties_a_job_to_the_manager_is_copied() {
    let mirror = mirror();
    let fields: Vec<_> = mirror["metadata"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["annotations", "labels", "name", "namespace"]);
    assert_eq!(mirror.get("status"), None);
}

#[test]
fn t40_a_mirror_has_the_name_of_its_original_so_that_no_name_grows_too_long() {
    let longest = "a".repeat(61);
    let mut job = stored_job();
    job["metadata"]["name"] = json!(longest);
    let mut mirror = mirror_of(&job, &placement(), "origin-1").unwrap();
    assert_eq!(mirror["metadata"]["name"], json!(longest));
    assert_eq!(worker_refuses(&mirror), [""; 0]);
    mirror["metadata"]["name"] = json!(format!("{longest}-x"));
    assert_eq!(worker_refuses(&mirror), ["metadata.name"], "two more would be too many");
}

#[test]
fn t41_a_mirror_is_deleted_together_with_its_pods() {
    let plan = planned(&leaving());
    let [Action::DeleteMirror { pods, mirror, .. }] = plan.as_slice() else { panic!("{plan:?}") };
    assert_eq!(mirror.uid, "m1");
    // There is no third way: to leave them running makes this fail to compile.
    match pods {
        Pods::Later | Pods::First => {}
    }
}

#[test]
fn t43_a_job_whose_server_dropped_managed_by_is_left_to_the_built_in_controller() {
    let mut dropped = leaving();
    assert_ne!(planned(&dropped), []);
    dropped["spec"].as_object_mut().unwrap().remove("managedBy");
    assert_eq!(planned(&dropped), []);
}

#[test]
fn t44_no_write_of_ours_needs_a_finalizer() {
    let workload = Workload::deserialize(&stored_job()).unwrap();
    let bodies = [
        mirror(),
        patch::placement(&workload, &placement(), None).unwrap(),
        body(&workload, &serde_json::from_value(complete()).unwrap()),
    ];
    for body in bodies {
        assert_eq!(body["metadata"].get("finalizers"), None, "{body}");
    }
}
