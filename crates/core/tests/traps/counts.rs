//! Traps in the counters and index lists of a Job that runs.

use serde_json::json;

use crate::given::*;

#[test]
fn t04_there_are_never_more_ready_pods_than_active_ones() {
    for (active, shown) in [(1, json!([1, 1])), (0, json!([null, 0]))] {
        let given = given().stored(running()).mirror(with(running(), json!({"active": active, "ready": 2})));
        assert_eq!(given.a_plain_copy_breaks(), ["status.ready"]);
        assert_eq!(pick(&given.next(), ["active", "ready"]), shown);
    }
}

#[test]
fn t05_uncounted_pods_stay_on_the_worker() {
    let uncounted = json!({"uncountedTerminatedPods": {"succeeded": ["p1"], "failed": ["p2"]}});
    let given = given().stored(running()).mirror(with(complete(), uncounted.clone()));
    assert_eq!(given.a_plain_copy_breaks(), ["status.uncountedTerminatedPods"]);
    assert_eq!(given.next()["uncountedTerminatedPods"], json!(null));
    let given = given.mirror(with(running(), uncounted.clone()));
    assert!(given.writes_nothing());
    assert_eq!(given.stored(with(running(), uncounted)).next()["uncountedTerminatedPods"], json!(null));
}

#[test]
fn t06_counters_go_on_when_the_mirror_is_a_new_one() {
    let moved = given().stored(with(running(), json!({"failed": 4, "succeeded": 2}))).carried(4);
    let given = moved.mirror(with(running(), json!({"active": 1, "failed": 1, "succeeded": 1})));
    assert_eq!(given.a_plain_copy_breaks(), ["status.failed", "status.succeeded"]);
    assert_eq!(pick(&given.next(), ["failed", "succeeded"]), json!([5, 2]));
    assert!(given.mirror(running()).writes_nothing(), "a new mirror that has counted nothing changes nothing");
}

#[test]
fn t08_a_job_whose_mirror_is_lost_keeps_its_start_and_its_counters() {
    let given = given().stored(with(running(), json!({"failed": 1, "succeeded": 1}))).mirror(json!({}));
    assert_eq!(given.a_plain_copy_breaks(), ["status.failed", "status.succeeded", "status.startTime"]);
    let next = given.next();
    assert_eq!(pick(&next, ["startTime", "failed", "succeeded"]), json!([TEN, 1, 1]));
    assert_eq!(pick(&next, ["active", "ready", "terminating"]), json!([null, null, null]));
}

#[test]
fn t22_indexes_that_the_users_job_no_longer_has_are_clipped() {
    let elastic = given().indexed().spec(json!({"completions": 5, "parallelism": 5, "backoffLimitPerIndex": 1}));
    let given = elastic.mirror(with(running(), json!({"completedIndexes": "0-3,5-7", "failedIndexes": "4,8"})));
    assert_eq!(given.a_plain_copy_breaks(), ["status.completedIndexes", "status.failedIndexes"]);
    assert_eq!(pick(&given.next(), ["completedIndexes", "failedIndexes"]), json!(["0-3", "4"]));
    let beyond = given.mirror(with(running(), json!({"completedIndexes": "7,8", "failedIndexes": "9"})));
    assert_eq!(pick(&beyond.next(), ["completedIndexes", "failedIndexes"]), json!([null, ""]));
}

#[test]
fn t22_a_thousand_million_indexes_are_clipped_by_their_ranges() {
    let huge = given().indexed().spec(json!({"completions": 2_000_000_000, "backoffLimitPerIndex": 1}));
    let lists = json!({"completedIndexes": "0-999999999", "failedIndexes": "5,1000000001"});
    let next = huge.mirror(with(running(), lists)).next();
    assert_eq!(pick(&next, ["completedIndexes", "failedIndexes"]), json!(["0-999999999", "1000000001"]));
}

#[test]
fn t23_failed_indexes_are_null_without_a_limit_per_index_even_when_empty() {
    for text in ["", "1"] {
        let given = given().indexed().stored(running()).mirror(with(running(), json!({"failedIndexes": text})));
        assert_eq!(given.a_plain_copy_breaks(), ["status.failedIndexes"]);
        assert!(given.writes_nothing());
        let per_index = given.spec(json!({"backoffLimitPerIndex": 1}));
        assert_eq!(per_index.next()["failedIndexes"], text, "with the limit even an empty list is one");
    }
}

#[test]
fn t24_completed_indexes_are_for_indexed_jobs() {
    let given = given().stored(running()).mirror(with(running(), json!({"completedIndexes": "0"})));
    assert_eq!(given.a_plain_copy_breaks(), ["status.completedIndexes"]);
    assert!(given.writes_nothing());
    assert_eq!(given.indexed().next()["completedIndexes"], "0");
}

#[test]
fn t25_an_index_that_is_completed_is_not_failed() {
    let per_index = given().indexed().spec(json!({"backoffLimitPerIndex": 1}));
    let given = per_index.mirror(with(running(), json!({"completedIndexes": "0,1", "failedIndexes": "1,2"})));
    assert_eq!(given.a_plain_copy_breaks(), ["status.failedIndexes"]);
    assert_eq!(pick(&given.next(), ["completedIndexes", "failedIndexes"]), json!(["0,1", "2"]));
}

#[test]
fn t26_successes_fall_only_when_the_users_job_is_elastic_at_the_time_of_the_write() {
    let shrunk = || {
        let before = with(running(), json!({"succeeded": 3, "completedIndexes": "0-2"}));
        let after = json!({"succeeded": 2, "completedIndexes": "0,1", "active": 1});
        given().indexed().stored(before).mirror(with(running(), after))
    };
    let elastic = shrunk().spec(json!({"completions": 2, "parallelism": 2}));
    assert_eq!(elastic.a_plain_copy_breaks(), [""; 0]);
    assert_eq!(elastic.next()["succeeded"], 2);
    let not_elastic = shrunk().spec(json!({"completions": 4, "parallelism": 2}));
    assert_eq!(not_elastic.a_plain_copy_breaks(), ["status.succeeded"]);
    assert_eq!(not_elastic.next()["succeeded"], 3);
}

#[test]
fn t26_successes_of_indexes_that_are_gone_go_before_the_worker_knows_of_it() {
    let done = || with(running(), json!({"succeeded": 3, "completedIndexes": "0,2,3"}));
    let shrunk = given().indexed().spec(json!({"completions": 3, "parallelism": 3})).stored(done()).mirror(done());
    let next = shrunk.next();
    assert_eq!(pick(&next, ["succeeded", "completedIndexes"]), json!([2, "0,2"]));
    // With fewer workers it is not elastic any more, and the worker follows both edits at once.
    let followed = with(running(), json!({"succeeded": 2, "completedIndexes": "0,2", "active": 1}));
    let fewer = given().indexed().spec(json!({"completions": 3, "parallelism": 1})).stored(next).mirror(followed);
    assert_eq!(pick(&fewer.next(), ["succeeded", "completedIndexes"]), json!([2, "0,2"]));
}

#[test]
fn t06_the_successes_of_an_indexed_job_go_on_when_the_mirror_is_a_new_one() {
    let before = with(running(), json!({"succeeded": 2, "failed": 1, "completedIndexes": "0,1"}));
    let moved = given().indexed().stored(before).carried(1);
    let given = moved.mirror(with(running(), json!({"succeeded": 1, "failed": 1, "completedIndexes": "2"})));
    assert_eq!(pick(&given.next(), ["succeeded", "failed", "completedIndexes"]), json!([2, 2, "2"]));
}

#[test]
fn t28_a_counter_that_the_mirror_does_not_mention_is_not_sent_as_nothing() {
    let given = given()
        .stored(with(running(), json!({"failed": 2, "succeeded": 1})))
        .mirror(with(running(), json!({"active": 1})));
    assert_eq!(given.a_plain_copy_breaks(), ["status.failed", "status.succeeded"]);
    assert_eq!(pick(&given.next(), ["active", "failed", "succeeded"]), json!([1, 2, 1]));
}
