//! Traps in how a status is written. The body is `patch::status`; the server is a model of the real one.

use job_api::Rules;
use jobferry_core::{project::project, record::Carried, workload::Workload};
use k8s_openapi::api::batch::v1::JobStatus;
use serde_json::{Value, json};

use crate::{
    given::*,
    support::server::{Refusal, Server, body},
};

fn server(status: &Value) -> Server {
    Server::new(&json!({"completions": 3, "parallelism": 2}), status, Rules::newest())
}

/// What the dispatcher would write, having read this and seen that mirror.
fn next(read: &Workload, mirror: Value) -> JobStatus {
    let mirror = serde_json::from_value(mirror).unwrap();
    project(&read.spec, &read.status, &mirror, Carried::default(), Rules::newest(), NOW.parse().unwrap())
        .unwrap()
        .unwrap()
}

#[test]
fn t29_what_is_gone_is_cleared_by_name_and_conditions_of_others_stay() {
    let mut theirs = holds("example.com/Audited", "Nightly");
    theirs["message"] = json!("not ours");
    let mut server = server(&with(running(), json!({"conditions": [theirs]})));
    server.edit(|job| job["spec"]["suspend"] = json!(true));
    let read = server.workload().clone();
    let stopped = with(running(), json!({"active": 0, "ready": 0, "conditions": [suspended()]}));
    let body = body(&read, &next(&read, stopped));
    assert_eq!(pick(&body["status"], ["startTime", "active", "completedIndexes"]), json!([null, null, null]));
    assert!(body["status"].as_object().unwrap().contains_key("startTime"), "a field that is not named is kept");
    server.patch_status(&body).unwrap();
    let status = &server.job["status"];
    assert_eq!(pick(status, ["startTime", "active"]), json!([null, null]));
    assert_eq!(types_of(status), ["example.com/Audited", "Suspended"]);
}

#[test]
fn t29_a_condition_that_gives_no_reason_does_not_keep_the_old_one() {
    let bare = json!({"type": "Suspended", "status": "False"});
    let given = given()
        .stored(json!({"startTime": TEN, "conditions": [suspended()]}))
        .mirror(json!({"startTime": TEN, "conditions": [bare]}));
    let next = given.next();
    assert_eq!(pick(condition(&next, "Suspended"), ["status", "reason", "message"]), json!(["False", null, null]));
}

#[test]
fn t30_a_write_names_every_field_of_a_status_so_that_none_is_left_to_chance() {
    let everything: JobStatus = serde_json::from_value(json!({
        "active": 1, "ready": 1, "terminating": 1, "succeeded": 1, "failed": 1, "completedIndexes": "0",
        "failedIndexes": "1", "startTime": TEN, "completionTime": ELEVEN, "conditions": [],
        "uncountedTerminatedPods": {"failed": ["p"]},
    }))
    .unwrap();
    // A field that a later version of the API adds makes this line fail to compile.
    let JobStatus {
        active: Some(_),
        completed_indexes: Some(_),
        completion_time: Some(_),
        conditions: Some(_),
        failed: Some(_),
        failed_indexes: Some(_),
        ready: Some(_),
        start_time: Some(_),
        succeeded: Some(_),
        terminating: Some(_),
        uncounted_terminated_pods: Some(_),
    } = &everything
    else {
        panic!("not everything: {everything:?}")
    };
    let body = body(server(&json!({})).workload(), &JobStatus::default());
    for field in serde_json::to_value(&everything).unwrap().as_object().unwrap().keys() {
        assert!(body["status"].as_object().unwrap().contains_key(field), "{field}");
    }
}

#[test]
fn t31_a_status_made_from_a_stale_read_is_refused_and_made_anew_from_a_fresh_one() {
    let mut server = server(&running());
    let stale = server.workload().clone();
    let late = next(&stale, with(running(), json!({"active": 1, "failed": 1})));
    server.write(&stale, &next(&stale, with(running(), json!({"active": 1, "failed": 2})))).unwrap();
    assert_eq!(server.write(&stale, &late), Err(Refusal::Conflict), "its counter would fall");
    let fresh = server.workload().clone();
    server.write(&fresh, &next(&fresh, with(running(), json!({"active": 2, "failed": 1})))).unwrap();
    assert_eq!(pick(&server.job["status"], ["active", "failed"]), json!([2, 2]));
}

#[test]
fn t32_a_result_never_lands_on_another_job_of_the_same_name() {
    let mut server = server(&running());
    let read = server.workload().clone();
    server.job["metadata"]["uid"] = json!("u2");
    assert_eq!(server.write(&read, &next(&read, complete())), Err(Refusal::Conflict));
    assert_eq!(server.job["status"], running());
}

#[test]
fn t33_a_status_write_touches_no_label_annotation_or_finalizer() {
    let read = server(&running()).workload().clone();
    let body = body(&read, &next(&read, complete()));
    assert_eq!(body["metadata"], json!({"uid": "u1", "resourceVersion": "1"}));
    assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), ["metadata", "status"]);
}
