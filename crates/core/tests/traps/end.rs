//! Traps at the end of a Job.

use serde_json::{Value, json};

use crate::given::*;

#[test]
fn t01_a_mirror_that_jumps_from_running_to_complete_ends_the_job_in_one_write() {
    let next = given().stored(running()).mirror(complete()).next();
    assert_eq!(types_of(&next), ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(pick(&next, ["startTime", "completionTime", "succeeded"]), json!([TEN, ELEVEN, 3]));
    assert_eq!(pick(&next, ["active", "ready", "terminating"]), json!([null, 0, 0]));
}

#[test]
fn t02_a_worker_that_ends_jobs_without_interim_conditions_gets_them_added_with_the_same_reason() {
    for (end, interim, reason) in
        [("Complete", "SuccessCriteriaMet", "CompletionsReached"), ("Failed", "FailureTarget", "BackoffLimitExceeded")]
    {
        let mut mirror = with(running(), json!({"active": 0, "ready": 0, "conditions": [holds(end, reason)]}));
        if end == "Complete" {
            mirror["completionTime"] = json!(ELEVEN);
        }
        let given = given().stored(running()).mirror(mirror);
        assert_eq!(given.a_plain_copy_breaks(), ["status.conditions"], "{end}");
        let next = given.next();
        assert_eq!(types_of(&next), [interim, end]);
        assert_eq!(pick(condition(&next, interim), ["reason", "lastTransitionTime"]), json!([reason, ELEVEN]));
    }
}

#[test]
fn t03_pods_that_an_old_worker_leaves_in_a_final_status_are_not_shown() {
    let given = given().stored(running()).mirror(with(complete(), json!({"ready": 2, "terminating": 2})));
    assert_eq!(given.a_plain_copy_breaks(), ["status.terminating", "status.ready"]);
    assert_eq!(pick(&given.next(), ["active", "ready", "terminating"]), json!([null, 0, 0]));
}

#[test]
fn t07_after_an_interim_condition_was_copied_the_job_ends_in_that_direction_whatever_a_later_mirror_says() {
    let bound = |type_, reason| with(running(), json!({"conditions": [holds(type_, reason)]}));
    let succeeding = || given().stored(bound("SuccessCriteriaMet", "SuccessPolicy"));
    let failing = || given().stored(bound("FailureTarget", "DeadlineExceeded"));

    assert!(!succeeding().mirror(failed()).a_plain_copy_breaks().is_empty());
    for (ended, at) in [(succeeding().mirror(failed()).next(), ELEVEN), (succeeding().fail(), NOW)] {
        assert_eq!(types_of(&ended), ["SuccessCriteriaMet", "Complete"]);
        assert_eq!(condition(&ended, "Complete")["reason"], "SuccessPolicy");
        assert_eq!(ended["completionTime"], at);
    }
    assert!(!failing().mirror(complete()).a_plain_copy_breaks().is_empty());
    for ended in [failing().mirror(complete()).next(), failing().fail()] {
        assert_eq!(types_of(&ended), ["FailureTarget", "Failed"]);
        assert_eq!(condition(&ended, "Failed")["reason"], "DeadlineExceeded");
        assert_eq!(ended["completionTime"], json!(null));
    }
    // A mirror that runs once more says nothing about the direction.
    let next = succeeding().mirror(with(running(), json!({"active": 1}))).next();
    assert_eq!(types_of(&next), ["SuccessCriteriaMet"]);
}

#[test]
fn t09_a_job_that_ends_without_a_start_gets_one_in_the_same_write() {
    let given = given().mirror(with(failed(), json!({"startTime": null})));
    assert_eq!(given.a_plain_copy_breaks(), ["status.startTime"]);
    assert_eq!(given.next()["startTime"], ELEVEN, "the time of its end, which the worker knows");
    assert_eq!(given.fail()["startTime"], NOW);
    let nothing_to_do = with(complete(), json!({"startTime": null, "succeeded": 0}));
    let never_started = given.suspended().spec(json!({"completions": 0})).mirror(nothing_to_do);
    assert_eq!(types_of(&never_started.next()), ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(types_of(&never_started.server(32, 0).next()), ["SuccessCriteriaMet", "Complete"]);
}

#[test]
fn t10_a_job_that_the_dispatcher_fails_has_both_conditions_no_pods_and_no_completion_time() {
    let ended = given().stored(running()).fail();
    assert_eq!(types_of(&ended), ["FailureTarget", "Failed"]);
    for type_ in ["FailureTarget", "Failed"] {
        assert_eq!(pick(condition(&ended, type_), ["status", "reason"]), json!(["True", "WorkerLost"]));
    }
    assert_eq!(pick(&ended, ["startTime", "active", "completionTime"]), json!([TEN, null, null]));
}

#[test]
fn t11_an_end_before_the_start_moves_to_the_start() {
    let given = given().stored(with(running(), json!({"startTime": NOW}))).mirror(complete());
    assert_eq!(given.a_plain_copy_breaks(), ["status.startTime"], "the start is fixed, so the end has to give way");
    assert_eq!(pick(&given.next(), ["startTime", "completionTime"]), json!([NOW, NOW]));
}

#[test]
fn t12_a_completion_time_that_is_stored_is_never_written_anew() {
    // Only a server whose strict rules were off can have stored this.
    let given = given().stored(with(running(), json!({"completionTime": "2026-11-15T10:30:00Z"}))).mirror(complete());
    assert_eq!(given.a_plain_copy_breaks(), ["status.completionTime"]);
    assert_eq!(given.next()["completionTime"], "2026-11-15T10:30:00Z");
}

#[test]
fn t13_only_a_complete_job_has_a_completion_time() {
    for mirror in [failed(), with(running(), json!({"active": 1}))] {
        let given = given().stored(running()).mirror(with(mirror, json!({"completionTime": ELEVEN})));
        assert_eq!(given.a_plain_copy_breaks(), ["status.completionTime"]);
        assert_eq!(given.next()["completionTime"], json!(null));
    }
}

#[test]
fn t19_a_mirror_that_finishes_while_the_users_job_is_suspended_is_copied_whole() {
    let given = given().suspended().stored(json!({"conditions": [suspended()]})).mirror(complete());
    let next = given.next();
    assert_eq!(types_of(&next), ["SuccessCriteriaMet", "Complete"], "its worker never suspended it");
    assert_eq!(pick(&next, ["startTime", "completionTime", "succeeded"]), json!([TEN, ELEVEN, 3]));
}

#[test]
fn t09_a_suspended_job_with_nothing_to_do_ends_without_a_start_where_the_server_allows_it() {
    let ended = with(complete(), json!({"startTime": null, "succeeded": null}));
    let given = |minor, patch| {
        given().suspended().spec(json!({"completions": 0})).server(minor, patch).mirror(ended.clone()).next()
    };
    assert_eq!(given(35, 0)["startTime"], Value::Null);
    assert_eq!(given(32, 0)["startTime"], ELEVEN, "an old server wants one");
}

/// A mirror that had nothing to do and never said that it was suspended, as the built-in controller ends it.
fn ended_with_nothing_to_do() -> Value {
    with(complete(), json!({"succeeded": 0, "startTime": null}))
}

#[test]
fn a_job_with_nothing_to_do_is_never_shown_as_suspended() {
    let given = given().suspended().indexed().spec(json!({"completions": 0, "parallelism": 0}));
    let not_yet = given.mirror(json!({"ready": 0, "terminating": 0}));
    assert_eq!(types_of(&not_yet.next()), [""; 0]);
    let next = not_yet.mirror(ended_with_nothing_to_do()).next();
    assert_eq!(types_of(&next), ["SuccessCriteriaMet", "Complete"]);
}

#[test]
fn a_job_that_was_suspended_before_it_shrank_to_nothing_still_says_so_when_it_has_ended() {
    let shrunk = || given().suspended().indexed().spec(json!({"completions": 0, "parallelism": 0}));
    let held_back = || shrunk().stored(json!({"ready": 0, "terminating": 0, "conditions": [suspended()]}));
    assert!(held_back().mirror(json!({"ready": 0, "terminating": 0})).writes_nothing());
    let knew_of_it = with(
        ended_with_nothing_to_do(),
        json!({"conditions": [
        suspended(), holds("SuccessCriteriaMet", "CompletionsReached"), holds("Complete", "CompletionsReached")]}),
    );
    for ended in [ended_with_nothing_to_do(), knew_of_it] {
        let next = held_back().mirror(ended).next();
        assert_eq!(types_of(&next), ["Suspended", "SuccessCriteriaMet", "Complete"]);
        assert_eq!(condition(&next, "Suspended")["status"], "True");
    }
}

#[test]
fn a_job_that_ends_in_the_moment_of_its_suspension_was_never_suspended() {
    // A work queue after its first success: without its pods it is complete.
    let given = given().suspended().spec(json!({"completions": null})).mirror(complete());
    let shown = with(running(), json!({"active": 0, "ready": 0, "conditions": [suspended()]}));
    assert_eq!(types_of(&given.stored(shown).next()), ["SuccessCriteriaMet", "Complete"]);
}

#[test]
fn t20_a_finished_job_is_frozen() {
    let late =
        with(complete(), json!({"succeeded": 4, "failed": 1, "ready": 1, "startTime": ELEVEN, "completionTime": NOW}));
    let given = given().stored(complete()).mirror(late);
    assert!(!given.a_plain_copy_breaks().is_empty());
    assert!(given.writes_nothing());
}

#[test]
fn t21_an_outcome_never_flips_after_it_was_copied() {
    for (stored, mirror) in [(complete(), failed()), (failed(), complete()), (complete(), running())] {
        let given = given().stored(stored).mirror(mirror);
        assert!(!given.a_plain_copy_breaks().is_empty());
        assert!(given.writes_nothing());
    }
}

#[test]
fn t34_a_terminal_condition_without_times_gets_both() {
    let bare = |type_| json!({"type": type_, "status": "True", "reason": "CompletionsReached"});
    let mirror = with(complete(), json!({"conditions": [bare("SuccessCriteriaMet"), bare("Complete")]}));
    let next = given().stored(running()).mirror(mirror).next();
    for type_ in ["SuccessCriteriaMet", "Complete"] {
        assert_eq!(pick(condition(&next, type_), ["lastProbeTime", "lastTransitionTime"]), json!([NOW, NOW]));
    }
}

#[test]
fn t35_a_worker_whose_clock_is_wrong_does_not_shift_the_ttl_of_the_users_job() {
    for (clock, interim) in [("2036-01-01T00:00:00Z", NOW), ("2016-01-01T00:00:00Z", "2016-01-01T00:00:00Z")] {
        let at = |type_| with(holds(type_, "CompletionsReached"), json!({"lastTransitionTime": clock}));
        let mirror = with(complete(), json!({"conditions": [at("SuccessCriteriaMet"), at("Complete")]}));
        let next = given().stored(running()).mirror(mirror).next();
        assert_eq!(condition(&next, "Complete")["lastTransitionTime"], NOW, "when its user could see it");
        assert_eq!(condition(&next, "SuccessCriteriaMet")["lastTransitionTime"], interim);
    }
}

#[test]
fn t42_a_worker_that_dropped_a_success_policy_or_a_limit_per_index_still_ends_in_a_legal_status() {
    let policies = json!({"backoffLimitPerIndex": 1, "successPolicy": {"rules": [{"succeededCount": 1}]}});
    let without = with(complete(), json!({"conditions": [holds("Complete", "")], "completedIndexes": "0-2"}));
    let given = given().indexed().spec(policies).stored(running()).mirror(without);
    assert_eq!(given.a_plain_copy_breaks(), ["status.conditions"; 2]);
    let next = given.next();
    assert_eq!(types_of(&next), ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(pick(&next, ["completedIndexes", "failedIndexes"]), json!(["0-2", null]));
}

#[test]
fn t46_pods_that_terminate_for_ever_on_a_lost_worker_do_not_keep_the_job_from_ending() {
    let ended = given().stored(with(running(), json!({"terminating": 2}))).fail();
    assert_eq!(pick(&ended, ["active", "ready", "terminating"]), json!([null, 0, 0]));
}

#[test]
fn t47_a_failed_job_of_old_without_its_interim_condition_stays_as_it_is_while_failed_indexes_move() {
    let per_index = given().indexed().spec(json!({"backoffLimitPerIndex": 1}));
    let stored = with(failed(), json!({"failedIndexes": "0", "conditions": [holds("Failed", "FailedIndexes")]}));
    let given = per_index.stored(stored.clone()).mirror(with(stored, json!({"failedIndexes": "0,1"})));
    assert_eq!(given.a_plain_copy_breaks(), ["status.conditions"]);
    assert!(given.writes_nothing());
}
