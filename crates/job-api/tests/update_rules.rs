//! What may change after a Job was created, and what may not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use job_api::{Rules, defaults, update};
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

fn stored() -> Value {
    json!({
        "metadata": {"name": "train", "namespace": "ml", "uid": "u", "resourceVersion": "1", "generation": 4},
        "spec": {
            "manualSelector": true,
            "selector": {"matchLabels": {"app": "train"}},
            "completions": 3, "parallelism": 3, "completionMode": "Indexed",
            "template": {
                "metadata": {"labels": {"app": "train"}},
                "spec": {
                    "containers": [{"name": "main", "image": "app:1", "resources": {"limits": {"cpu": "1"}}}],
                    "restartPolicy": "Never"
                }
            }
        }
    })
}

fn set(job: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = parent.split('/').skip(1).fold(job, |place, step| match step.parse::<usize>() {
        Ok(index) => &mut place[index],
        Err(_) => &mut place[step],
    });
    if value.is_null() {
        parent.as_object_mut().unwrap().remove(key);
    } else {
        parent[key] = value;
    }
}

fn typed(job: &Value) -> Job {
    let mut job: Job = serde_json::from_value(job.clone()).unwrap();
    defaults::apply(&mut job);
    job
}

fn edit(old: &Value, edits: &[(&str, Value)], rules: Rules) -> (Job, Vec<String>) {
    let mut new = old.clone();
    for (pointer, value) in edits {
        set(&mut new, pointer, value.clone());
    }
    let (mut new, old) = (typed(&new), typed(old));
    update::prepare(&mut new, &old);
    let errors = update::validate(&new, &old, rules);
    (new, errors.iter().map(|error| format!("{}@{}", error.kind, error.field)).collect())
}

const NEWEST: Rules = Rules::newest();
const ON_1_35: Rules = Rules::for_server(1, 35, None);

#[test]
fn some_fields_may_change_at_any_time() {
    for (pointer, value) in [
        ("/spec/parallelism", json!(9)),
        ("/spec/suspend", json!(true)),
        ("/spec/activeDeadlineSeconds", json!(10)),
        ("/spec/backoffLimit", json!(1)),
        ("/spec/ttlSecondsAfterFinished", json!(10)),
        ("/spec/podReplacementPolicy", json!("Failed")),
        ("/metadata/labels", json!({"a": "b"})),
        ("/metadata/finalizers", json!(["example.com/hold"])),
    ] {
        let (_, errors) = edit(&stored(), &[(pointer, value)], ON_1_35);
        assert_eq!(errors, Vec::<String>::new(), "{pointer}");
    }
}

#[test]
fn most_fields_are_frozen() {
    for (pointer, value, field) in [
        ("/spec/managedBy", json!("example.com/queue"), "spec.managedBy"),
        ("/spec/managedBy", json!("kubernetes.io/job-controller"), "spec.managedBy"),
        ("/spec/backoffLimitPerIndex", json!(1), "spec.backoffLimitPerIndex"),
        ("/spec/successPolicy", json!({"rules": [{"succeededCount": 1}]}), "spec.successPolicy"),
        ("/spec/template/spec/containers/0/image", json!("app:2"), "spec.template"),
        ("/spec/template/metadata/labels/extra", json!("x"), "spec.template"),
        ("/metadata/uid", json!("other"), "metadata.uid"),
    ] {
        let (_, errors) = edit(&stored(), &[(pointer, value)], NEWEST);
        assert!(errors.iter().all(|error| *error == format!("Invalid@{field}")), "{pointer}: {errors:?}");
        assert!(!errors.is_empty(), "{pointer}");
    }
}

#[test]
fn completions_follow_parallelism_or_stay() {
    let both = [("/spec/completions", json!(5)), ("/spec/parallelism", json!(5))];
    assert_eq!(edit(&stored(), &both, ON_1_35).1, Vec::<String>::new());
    assert_eq!(edit(&stored(), &[("/spec/completions", json!(5))], ON_1_35).1, ["Invalid@spec.completions"]);
    let (_, errors) = edit(&stored(), &[("/spec/completions", Value::Null)], NEWEST);
    assert_eq!(errors, ["Required@spec.completions"]);
    let mut plain = stored();
    set(&mut plain, "/spec/completionMode", Value::Null);
    assert_eq!(edit(&plain, &both, ON_1_35).1, ["Invalid@spec.completions"]);
}

#[test]
fn a_faulty_edit_is_reported_twice_until_1_36() {
    let fault = [("/spec/parallelism", json!(-1))];
    assert_eq!(edit(&stored(), &fault, Rules::for_server(1, 36, None)).1, ["Invalid@spec.parallelism"; 2]);
    assert_eq!(edit(&stored(), &fault, Rules::for_server(1, 37, None)).1, ["Invalid@spec.parallelism"]);
}

#[test]
fn generated_labels_are_checked_again_until_1_36() {
    let fault = [("/spec/manualSelector", json!(false))];
    let on_1_36 = edit(&stored(), &fault, Rules::for_server(1, 36, None)).1;
    assert!(on_1_36.contains(&"Invalid@spec.selector".to_owned()), "{on_1_36:?}");
    assert_eq!(edit(&stored(), &fault, Rules::for_server(1, 37, None)).1, Vec::<String>::new());
}

#[test]
fn the_generation_counts_changes_of_the_spec_only() {
    let generation = |edits: &[(&str, Value)]| edit(&stored(), edits, NEWEST).0.metadata.generation;
    assert_eq!(generation(&[("/spec/parallelism", json!(1))]), Some(5));
    assert_eq!(generation(&[("/metadata/labels", json!({"a": "b"}))]), Some(4));
    let same_quantity = ("/spec/template/spec/containers/0/resources/limits/cpu", json!("1000m"));
    assert_eq!(generation(&[same_quantity]), Some(4));
}

#[test]
fn the_status_in_an_update_is_ignored() {
    let (new, errors) = edit(&stored(), &[("/status", json!({"active": -7}))], NEWEST);
    assert_eq!((new.status, errors), (None, vec![]));
}

/// Which edits of a suspended Job's template pass, by what is stored and by server.
#[test]
fn the_template_of_a_suspended_job_may_be_edited_by_release() {
    let scheduling = ("/spec/template/spec/nodeSelector", json!({"disk": "ssd"}));
    let resources = ("/spec/template/spec/containers/0/resources", json!({"limits": {"cpu": "2"}}));
    let never = json!({});
    let started = json!({"startTime": "2026-01-01T12:00:00Z"});
    let marked = json!({"startTime": "2026-01-01T12:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]});
    let busy = json!({"active": 1, "conditions": [{"type": "Suspended", "status": "True"}]});
    let old = |status: &Value| {
        let mut job = stored();
        set(&mut job, "/spec/suspend", json!(true));
        set(&mut job, "/status", status.clone());
        job
    };
    let servers = [(1, 35, Some(8)), (1, 36, Some(1)), (1, 36, Some(2)), (1, 37, None)];
    for (what, status, edit_, passes) in [
        ("never started, scheduling", &never, &scheduling, [true, false, true, true]),
        ("never started, resources", &never, &resources, [false, false, true, true]),
        ("started, scheduling", &started, &scheduling, [false, false, false, false]),
        ("marked Suspended, scheduling", &marked, &scheduling, [false, true, true, true]),
        ("marked Suspended, resources", &marked, &resources, [false, true, true, true]),
        ("still active, scheduling", &busy, &scheduling, [true, false, false, false]),
        ("still active, resources", &busy, &resources, [false, false, false, false]),
    ] {
        for ((major, minor, patch), passes) in servers.into_iter().zip(passes) {
            let (_, errors) = edit(&old(status), std::slice::from_ref(edit_), Rules::for_server(major, minor, patch));
            assert_eq!(errors.is_empty(), passes, "{what} on {major}.{minor}.{patch:?}: {errors:?}");
        }
    }
}

#[test]
fn where_resources_may_change_the_rest_of_the_pod_may_not() {
    let mut old = stored();
    set(&mut old, "/spec/suspend", json!(true));
    let image = ("/spec/template/spec/containers/0/image", json!("app:2"));
    assert_eq!(edit(&old, &[image], NEWEST).1, ["Invalid@spec.template.spec"]);
    let renamed = [
        ("/spec/template/spec/containers/0/name", json!("other")),
        ("/spec/template/spec/containers/0/resources", json!({"limits": {"cpu": "2"}})),
    ];
    assert_eq!(edit(&old, &renamed, NEWEST).1, ["Invalid@spec.template.spec"]);
}

#[test]
fn node_affinity_may_change_and_pod_affinity_may_not() {
    let mut old = stored();
    set(&mut old, "/spec/suspend", json!(true));
    let node = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}});
    let pod = json!({"podAffinity": {}});
    let mut with_node = old.clone();
    set(&mut with_node, "/spec/template/spec/affinity", node.clone());
    for (from, to, passes) in [
        (&old, node, true),
        (&with_node, Value::Null, true),
        (&with_node, json!({}), true),
        (&old, pod.clone(), false),
        (&with_node, pod, false),
    ] {
        let (_, errors) = edit(from, &[("/spec/template/spec/affinity", to)], ON_1_35);
        assert_eq!(errors.is_empty(), passes, "{errors:?}");
    }
}

#[test]
fn no_finalizer_is_added_to_a_job_that_is_being_deleted() {
    let mut old = stored();
    set(&mut old, "/metadata/deletionTimestamp", json!("2026-01-01T12:00:00Z"));
    set(&mut old, "/metadata/finalizers", json!(["example.com/hold"]));
    let more = ("/metadata/finalizers", json!(["example.com/hold", "example.com/more"]));
    // The check is made for every kind, and once more for Jobs; the newest servers report it once.
    assert_eq!(edit(&old, std::slice::from_ref(&more), ON_1_35).1, ["Forbidden@metadata.finalizers"; 2]);
    assert_eq!(edit(&old, &[more], NEWEST).1, ["Forbidden@metadata.finalizers"]);
    assert_eq!(edit(&old, &[("/metadata/finalizers", Value::Null)], NEWEST).1, Vec::<String>::new());
}
