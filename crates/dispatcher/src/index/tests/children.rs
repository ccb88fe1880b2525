//! What was created on the manager for objects there.

use std::sync::Arc;

use serde_json::Value;

use super::*;
use jobferry_core::{
    action::Alarm,
    kind::{Children, Table},
    knowledge::Activity,
};

fn jobs_of_job_sets() -> Arc<Children> {
    let table = Table::built_in().unwrap();
    let [(_, kind)] = table.called("JobSet")[..] else { panic!("no JobSets") };
    Arc::new(kind.children[0].clone())
}

fn child(name: &str, owner: &str) -> Child {
    child_in("ml", name, &json!({"name": "set", "uid": owner, "controller": true}))
}

fn child_in(namespace: &str, name: &str, owner: &Value) -> Child {
    let owners = [owner];
    let metadata = json!({
        "namespace": namespace, "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "7", "labels": {},
        "ownerReferences": owners,
    });
    serde_json::from_value(json!({"kind": "PartialObjectMetadata", "metadata": metadata})).unwrap()
}

/// Something that happens to what was created.
type Change = fn(&Index, &Arc<Children>);

/// What it is left alone for.
fn left_alone_for(index: &Index, uid: &str) -> Option<String> {
    match &plan_of(index, uid).actions[..] {
        [Action::Alarm(Alarm::ActedOn(Activity::Child(child)))] => Some(child.clone()),
        _ => None,
    }
}

#[test]
fn only_the_owner_of_a_child_is_woken_and_left_alone_and_only_once() {
    let (index, jobs) = (index(&["eu-1"]), jobs_of_job_sets());
    index.apply_workload(placed("set", 1, "eu-1"));
    index.apply_workload(placed("other", 1, "eu-1"));
    index.apply_mirror("eu-1", mirror("other", "mirror", 3));
    assert_eq!(index.apply_child(&jobs, child("of-a-mirror", "mirror")), [""; 0], "where a worker is the manager");
    assert_eq!(index.apply_child(&jobs, child("of-a-local-one", "local")), [""; 0]);
    assert_eq!(index.apply_child(&jobs, child("w-0", "set")), ["set"]);
    assert_eq!(left_alone_for(&index, "set").as_deref(), Some("jobs.batch/w-0"));
    assert_eq!(left_alone_for(&index, "other"), None);
    assert_eq!(index.apply_child(&jobs, child("w-0", "set")), [""; 0], "it is known");
    assert_eq!(index.apply_child(&jobs, child("w-1", "set")), [""; 0], "nothing new follows from it");
}

#[test]
fn a_child_that_is_seen_before_its_owner_counts_as_long_as_it_is_there() {
    let jobs = jobs_of_job_sets();
    let table: [(&str, Change, bool); 5] = [
        ("it stays", |_, _| {}, true),
        ("it is deleted", |index, jobs| index.delete_child(jobs, child("w-0", "set")), false),
        ("another one is", |index, jobs| index.delete_child(jobs, child("w-1", "set")), true),
        ("a list shows it no more", |index, jobs| drop(index.reset_children(jobs, Vec::new())), false),
        ("nobody watches any more", |index, jobs| index.forget_children(jobs), false),
    ];
    for (what, change, counts) in table {
        let index = index(&["eu-1"]);
        assert_eq!(index.reset_children(&jobs, vec![child("w-0", "set")]), [""; 0]);
        change(&index, &jobs);
        index.apply_workload(workload("set", 1));
        assert_eq!(left_alone_for(&index, "set").is_some(), counts, "{what}");
    }
}

#[test]
fn what_has_begun_to_run_on_the_manager_does_not_begin_anew_elsewhere_when_its_child_is_gone() {
    let (index, jobs) = (index(&["eu-1"]), jobs_of_job_sets());
    index.apply_workload(workload("set", 1));
    assert_eq!(index.reset_children(&jobs, vec![child("w-0", "set")]), ["set"]);
    assert!(left_alone_for(&index, "set").is_some());
    index.delete_child(&jobs, child("w-0", "set"));
    index.apply_workload(workload("set", 2));
    assert!(left_alone_for(&index, "set").is_some());
}

#[test]
fn lists_of_other_resources_take_nothing_away() {
    let (index, jobs) = (index(&["eu-1"]), jobs_of_job_sets());
    let pods = Children { group: String::new(), plural: "pods".into(), ..(*jobs).clone() };
    index.reset_children(&jobs, vec![child("w-0", "set")]);
    index.reset_children(&Arc::new(pods), Vec::new());
    index.apply_workload(workload("set", 1));
    assert!(left_alone_for(&index, "set").is_some());
}

#[test]
fn what_only_goes_with_a_workload_or_is_in_another_namespace_is_no_child_of_it() {
    let (index, jobs) = (index(&["eu-1"]), jobs_of_job_sets());
    index.apply_workload(placed("set", 1, "eu-1"));
    index.apply_child(&jobs, child_in("ml", "goes-along", &json!({"uid": "set"})));
    index.apply_child(&jobs, child_in("elsewhere", "a-strangers", &json!({"uid": "set", "controller": true})));
    assert_eq!(left_alone_for(&index, "set"), None);
}

#[test]
fn what_somebody_else_runs_holds_no_slot_of_its_worker() {
    let (index, jobs) = (index(&["eu-1"]), jobs_of_job_sets());
    for number in 0..CREATE_SLOTS {
        let uid = format!("set-{number}");
        index.apply_workload(placed(&uid, 1, "eu-1"));
        index.apply_child(&jobs, child(&format!("of-{uid}"), &uid));
        assert!(left_alone_for(&index, &uid).is_some());
    }
    index.apply_workload(workload("next", 1));
    assert!(matches!(plan_of(&index, "next").actions[..], [Action::RecordPlacement(_)]));
}
