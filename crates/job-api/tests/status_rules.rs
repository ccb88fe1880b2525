//! Every rule for a status, with one write that keeps it and one that breaks it.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use job_api::{Gates, Rules, SpecView, status};
use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
use serde_json::{Value, json};

const NOON: &str = "2026-01-01T12:00:00Z";
const ONE: &str = "2026-01-01T13:00:00Z";

fn verdict(spec: &Value, old: &Value, new: &Value, rules: Rules) -> Vec<String> {
    let spec: JobSpec = serde_json::from_value(spec.clone()).unwrap();
    let status = |value: &Value| -> JobStatus { serde_json::from_value(value.clone()).unwrap() };
    let errors = status::validate(&SpecView::of(&spec), &status(old), &status(new), rules);
    errors.iter().map(|error| format!("{}@{}", error.kind, error.field.trim_start_matches("status."))).collect()
}

fn on_1_35(spec: &Value, old: &Value, new: &Value) -> Vec<String> {
    verdict(spec, old, new, Rules::for_server(1, 35, None))
}

/// Conditions that are true.
fn marked(types: &[&str]) -> Value {
    Value::Array(types.iter().map(|type_| json!({"type": type_, "status": "True"})).collect())
}

/// A status with these conditions and whatever else.
fn with(types: &[&str], rest: Value) -> Value {
    let mut status = rest;
    status["conditions"] = marked(types);
    status
}

fn complete() -> Value {
    with(&["SuccessCriteriaMet", "Complete"], json!({"startTime": NOON, "completionTime": ONE, "succeeded": 1}))
}

fn failed() -> Value {
    with(&["FailureTarget", "Failed"], json!({"startTime": NOON, "failed": 1}))
}

/// One rule: what is written over what, and what the server says to it.
struct Case {
    rule: &'static str,
    spec: Value,
    old: Value,
    legal: Value,
    illegal: Value,
    errors: &'static [&'static str],
}

fn case(rule: &'static str, old: Value, legal: Value, illegal: Value, errors: &'static [&'static str]) -> Case {
    Case { rule, spec: json!({"parallelism": 1, "completions": 5}), old, legal, illegal, errors }
}

fn indexed(rule: &'static str, old: Value, legal: Value, illegal: Value, errors: &'static [&'static str]) -> Case {
    let spec = json!({"parallelism": 1, "completions": 5, "completionMode": "Indexed", "backoffLimitPerIndex": 1});
    Case { spec, ..case(rule, old, legal, illegal, errors) }
}

fn cases_for_any_status() -> Vec<Case> {
    let nothing = || json!({});
    vec![
        case(
            "A1: no counter is negative",
            nothing(),
            json!({"active": 1, "succeeded": 1, "failed": 1, "ready": 1, "terminating": 1}),
            json!({"active": -1, "succeeded": -1, "failed": -1, "ready": -2, "terminating": -1}),
            // Below zero the counters have also fallen.
            &[
                "Invalid@active",
                "Invalid@succeeded",
                "Invalid@failed",
                "Invalid@ready",
                "Invalid@terminating",
                "Invalid@failed",
                "Invalid@succeeded",
            ],
        ),
        case(
            "A2: an uncounted pod has a uid",
            nothing(),
            json!({"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["b"]}}),
            json!({"uncountedTerminatedPods": {"succeeded": [""], "failed": ["b", ""]}}),
            &["Invalid@uncountedTerminatedPods.succeeded[0]", "Invalid@uncountedTerminatedPods.failed[1]"],
        ),
        case(
            "A3: an uncounted pod is named once, in one list",
            nothing(),
            json!({"uncountedTerminatedPods": {"succeeded": ["a", "b"], "failed": ["c"]}}),
            json!({"uncountedTerminatedPods": {"succeeded": ["a", "a"], "failed": ["a"]}}),
            &["Duplicate@uncountedTerminatedPods.succeeded[1]", "Duplicate@uncountedTerminatedPods.failed[0]"],
        ),
        case(
            "A4: who met the success criteria has not failed",
            nothing(),
            with(&["SuccessCriteriaMet"], json!({})),
            with(&["SuccessCriteriaMet", "Failed", "FailureTarget"], json!({"startTime": NOON})),
            &["Invalid@conditions", "Invalid@conditions"],
        ),
        case(
            "A5: who met the success criteria is not bound to fail",
            nothing(),
            with(&["SuccessCriteriaMet"], json!({})),
            with(&["SuccessCriteriaMet", "FailureTarget"], json!({})),
            &["Invalid@conditions"],
        ),
        Case {
            spec: json!({"successPolicy": {"rules": []}}),
            ..case(
                "A6: a Job with a success policy is complete only after its criteria are met",
                json!({"startTime": NOON}),
                complete(),
                with(&["Complete"], json!({"startTime": NOON, "completionTime": ONE})),
                // R7 says the same of every Job.
                &["Invalid@conditions", "Invalid@conditions"],
            )
        },
        case(
            "A7: met success criteria stay met",
            with(&["SuccessCriteriaMet"], json!({})),
            with(&["SuccessCriteriaMet"], json!({"active": 1})),
            json!({}),
            &["Invalid@conditions"],
        ),
        case(
            "A8: success criteria are not added to a complete Job",
            with(&["Complete"], json!({"startTime": NOON, "completionTime": ONE})),
            with(&["Complete"], json!({"startTime": NOON, "completionTime": ONE, "succeeded": 1})),
            complete(),
            &["Invalid@conditions"],
        ),
    ]
}

fn cases_for_the_outcome() -> Vec<Case> {
    let nothing = || json!({});
    let times = || json!({"startTime": NOON, "completionTime": ONE});
    vec![
        case(
            "R1: a Job does not both complete and fail",
            nothing(),
            complete(),
            with(&["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"], times()),
            // With everything set, the neighbours R2, A4 and A5 speak up as well.
            &["Invalid@conditions", "Invalid@conditions", "Invalid@conditions", "Invalid@conditions"],
        ),
        case(
            "R2: a complete Job is not bound to fail",
            with(&["SuccessCriteriaMet"], json!({"startTime": NOON})),
            complete(),
            with(&["SuccessCriteriaMet", "Complete", "FailureTarget"], times()),
            &["Invalid@conditions", "Invalid@conditions"],
        ),
        case(
            "R3: only a complete Job has a completion time",
            json!({"startTime": NOON}),
            complete(),
            times(),
            &["Invalid@completionTime"],
        ),
        case(
            "R4: a complete Job has a completion time",
            json!({"startTime": NOON}),
            complete(),
            with(&["SuccessCriteriaMet", "Complete"], json!({"startTime": NOON})),
            &["Required@completionTime"],
        ),
        case(
            "R5: a Job does not end before it starts",
            nothing(),
            with(&["SuccessCriteriaMet", "Complete"], json!({"startTime": ONE, "completionTime": ONE})),
            with(&["SuccessCriteriaMet", "Complete"], json!({"startTime": ONE, "completionTime": NOON})),
            &["Invalid@completionTime"],
        ),
        case(
            "R6: a failed Job was bound to fail",
            json!({"startTime": NOON}),
            failed(),
            with(&["Failed"], json!({"startTime": NOON})),
            &["Invalid@conditions"],
        ),
        case(
            "R7: a complete Job has met its success criteria",
            json!({"startTime": NOON}),
            complete(),
            with(&["Complete"], times()),
            &["Invalid@conditions"],
        ),
    ]
}

fn cases_for_the_end() -> Vec<Case> {
    let nothing = || json!({});
    vec![
        case(
            "R8: nothing is active after the end",
            json!({"startTime": NOON, "active": 1}),
            failed(),
            with(&["FailureTarget", "Failed"], json!({"startTime": NOON, "active": 1})),
            &["Invalid@active"],
        ),
        case(
            "R9: what ends has started",
            nothing(),
            failed(),
            with(&["FailureTarget", "Failed"], json!({})),
            &["Required@startTime"],
        ),
        case(
            "R10: every pod is counted at the end",
            json!({"startTime": NOON}),
            with(&["FailureTarget", "Failed"], json!({"startTime": NOON, "uncountedTerminatedPods": {}})),
            with(
                &["FailureTarget", "Failed"],
                json!({"startTime": NOON, "uncountedTerminatedPods": {"failed": ["a"]}}),
            ),
            &["Invalid@uncountedTerminatedPods"],
        ),
        case(
            "R16: nothing is terminating after the end",
            json!({"startTime": NOON, "terminating": 1}),
            with(&["FailureTarget", "Failed"], json!({"startTime": NOON, "terminating": 0})),
            with(&["FailureTarget", "Failed"], json!({"startTime": NOON, "terminating": 1})),
            &["Invalid@terminating"],
        ),
        case(
            "R17: ready pods are active pods",
            nothing(),
            json!({"active": 1, "ready": 1}),
            json!({"active": 1, "ready": 2}),
            &["Invalid@ready"],
        ),
    ]
}

fn cases_for_what_stays() -> Vec<Case> {
    vec![
        case(
            "R18: an outcome is not taken back",
            failed(),
            with(&["Failed", "FailureTarget", "example.com/Own"], json!({"startTime": NOON, "failed": 1})),
            json!({"startTime": NOON, "failed": 1, "conditions": [{"type": "Failed", "status": "False"}]}),
            &["Invalid@conditions", "Invalid@conditions"],
        ),
        case(
            "R19: failed pods stay failed",
            json!({"failed": 2}),
            json!({"failed": 3}),
            json!({"failed": 1}),
            &["Invalid@failed"],
        ),
        case(
            "R20: succeeded pods stay succeeded",
            json!({"succeeded": 2}),
            json!({"succeeded": 2}),
            json!({}),
            &["Invalid@succeeded"],
        ),
        case(
            "R21: the completion time stands",
            complete(),
            complete(),
            with(
                &["SuccessCriteriaMet", "Complete"],
                json!({"startTime": NOON, "completionTime": NOON, "succeeded": 1}),
            ),
            &["Invalid@completionTime"],
        ),
        case(
            "R22: the start time stands while the Job is not suspended",
            json!({"startTime": NOON}),
            json!({"startTime": "2026-01-01T14:00:00+02:00"}),
            json!({"startTime": ONE}),
            &["Required@startTime"],
        ),
    ]
}

fn cases_for_indexes() -> Vec<Case> {
    let nothing = || json!({});
    vec![
        indexed(
            "R11: completed indexes are well formed",
            nothing(),
            json!({"completedIndexes": "0-2,4"}),
            json!({"completedIndexes": "0-5"}),
            &["Invalid@completedIndexes"],
        ),
        indexed(
            "R12: failed indexes are well formed",
            nothing(),
            json!({"failedIndexes": "1,3"}),
            json!({"failedIndexes": "3,1"}),
            &["Invalid@failedIndexes"],
        ),
        case(
            "R13: only an Indexed Job has completed indexes",
            nothing(),
            json!({"completedIndexes": ""}),
            json!({"completedIndexes": "1"}),
            &["Invalid@completedIndexes"],
        ),
        case(
            "R14: failed indexes need a limit per index",
            nothing(),
            nothing(),
            json!({"failedIndexes": ""}),
            &["Invalid@failedIndexes"],
        ),
        indexed(
            "R15: an index does not both complete and fail",
            nothing(),
            json!({"completedIndexes": "0,2", "failedIndexes": "1"}),
            json!({"completedIndexes": "0-2", "failedIndexes": "1"}),
            &["Invalid@failedIndexes"],
        ),
    ]
}

#[test]
fn every_rule_lets_the_legal_write_pass_and_refuses_the_illegal_one() {
    let groups = [
        cases_for_any_status(),
        cases_for_the_outcome(),
        cases_for_the_end(),
        cases_for_what_stays(),
        cases_for_indexes(),
    ];
    for group in groups {
        for Case { rule, spec, old, legal, illegal, errors } in group {
            let found = on_1_35(&spec, &old, &illegal);
            assert_eq!(found, errors, "{rule}");
            assert_eq!(on_1_35(&spec, &old, &legal), Vec::<String>::new(), "{rule}, the legal write");
        }
    }
}

#[test]
fn a_stored_fault_is_tolerated_as_long_as_its_fields_stay() {
    let spec = json!({"parallelism": 1, "completions": 2, "completionMode": "Indexed"});
    for faulty in [
        with(
            &["Complete"],
            json!({"active": 3, "ready": 5, "terminating": 1, "completionTime": NOON, "startTime": ONE}),
        ),
        with(&["Failed"], json!({"completionTime": NOON, "uncountedTerminatedPods": {"failed": ["a"]}})),
        json!({"completedIndexes": "0-9", "failedIndexes": "x", "ready": 2}),
    ] {
        assert_eq!(on_1_35(&spec, &faulty, &faulty), Vec::<String>::new(), "{faulty}");
    }
}

#[test]
fn a_failed_job_is_looked_at_again_when_its_failed_indexes_change() {
    let spec = json!({"completions": 5, "parallelism": 1, "completionMode": "Indexed", "backoffLimitPerIndex": 1});
    let old = with(&["Failed"], json!({"startTime": NOON}));
    let new = with(&["Failed"], json!({"startTime": NOON, "failedIndexes": "1"}));
    assert_eq!(on_1_35(&spec, &old, &new), ["Invalid@conditions"]);
}

#[test]
fn an_elastic_job_may_lose_successes_but_not_failures() {
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"});
    let found = on_1_35(&spec, &json!({"succeeded": 3, "failed": 2}), &json!({"succeeded": 1, "failed": 1}));
    assert_eq!(found, ["Invalid@failed"]);
}

#[test]
fn a_suspended_job_may_move_and_clear_its_start_time() {
    let spec = json!({"suspend": true});
    for new in [json!({}), json!({"startTime": ONE})] {
        assert_eq!(on_1_35(&spec, &json!({"startTime": NOON}), &new), Vec::<String>::new());
    }
}

#[test]
fn servers_differ_by_patch_release() {
    let resuming = (
        json!({"suspend": false}),
        with(&["Suspended"], json!({"startTime": NOON})),
        json!({"startTime": ONE, "conditions": [{"type": "Suspended", "status": "False"}]}),
    );
    let unstarted =
        (json!({"suspend": true, "completions": 0}), json!({}), with(&["FailureTarget", "Failed"], json!({})));
    let moved = (json!({}), json!({"startTime": NOON}), json!({"startTime": ONE}));
    for (what, (spec, old, new), servers) in [
        (
            "startTime moves on resume",
            &resuming,
            &[
                (32, 9, "Required@startTime"),
                (32, 10, ""),
                (33, 5, "Required@startTime"),
                (33, 6, ""),
                (34, 1, "Required@startTime"),
                (34, 2, ""),
                (35, 0, ""),
            ][..],
        ),
        (
            "zero completions end without a start",
            &unstarted,
            &[(32, 6, "Required@startTime"), (32, 7, ""), (33, 2, "Required@startTime"), (33, 3, ""), (34, 0, "")][..],
        ),
        (
            "a moved start time",
            &moved,
            &[
                (32, 0, "Required@startTime"),
                (35, 8, "Required@startTime"),
                (36, 0, "Invalid@startTime"),
                (37, 0, "Invalid@startTime"),
            ][..],
        ),
    ] {
        for (minor, patch, expected) in servers {
            let found = verdict(spec, old, new, Rules::for_server(1, *minor, Some(*patch)));
            assert_eq!(found.join(","), *expected, "{what} on 1.{minor}.{patch}");
        }
    }
}

/// L1 and L2: without both gates, SuccessCriteriaMet is for Indexed Jobs with a success policy.
#[test]
fn without_the_gates_only_the_old_rules_are_left() {
    let off = Gates { job_managed_by: false, job_pod_replacement_policy: false };
    let on_1_32 = Rules::for_server(1, 32, None).with_gates(off);
    let marked = with(&["SuccessCriteriaMet"], json!({}));
    let policy = json!({"completionMode": "Indexed", "completions": 1, "successPolicy": {"rules": []}});
    for (what, spec, old, new, rules, expected) in [
        ("L1 and L2", json!({}), json!({}), &marked, on_1_32, vec!["Invalid@conditions", "Invalid@conditions"]),
        ("L2", json!({"completionMode": "Indexed"}), json!({}), &marked, on_1_32, vec!["Invalid@conditions"]),
        ("both met", policy, json!({}), &marked, on_1_32, vec![]),
        ("stored before", json!({}), marked.clone(), &marked, on_1_32, vec![]),
        ("gone in 1.37", json!({}), json!({}), &marked, Rules::for_server(1, 37, None).with_gates(off), vec![]),
        ("A1 stays", json!({}), json!({}), &json!({"active": -1}), on_1_32, vec!["Invalid@active"]),
        ("R19 goes", json!({}), json!({"failed": 2}), &json!({"failed": 1}), on_1_32, vec![]),
    ] {
        assert_eq!(verdict(&spec, &old, new, rules), expected, "{what}");
    }
    let half = Gates { job_managed_by: false, job_pod_replacement_policy: true };
    assert_eq!(
        verdict(&json!({}), &json!({}), &marked, Rules::for_server(1, 32, None).with_gates(half)),
        Vec::<String>::new()
    );
}
