//! Traps around suspension and `startTime`.

use serde_json::{Value, json};

use crate::given::*;

const AGAIN: &str = "2026-11-15T11:30:00Z";

/// A mirror that was suspended and runs again.
fn running_again() -> Value {
    with(running(), json!({"startTime": AGAIN, "conditions": [resumed()]}))
}

/// A suspended mirror. Workers before 1.36 leave it the start of the run that was stopped.
fn stopped() -> Value {
    with(running(), json!({"active": 0, "ready": 0, "conditions": [suspended()]}))
}

/// `startTime`, and the status of the condition.
fn start_and_suspended(status: &Value) -> Value {
    json!([status["startTime"], condition(status, "Suspended")["status"]])
}

#[test]
fn t14_a_new_start_is_taken_only_with_the_resumption_that_the_manager_can_see() {
    let saw_suspension = || given().stored(stopped()).mirror(running_again());
    assert_eq!(start_and_suspended(&saw_suspension().next()), json!([AGAIN, "False"]));

    let missed_it = given().stored(running()).mirror(running_again());
    assert_eq!(missed_it.a_plain_copy_breaks(), ["status.startTime"]);
    assert_eq!(start_and_suspended(&missed_it.next()), json!([TEN, "False"]));

    // These servers do not even accept it together with the resumption; their next patch release does.
    for (minor, patch) in [(32, 9), (33, 5), (34, 1)] {
        let old_server = saw_suspension().server(minor, patch);
        assert_eq!(old_server.a_plain_copy_breaks(), ["status.startTime"], "1.{minor}.{patch}");
        assert_eq!(start_and_suspended(&old_server.next()), json!([TEN, "False"]), "1.{minor}.{patch}");
        let fixed_server = saw_suspension().server(minor, patch + 1);
        assert_eq!(start_and_suspended(&fixed_server.next()), json!([AGAIN, "False"]));
    }
}

#[test]
fn t15_a_worker_that_suspends_the_mirror_by_itself_does_not_take_the_start_away() {
    let given = given().stored(running()).mirror(json!({"conditions": [suspended()]}));
    assert_eq!(given.a_plain_copy_breaks(), ["status.startTime"]);
    let next = given.next();
    assert_eq!(start_and_suspended(&next), json!([TEN, "True"]), "what others do to the mirror is reported");
    assert_eq!(next["active"], json!(null));
}

#[test]
fn t16_a_resumption_is_written_as_an_explicit_false_even_if_the_mirror_does_not_mention_it() {
    let given = given().stored(stopped()).mirror(with(running(), json!({"startTime": AGAIN})));
    assert_eq!(given.a_plain_copy_breaks(), ["status.startTime"]);
    let next = given.next();
    assert_eq!(start_and_suspended(&next), json!([AGAIN, "False"]));
    assert_eq!(condition(&next, "Suspended")["reason"], "JobResumed");
    let ended_unstarted = with(failed(), json!({"startTime": null}));
    let next = given.mirror(ended_unstarted).next();
    assert_eq!(start_and_suspended(&next), json!([TEN, "False"]), "it was resumed, or it could not have ended");
}

#[test]
fn t17_a_job_that_its_user_suspends_keeps_its_start_where_the_built_in_controller_leaves_it() {
    for (minor, patch) in [(32, 10), (33, 6), (34, 2), (35, 0)] {
        let next = given().suspended().server(minor, patch).stored(running()).mirror(stopped()).next();
        assert_eq!(start_and_suspended(&next), json!([TEN, "True"]), "1.{minor}.{patch}: its template is fixed");
        // Its user resumes it; the mirror follows later, and starts anew.
        let resumed = given().server(minor, patch).stored(next);
        let not_yet = resumed.mirror(stopped());
        assert!(not_yet.writes_nothing());
        let without_start = not_yet.mirror(with(stopped(), json!({"startTime": null})));
        assert!(without_start.writes_nothing(), "a newer worker takes the start away");
        assert_eq!(start_and_suspended(&without_start.mirror(running_again()).next()), json!([AGAIN, "False"]));
    }
}

#[test]
fn t17_a_start_that_a_queue_took_away_from_a_suspended_job_does_not_come_back() {
    let taken = with(stopped(), json!({"startTime": null}));
    assert!(given().suspended().server(35, 0).stored(taken).mirror(stopped()).writes_nothing());
}

#[test]
fn t17_a_job_that_its_user_suspends_loses_its_start_where_the_template_is_free_or_no_start_could_move() {
    for (minor, patch) in [(32, 9), (33, 5), (34, 1), (36, 0), (37, 0)] {
        let next = given().suspended().server(minor, patch).stored(running()).mirror(stopped()).next();
        assert_eq!(start_and_suspended(&next), json!([null, "True"]), "1.{minor}.{patch}");
    }
    let next = given().suspended().stored(running()).mirror(stopped()).next();
    // So that even a server that never moves a start shows the right one later: not the one of the run that was stopped.
    let resumed = given().server(32, 0).stored(next);
    let not_yet = resumed.mirror(stopped());
    assert!(not_yet.writes_nothing());
    assert_eq!(start_and_suspended(&not_yet.mirror(running_again()).next()), json!([AGAIN, "False"]));
}

#[test]
fn t18_while_the_users_job_is_suspended_a_running_mirror_does_not_make_it_look_started() {
    for (minor, patch) in [(32, 0), (35, 0), (36, 0), (36, 1), (36, 2), (37, 0)] {
        let given = given().suspended().server(minor, patch).mirror(with(running(), json!({"terminating": 1})));
        let next = given.next();
        assert_eq!(start_and_suspended(&next), json!([null, null]), "1.{minor}.{patch}");
        assert_eq!(pick(&next, ["active", "terminating"]), json!([2, 1]), "its pods run until they are told to stop");
        let told = given.stored(next).mirror(with(stopped(), json!({"startTime": null})));
        assert_eq!(start_and_suspended(&told.next()), json!([null, "True"]));
    }
}

#[test]
fn t18_that_it_is_suspended_is_shown_when_the_worker_has_told_its_pods_to_stop() {
    for (minor, patch) in [(32, 9), (35, 0), (36, 0), (37, 0)] {
        let not_yet = given().suspended().server(minor, patch).stored(running()).mirror(running());
        assert!(not_yet.writes_nothing(), "1.{minor}.{patch}");
    }
    let not_yet = given().suspended().server(35, 0).stored(running()).mirror(running());
    // Whoever takes it back in time has never suspended it: nor does the built-in controller say so then.
    let ended = not_yet.mirror(failed());
    assert!(condition(&ended.next(), "Suspended").is_null());
    let resumed_before = with(running(), json!({"conditions": [resumed()]}));
    let again = || given().suspended().server(35, 0).stored(resumed_before.clone());
    assert_eq!(condition(&again().mirror(complete()).next(), "Suspended")["status"], "False", "of the first time");
    assert_eq!(start_and_suspended(&again().mirror(stopped()).next()), json!([TEN, "True"]));
}

#[test]
fn t16_a_job_that_ends_at_the_first_look_after_its_resumption_goes_on_saying_that_it_is_suspended() {
    let held_back = || given().stored(json!({"ready": 0, "terminating": 0, "conditions": [suspended()]}));
    let overdue = held_back().spec(json!({"activeDeadlineSeconds": 0}));
    assert_eq!(condition(&overdue.mirror(failed()).next(), "Suspended")["status"], "True");
    let nothing_to_do = held_back().indexed().spec(json!({"completions": 0, "parallelism": 0}));
    let ended = nothing_to_do.mirror(with(complete(), json!({"succeeded": 0})));
    assert_eq!(condition(&ended.next(), "Suspended")["status"], "True");
}

#[test]
fn t27_times_are_whole_seconds_so_that_nothing_differs_after_storage() {
    let precise = with(running(), json!({"startTime": "2026-11-15T10:00:00.75Z"}));
    assert_eq!(given().mirror(precise.clone()).next()["startTime"], TEN);
    let again = given().stored(running()).mirror(precise);
    assert_eq!(again.a_plain_copy_breaks(), ["status.startTime"]);
    assert!(again.writes_nothing());
    let ended = with(complete(), json!({"completionTime": "2026-11-15T11:00:00.999999Z"}));
    assert_eq!(given().stored(running()).mirror(ended).next()["completionTime"], ELEVEN);
}

#[test]
fn t45_the_start_is_the_workers_because_its_deadline_counts_from_there() {
    assert_eq!(given().mirror(running()).next()["startTime"], TEN);
    let ahead = "2026-11-15T12:30:00Z";
    let next = given().mirror(with(complete(), json!({"startTime": ahead, "completionTime": ahead}))).next();
    assert_eq!(pick(&next, ["startTime", "completionTime"]), json!([ahead, ahead]), "a true duration, by one clock");
}
