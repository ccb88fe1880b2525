//! Where features meet, and what happens at awkward moments.

use serde_json::{Value, json};

use super::{
    Scenario,
    Step::{Condition, DeleteJob, DeletePod, Edit, EditPod, Failed, Go, MarkPod, Ready, Seconds, Succeeded},
    Until,
    scenarios::{
        FAIL_ONCE, GATE, HANG_ONCE, HANG_ONCE_PER_INDEX, I, indexed, on_exit, plain, policy, scale, suspend, widen,
    },
};

/// Takes its time to end, and ends well, when it is told to stop.
const GRACEFUL: &str = "trap 'sleep 1; exit 0' TERM; while true; do sleep 0.1; done";
/// Takes its time to end, and ends badly, when it is told to stop.
const UNWILLING: &str = "trap 'sleep 1; exit 1' TERM; while true; do sleep 0.1; done";

/// Several features at once.
pub(super) fn all() -> Vec<Scenario> {
    [
        policies(),
        policies_by_index(),
        successes(),
        deadlines(),
        pauses(),
        widths(),
        queues(),
        pods(),
        belongings(),
        sidecars(),
    ]
    .concat()
}

fn per_index(limit: u32, rules: &[Value]) -> Value {
    json!({"backoffLimitPerIndex": limit, "podFailurePolicy": policy(rules)})
}

fn on_condition(action: &str, kind: &str, status: &str) -> Value {
    json!({"action": action, "onPodConditions": [{"type": kind, "status": status}]})
}

fn policies() -> Vec<Scenario> {
    vec![
        plain(
            "the-first-rule-that-matches-counts",
            json!({
                "backoffLimit": 0,
                "podFailurePolicy": policy(&[on_exit("Count", "In", &[1]), on_exit("FailJob", "NotIn", &[99])]),
            }),
            "exit 1",
        ),
        plain(
            "a-condition-that-is-false-fails-the-job",
            json!({"podFailurePolicy": policy(&[on_condition("FailJob", "example.com/Good", "False")])}),
            &format!("{GATE}; exit 1"),
        )
        .then([Ready(1), MarkPod("example.com/Good", "False"), Go]),
        plain(
            "a-condition-with-another-status-means-nothing",
            json!({"backoffLimit": 0, "podFailurePolicy": policy(&[on_condition("Ignore", "example.com/Good", "False")])}),
            &format!("{GATE}; exit 1"),
        )
        .then([Ready(1), MarkPod("example.com/Good", "True"), Go]),
        plain(
            "init-exit-code-fails-the-job",
            json!({"podFailurePolicy": policy(&[on_exit("FailJob", "In", &[5])])}),
            "",
        )
        .with_pod(json!({
            "restartPolicy": "Never",
            "initContainers": [{"name": "first", "command": ["sh", "-c", "exit 5"]}],
            "containers": [{"name": "main", "command": ["true"]}],
        })),
        plain(
            "the-rule-is-about-another-container",
            json!({"backoffLimit": 0, "podFailurePolicy": policy(&[
                json!({"action": "FailJob", "onExitCodes": {"containerName": "a", "operator": "In", "values": [42]}}),
            ])}),
            "",
        )
        .with_pod(json!({"restartPolicy": "Never", "containers": [
            {"name": "a", "command": ["true"]}, {"name": "b", "command": ["sh", "-c", "exit 42"]},
        ]})),
        plain(
            "ignored-twice",
            json!({"backoffLimit": 0, "podFailurePolicy": policy(&[on_exit("Ignore", "In", &[7])])}),
            "mkdir $NOTE.1 && exit 7; mkdir $NOTE.2 && exit 7; exit 0",
        ),
        plain(
            "deleted-pod-under-a-policy",
            json!({"backoffLimit": 0, "podFailurePolicy": policy(&[on_exit("Ignore", "In", &[143])])}),
            "test -e $NOTE && exit 0; touch $NOTE; trap 'exit 143' TERM; while true; do sleep 0.1; done",
        )
        .then([Ready(1), DeletePod(None, None)]),
        plain(
            "others-end-well-after-the-job-has-failed",
            json!({"completions": 2, "parallelism": 2, "podFailurePolicy": policy(&[on_exit("FailJob", "In", &[42])])}),
            &format!("{GATE}; mkdir $NOTE && exit 42; {GRACEFUL}"),
        )
        .then([Ready(2), Go]),
    ]
}

fn policies_by_index() -> Vec<Scenario> {
    vec![
        indexed(
            "an-exit-code-fails-the-job-whatever-the-index-may-still-do",
            3,
            3,
            per_index(2, &[on_exit("FailJob", "In", &[42])]),
            &format!("test {I} = 1 || exec sleep 120; {GATE}; exit 42"),
        )
        .then([Ready(3), Go]),
        indexed(
            "indexes-failed-by-exit-code-are-too-many",
            4,
            4,
            json!({
                "backoffLimitPerIndex": 3, "maxFailedIndexes": 1,
                "podFailurePolicy": policy(&[on_exit("FailIndex", "In", &[42])]),
            }),
            &format!("test {I} -lt 2 || exec sleep 120; {GATE}; exit 42"),
        )
        .then([Ready(4), Go]),
        indexed(
            "an-index-fails-by-code-another-by-its-limit",
            3,
            3,
            per_index(1, &[on_exit("FailIndex", "In", &[42]), on_exit("Count", "In", &[1])]),
            &format!("case {I} in 0) exit 0;; 1) exit 42;; *) exit 1;; esac"),
        ),
        indexed("a-deleted-pod-costs-the-index-a-try", 2, 2, json!({"backoffLimitPerIndex": 1}), HANG_ONCE_PER_INDEX)
            .then([Ready(2), DeletePod(Some(0), None), Ready(1), Succeeded(1), DeletePod(Some(1), None)]),
        indexed(
            "a-deleted-pod-is-the-end-of-the-index",
            2,
            2,
            json!({"backoffLimitPerIndex": 0}),
            &format!("test {I} = 0 && exit 0; sleep 120"),
        )
        .then([Succeeded(1), DeletePod(Some(1), None)]),
        indexed(
            "a-disrupted-index-may-try-again",
            2,
            2,
            per_index(0, &[on_condition("Ignore", "DisruptionTarget", "True")]),
            &format!("test {I} = 0 && {{ {GATE}; exit 0; }}; {HANG_ONCE}"),
        )
        .then([Ready(2), Go, Succeeded(1), MarkPod("DisruptionTarget", "True"), DeletePod(Some(1), None)]),
    ]
}

fn successes() -> Vec<Scenario> {
    let rule = |rule: Value| json!({"successPolicy": {"rules": [rule]}});
    let with = |mut spec: Value, key: &str, value: u32| {
        spec[key] = json!(value);
        spec
    };
    vec![
        indexed(
            "the-leader-fails",
            2,
            2,
            with(rule(json!({"succeededIndexes": "0"})), "backoffLimit", 0),
            &format!("test {I} = 1 && exec sleep 120; {GATE}; exit 1"),
        )
        .then([Ready(2), Go]),
        indexed(
            "all-fail-before-the-policy-is-met",
            2,
            2,
            with(rule(json!({"succeededIndexes": "0"})), "backoffLimitPerIndex", 0),
            "exit 1",
        ),
        indexed("the-policy-asks-for-all", 3, 3, rule(json!({"succeededIndexes": "0-2"})), "true"),
        indexed(
            "two-of-three-leaders-suffice",
            4,
            4,
            rule(json!({"succeededIndexes": "0-2", "succeededCount": 2})),
            &format!("case {I} in 0|2) {GATE};; *) exec sleep 120;; esac"),
        )
        .then([Ready(4), Go]),
        indexed(
            "the-rest-is-stopped-and-ends-badly",
            3,
            3,
            rule(json!({"succeededIndexes": "0"})),
            &format!("test {I} = 0 && {{ {GATE}; exit 0; }}; {UNWILLING}"),
        )
        .then([Ready(3), Go]),
        indexed(
            "the-rest-is-stopped-and-ends-well",
            3,
            3,
            rule(json!({"succeededIndexes": "0"})),
            &format!("test {I} = 0 && {{ {GATE}; exit 0; }}; {GRACEFUL}"),
        )
        .then([Ready(3), Go]),
        indexed(
            "the-policy-is-met-by-waves",
            6,
            2,
            rule(json!({"succeededCount": 3})),
            &format!("case {I} in 0|1) ;; 2) {GATE};; *) exec sleep 120;; esac"),
        )
        // Nothing ends in the second wave before all of it is there: how many pods there were does not depend on chance.
        .then([Succeeded(2), Ready(2), Go]),
    ]
}

fn deadlines() -> Vec<Scenario> {
    vec![
        plain("deadline-in-back-off", json!({"activeDeadlineSeconds": 5}), "exit 1"),
        plain("deadline-in-place", json!({"activeDeadlineSeconds": 15}), "sleep 120").in_place(),
        plain("deadline-without-workers", json!({"activeDeadlineSeconds": 3, "parallelism": 0}), "true"),
        plain("deadline-of-pods-that-end-well", json!({"activeDeadlineSeconds": 15}), GRACEFUL),
        plain(
            "deadline-of-pods-that-end-badly",
            json!({"activeDeadlineSeconds": 15, "podReplacementPolicy": "Failed"}),
            UNWILLING,
        ),
        plain("deadline-taken-back", json!({"activeDeadlineSeconds": 60}), GATE).then([
            Ready(1),
            Edit(json!({"spec": {"activeDeadlineSeconds": null}})),
            Go,
        ]),
        indexed(
            "deadline-of-half-done-indexes",
            3,
            1,
            json!({"activeDeadlineSeconds": 20}),
            &format!("test {I} = 0 || exec sleep 120"),
        ),
        plain("deadline-of-a-pod", json!({"backoffLimit": 0}), "").with_pod(json!({
            "restartPolicy": "Never", "activeDeadlineSeconds": 3, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "command": ["sleep", "120"]}],
        })),
    ]
}

fn pauses() -> Vec<Scenario> {
    vec![
        plain("resumed-in-back-off", json!({"backoffLimit": 4}), FAIL_ONCE).then([
            Failed(1),
            suspend(true),
            Condition("Suspended"),
            Seconds(1),
            suspend(false),
        ]),
        plain("resumed-with-more-workers", json!({"suspend": true, "completions": 3, "parallelism": 1}), "true")
            .then([Condition("Suspended"), Edit(json!({"spec": {"suspend": false, "parallelism": 3}}))]),
        plain("suspended-in-place", json!({}), HANG_ONCE).in_place().then([
            Ready(1),
            suspend(true),
            Condition("Suspended"),
            Seconds(2),
            suspend(false),
        ]),
        plain(
            "suspended-pods-that-end-well",
            json!({"completions": 2, "parallelism": 2}),
            &format!("test -e $NOTE.go && exit 0; {GRACEFUL}"),
        )
        .then([Ready(2), suspend(true), Condition("Suspended"), Seconds(4), Go, suspend(false)]),
        plain(
            "suspended-pods-that-end-badly",
            json!({"backoffLimit": 0, "podReplacementPolicy": "Failed"}),
            &format!("test -e $NOTE.go && exit 0; {UNWILLING}"),
        )
        .then([Ready(1), suspend(true), Condition("Suspended"), Seconds(4), Go, suspend(false)]),
        plain("suspended-twice", json!({}), &format!("test -e $NOTE.go && exit 0; {GRACEFUL}")).then([
            Ready(1),
            suspend(true),
            Condition("Suspended"),
            Seconds(3),
            suspend(false),
            Ready(1),
            suspend(true),
            Condition("Suspended"),
            Seconds(3),
            Go,
            suspend(false),
        ]),
        indexed(
            "suspended-with-a-failed-index",
            3,
            3,
            json!({"backoffLimitPerIndex": 0}),
            &format!("case {I} in 0) exit 0;; 1) exit 1;; *) {HANG_ONCE};; esac"),
        )
        .then([
            Succeeded(1),
            Failed(1),
            Ready(1),
            suspend(true),
            Condition("Suspended"),
            Seconds(3),
            suspend(false),
        ]),
        plain("deleted-while-suspended", json!({"suspend": true}), "true")
            .then([Condition("Suspended"), DeleteJob("Foreground")])
            .until(Until::Gone),
    ]
}

fn widths() -> Vec<Scenario> {
    vec![
        indexed("grows-while-suspended", 1, 1, json!({"suspend": true}), "true").then([
            Condition("Suspended"),
            widen(3),
            suspend(false),
        ]),
        indexed(
            "shrinks-away-a-failed-index",
            3,
            3,
            json!({"backoffLimitPerIndex": 0}),
            &format!("test {I} = 2 && exit 1; {GATE}"),
        )
        .then([Failed(1), widen(2), Seconds(3), Go]),
        indexed(
            "grows-beside-a-failed-index",
            2,
            2,
            json!({"backoffLimitPerIndex": 0}),
            &format!("test {I} = 0 && exit 1; {GATE}"),
        )
        .then([Failed(1), widen(3), Seconds(3), Go]),
        indexed("shrinks-while-an-index-waits", 3, 3, json!({}), &format!("test {I} = 2 && exit 1; {GATE}")).then([
            Failed(1),
            widen(2),
            Seconds(2),
            Go,
        ]),
        plain("scaled-up-in-back-off", json!({"completions": 2, "parallelism": 1, "backoffLimit": 4}), FAIL_ONCE)
            .then([Failed(1), scale(2)]),
        plain(
            "scaled-down-pods-that-end-well",
            json!({"completions": 2, "parallelism": 2}),
            &format!("test -e $NOTE.go && exit 0; {GRACEFUL}"),
        )
        .then([Ready(2), scale(1), Seconds(5), Go, DeletePod(None, None)]),
    ]
}

fn queues() -> Vec<Scenario> {
    vec![
        plain(
            "work-queue-ends-with-a-failure",
            json!({"parallelism": 2}),
            &format!("mkdir $NOTE && exit 0; {GATE}; exit 1"),
        )
        .then([Succeeded(1), Go]),
        plain(
            "work-queue-fails-after-a-success",
            json!({"parallelism": 2, "backoffLimit": 0}),
            &format!("mkdir $NOTE && exit 0; {GATE}; exit 1"),
        )
        .then([Succeeded(1), Go]),
        plain("work-queue-suspended-after-a-success", json!({"parallelism": 2}), "mkdir $NOTE && exit 0; sleep 120")
            .then([Succeeded(1), Ready(1), suspend(true)]),
        plain(
            "work-queue-scaled-up-after-a-success",
            json!({"parallelism": 2}),
            &format!("mkdir $NOTE && exit 0; {GATE}"),
        )
        .then([Succeeded(1), scale(4), Seconds(3), Go]),
    ]
}

fn pods() -> Vec<Scenario> {
    vec![
        indexed(
            "replaced-only-when-it-has-ended",
            2,
            2,
            json!({"podReplacementPolicy": "Failed"}),
            &format!("test -e $NOTE.go && exit 0; {UNWILLING}"),
        )
        .then([Ready(2), Go, DeletePod(Some(0), None), DeletePod(Some(1), None)]),
        plain(
            "replaced-at-once",
            json!({"podReplacementPolicy": "TerminatingOrFailed"}),
            &format!("test -e $NOTE.go && exit 0; {GRACEFUL}"),
        )
        .then([Ready(1), Go, DeletePod(None, None)]),
        plain("ended-well-when-deleted", json!({"podReplacementPolicy": "Failed"}), GRACEFUL)
            .then([Ready(1), DeletePod(None, None)]),
        plain(
            "two-pods-share-the-limit-in-place",
            json!({"backoffLimit": 2, "completions": 2, "parallelism": 2}),
            "sleep 1; exit 1",
        )
        .in_place(),
        plain("deleted-in-place", json!({"backoffLimit": 1}), HANG_ONCE)
            .in_place()
            .then([Ready(1), DeletePod(None, None)]),
        plain("time-to-live-set-later", json!({}), "true")
            .then([Condition("Complete"), Edit(json!({"spec": {"ttlSecondsAfterFinished": 1}}))])
            .until(Until::Gone),
        plain("long-time-to-live", json!({"ttlSecondsAfterFinished": 3600}), "true"),
        plain("deleted-with-failed-pods", json!({"backoffLimit": 4}), "exit 1")
            .then([Failed(1), DeleteJob("Background")])
            .until(Until::Gone),
        plain("deleted-when-done", json!({}), "true")
            .then([Condition("Complete"), DeleteJob("Foreground")])
            .until(Until::Gone),
        plain("orphaned-when-done", json!({}), "true")
            .then([Condition("Complete"), DeleteJob("Orphan")])
            .until(Until::Gone),
    ]
}

fn belongings() -> Vec<Scenario> {
    let stranger = json!({"metadata": {"labels": {"batch.kubernetes.io/controller-uid": null}}});
    let orphan = json!({"metadata": {"ownerReferences": null}});
    vec![
        plain("pod-no-longer-selected", json!({}), HANG_ONCE).then([Ready(1), EditPod(stranger.clone())]),
        indexed("pod-of-an-index-no-longer-selected", 2, 2, json!({}), HANG_ONCE_PER_INDEX).then([
            Ready(2),
            EditPod(stranger),
            Seconds(3),
            DeletePod(Some(1), None),
        ]),
        plain("pod-taken-in-again", json!({}), GATE).then([Ready(1), EditPod(orphan), Seconds(3), Go]),
    ]
}

fn sidecars() -> Vec<Scenario> {
    let beside = |policy: &str, sidecar: &str, init: &str, main: &str| {
        json!({
            "restartPolicy": policy, "terminationGracePeriodSeconds": 3,
            "initContainers": [
                {"name": "beside", "restartPolicy": "Always", "command": ["sh", "-c", sidecar]},
                {"name": "before", "command": ["sh", "-c", init]},
            ],
            "containers": [{"name": "main", "command": ["sh", "-c", main]}],
        })
    };
    let serve = "touch $NOTE; exec sleep 120";
    let wait = "until test -e $NOTE; do sleep 0.1; done";
    vec![
        plain("with-a-sidecar", json!({}), "").with_pod(beside("Never", serve, wait, "sleep 0.5")),
        plain("with-a-sidecar-and-a-failure", json!({"backoffLimit": 0}), "")
            .with_pod(beside("Never", serve, wait, "exit 1")),
        plain("with-a-sidecar-that-ends-badly", json!({}), "").with_pod(beside(
            "Never",
            "touch $NOTE; exit 1",
            wait,
            "sleep 2",
        )),
        plain("with-a-sidecar-and-a-bad-start", json!({"backoffLimit": 0}), "")
            .with_pod(beside("Never", serve, "exit 1", "true")),
        plain("with-a-sidecar-that-will-not-go", json!({}), "").with_pod(beside(
            "Never",
            "trap '' TERM; touch $NOTE; while true; do sleep 0.1; done",
            wait,
            "true",
        )),
        plain("with-a-sidecar-that-uses-up-the-limit", json!({"backoffLimit": 1}), "").with_pod(beside(
            "OnFailure",
            "touch $NOTE; sleep 1; exit 1",
            wait,
            "sleep 120",
        )),
    ]
}
