//! Life cycles of Jobs on an API server that obeys at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod world;

use serde_json::json;
use world::world;

const COMPLETE: [(&str, &str); 2] = [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")];

fn failed(reason: &str) -> [(&str, &str); 2] {
    [("FailureTarget", reason), ("Failed", reason)]
}

#[test]
fn one_pod_that_succeeds_completes_its_job() {
    let mut w = world(json!({}));
    w.settle();
    assert_eq!((w.created, w.counters()), (1, (1, 0, 0)));
    w.run_all().settle();
    assert_eq!(w.job.status.ready, Some(1));
    w.succeed_any().settle();
    assert_eq!((w.conditions(), w.counters()), (COMPLETE.to_vec(), (0, 1, 0)));
    assert_eq!(w.notices.last().unwrap().reason, "Completed");
    assert!(w.pods.iter().all(|pod| pod.finalizers.is_empty()), "every pod is let go");
    assert!(w.job.status.completion_time.is_some());
}

#[test]
fn no_more_pods_run_than_are_still_wanted() {
    let mut w = world(json!({"parallelism": 3, "completions": 4}));
    w.settle();
    assert_eq!(w.counters(), (3, 0, 0));
    w.succeed_any().succeed_any().settle();
    assert_eq!(w.counters(), (2, 2, 0));
    w.succeed_any().succeed_any().settle();
    assert_eq!((w.conditions(), w.created), (COMPLETE.to_vec(), 4));
}

#[test]
fn a_failed_pod_is_replaced_after_a_growing_wait_until_the_limit() {
    let mut w = world(json!({"backoffLimit": 2}));
    w.settle();
    assert_eq!(w.fail_any().settle(), Some(10));
    assert_eq!(w.counters(), (0, 0, 1));
    w.wait(9).settle();
    assert_eq!(w.created, 1, "not before the wait is over");
    w.wait(1).settle();
    assert_eq!(w.created, 2);
    assert_eq!(w.fail_any().settle(), Some(20));
    w.wait(20).settle();
    w.fail_any().settle();
    assert_eq!((w.conditions(), w.counters()), (failed("BackoffLimitExceeded").to_vec(), (0, 0, 3)));
    assert_eq!(w.created, 3);
}

#[test]
fn pods_that_run_when_the_job_fails_count_as_failed_and_the_end_waits_for_them() {
    let mut w = world(json!({"parallelism": 3, "completions": 3, "backoffLimit": 0}));
    w.settle();
    w.run_all().fail_any().settle();
    assert_eq!(w.conditions(), [("FailureTarget", "BackoffLimitExceeded")]);
    assert_eq!((w.counters(), w.job.status.terminating), ((0, 0, 3), Some(2)));
    w.nodes_finish_terminating().settle();
    assert_eq!(w.conditions(), failed("BackoffLimitExceeded"));
    assert_eq!(w.counters(), (0, 0, 3));
}

#[test]
fn an_indexed_job_runs_every_index_once() {
    let mut w = world(json!({"completionMode": "Indexed", "parallelism": 2, "completions": 4}));
    w.settle();
    assert_eq!(w.active_indexes(), [0, 1]);
    w.succeed(1).settle();
    assert_eq!((w.active_indexes(), w.completed_indexes()), (vec![0, 2], "1"));
    w.fail(0).settle();
    w.wait(10).settle();
    assert_eq!(w.active_indexes(), [0, 2]);
    w.succeed(0).succeed(2).settle();
    w.succeed(3).settle();
    assert_eq!((w.conditions(), w.completed_indexes()), (COMPLETE.to_vec(), "0-3"));
    assert_eq!(w.counters(), (0, 4, 1));
}

#[test]
fn a_suspended_job_stops_its_pods_without_counting_them_and_resumes() {
    let mut w = world(json!({"parallelism": 2, "completions": 2}));
    w.settle();
    w.run_all().settle();
    w.job.spec.suspend = true;
    w.settle();
    assert_eq!(w.conditions(), [("Suspended", "JobSuspended")]);
    assert_eq!((w.counters(), w.job.status.terminating), ((0, 0, 0), Some(2)));
    w.nodes_finish_terminating().wait(60).settle();
    w.job.spec.suspend = false;
    w.settle();
    assert_eq!((w.conditions(), w.counters(), w.created), (vec![], (2, 0, 0), 4));
    assert_eq!(w.job.status.start_time.as_ref().unwrap().0, w.now, "the deadline counts from the resumption");
    w.succeed_any().succeed_any().settle();
    assert_eq!((w.conditions(), w.counters()), (COMPLETE.to_vec(), (0, 2, 0)));
}

#[test]
fn a_job_of_nothing_is_complete_at_once_even_suspended() {
    for suspend in [false, true] {
        let mut w = world(json!({"completions": 0, "parallelism": 1, "suspend": suspend}));
        w.settle();
        assert_eq!((w.conditions(), w.created), (COMPLETE.to_vec(), 0));
    }
}

#[test]
fn a_deleted_job_creates_nothing_and_lets_its_pods_go() {
    let mut w = world(json!({"parallelism": 2, "completions": 2}));
    w.settle();
    w.succeed_any();
    w.job.deleting = true;
    w.settle();
    assert_eq!(w.created, 2);
    assert!(w.pods.iter().all(|pod| pod.finalizers.is_empty()));
    assert_eq!(w.counters().1, 1, "what ended before is counted all the same");
}

#[test]
fn a_pod_failure_policy_may_ignore_a_failure_or_fail_the_job() {
    let policy = json!({"rules": [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
    ]});
    let mut w = world(json!({
        "completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 0, "podFailurePolicy": policy,
    }));
    w.settle();
    w.exit(0, 7).settle();
    assert_eq!(w.counters(), (1, 0, 0), "an ignored failure is not counted");
    w.wait(10).settle();
    assert_eq!(w.active_indexes(), [0, 1]);
    w.exit(1, 42).settle();
    assert_eq!(w.conditions(), failed("PodFailurePolicy"));
    let message = w.job.status.conditions.as_deref().unwrap()[0].message.as_deref().unwrap();
    assert_eq!(
        message,
        "Container main for pod default/job-2 failed with exit code 42 matching FailJob rule at index 1"
    );
}

#[test]
fn an_index_fails_on_its_own_limit_while_others_go_on() {
    let mut w = world(json!({
        "completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 1, "backoffLimit": 99,
    }));
    w.settle();
    w.fail(1).settle();
    assert_eq!(w.job.status.failed_indexes.as_deref(), Some(""), "one failure is granted");
    assert!(w.pods.iter().any(|pod| pod.ended() && !pod.finalizers.is_empty()), "it waits for its successor");
    w.wait(10).settle();
    assert_eq!(w.active_indexes(), [0, 1, 2]);
    assert_eq!(w.active().iter().find(|pod| pod.index == Some(1)).unwrap().index_failures, 1);
    w.fail(1).settle();
    assert_eq!((w.active_indexes(), w.job.status.failed_indexes.as_deref()), (vec![0, 2], Some("1")));
    w.succeed(0).succeed(2).settle();
    assert_eq!((w.conditions(), w.completed_indexes()), (failed("FailedIndexes").to_vec(), "0,2"));
    assert_eq!(w.counters(), (0, 2, 2));
}

#[test]
fn too_many_failed_indexes_end_the_job_at_once() {
    let mut w = world(json!({
        "completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimitPerIndex": 0, "backoffLimit": 99,
        "maxFailedIndexes": 1,
    }));
    w.settle();
    w.fail(0).settle();
    assert_eq!(w.conditions(), []);
    w.fail(3).settle();
    assert_eq!((w.conditions(), w.counters()), (failed("MaxFailedIndexesExceeded").to_vec(), (0, 0, 4)));
}

#[test]
fn a_success_policy_ends_the_job_early_and_stopped_pods_are_no_failures() {
    let mut w = world(json!({
        "completionMode": "Indexed", "completions": 3, "parallelism": 3,
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
    }));
    w.settle();
    w.run_all().succeed(0).settle();
    assert_eq!(w.conditions(), [("SuccessCriteriaMet", "SuccessPolicy")], "the end waits for the pods");
    w.nodes_finish_terminating().settle();
    assert_eq!(w.conditions(), [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")]);
    assert_eq!(w.counters(), (0, 1, 0));
}

#[test]
fn a_job_that_is_active_too_long_fails() {
    let mut w = world(json!({"activeDeadlineSeconds": 60}));
    assert_eq!(w.settle(), Some(60));
    w.wait(59).settle();
    assert_eq!(w.conditions(), []);
    w.wait(1).settle();
    assert_eq!((w.conditions(), w.counters()), (failed("DeadlineExceeded").to_vec(), (0, 0, 1)));
}

#[test]
fn a_job_without_any_time_fails_before_it_has_a_pod() {
    let mut w = world(json!({"activeDeadlineSeconds": 0, "suspend": true}));
    w.settle();
    assert_eq!(w.conditions(), [("Suspended", "JobSuspended")], "no time passes while it is suspended");
    let mut w = world(json!({"activeDeadlineSeconds": 0}));
    w.settle();
    assert_eq!((w.conditions(), w.counters(), w.created), (failed("DeadlineExceeded").to_vec(), (0, 0, 0), 0));
    assert_eq!(w.job.status.start_time.as_ref().unwrap().0, w.now);
}

#[test]
fn the_pods_of_a_work_queue_know_when_the_work_is_done() {
    let mut w = world(json!({"parallelism": 3}));
    w.settle();
    w.succeed_any().settle();
    assert_eq!((w.counters(), w.conditions()), ((2, 1, 0), vec![]), "nobody is added, nobody is stopped");
    w.fail_any().settle();
    w.succeed_any().settle();
    assert_eq!((w.conditions(), w.counters(), w.created), (COMPLETE.to_vec(), (0, 2, 1), 3));
}

#[test]
fn an_elastic_job_grows_and_shrinks() {
    let mut w = world(json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2}));
    w.settle();
    w.succeed(1).settle();
    (w.job.spec.completions, w.job.spec.parallelism) = (Some(4), 4);
    w.settle();
    assert_eq!(w.active_indexes(), [0, 2, 3]);
    (w.job.spec.completions, w.job.spec.parallelism) = (Some(1), 1);
    w.settle();
    assert_eq!((w.active_indexes(), w.completed_indexes(), w.counters()), (vec![0], "", (1, 0, 0)));
    w.succeed(0).settle();
    assert_eq!(w.conditions(), COMPLETE);
}

#[test]
fn restarts_in_place_count_against_the_limit() {
    let template = json!({"spec": {"restartPolicy": "OnFailure"}});
    let mut w = world(json!({"backoffLimit": 2, "template": template}));
    w.settle();
    w.run_all().pods[0].restarts.total = 1;
    w.settle();
    assert_eq!(w.conditions(), []);
    w.pods[0].restarts.total = 2;
    w.settle();
    w.nodes_finish_terminating().settle();
    assert_eq!((w.conditions(), w.counters()), (failed("BackoffLimitExceeded").to_vec(), (0, 0, 1)));
}

#[test]
fn a_terminating_pod_is_replaced_at_once_or_only_when_it_has_ended() {
    for (policy, created_before_it_ended) in [("TerminatingOrFailed", 2), ("Failed", 1)] {
        let mut w = world(json!({"podReplacementPolicy": policy}));
        w.settle();
        w.run_all().pods[0].deleting = true;
        w.settle();
        w.wait(10).settle();
        assert_eq!(w.created, created_before_it_ended, "{policy}");
        w.nodes_finish_terminating().settle();
        w.wait(10).settle();
        assert_eq!((w.created, w.counters()), (2, (1, 0, 1)), "{policy}");
    }
}

#[test]
fn fewer_workers_stop_the_youngest_pods_without_counting_them() {
    let mut w = world(json!({"parallelism": 2, "completions": 9}));
    w.settle();
    w.run_all();
    w.wait(60).job.spec.parallelism = 4;
    w.settle();
    w.job.spec.parallelism = 2;
    w.settle();
    let names: Vec<&str> = w.active().iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!((names, w.counters()), (vec!["job-1", "job-2"], (2, 0, 0)));
}
