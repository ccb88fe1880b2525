//! The scenarios. Scripts use `$NOTE`, a path of their Job's own, to remember earlier runs.

use serde_json::{Value, json};

use super::{
    Scenario, Step,
    Step::{Condition, DeleteJob, DeletePod, Edit, Failed, Go, MarkPod, Ready, Seconds, Succeeded},
    Until,
};

/// Ends badly the first time, well the second.
pub(super) const FAIL_ONCE: &str = "test -e $NOTE && exit 0; touch $NOTE; exit 1";
/// Runs long the first time, ends well the second.
pub(super) const HANG_ONCE: &str = "test -e $NOTE && exit 0; touch $NOTE; sleep 120";
/// The same, each index on its own.
pub(super) const HANG_ONCE_PER_INDEX: &str = "f=$NOTE.$JOB_COMPLETION_INDEX; test -e $f && exit 0; touch $f; sleep 120";
/// Waits for the gate to open.
pub(super) const GATE: &str = "until test -e $NOTE.go; do sleep 0.1; done";
pub(super) const I: &str = "$JOB_COMPLETION_INDEX";

fn pod(policy: &str, script: &str) -> Value {
    json!({
        "restartPolicy": policy, "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "main", "command": ["sh", "-c", script]}],
    })
}

pub(super) fn plain(name: &'static str, spec: Value, script: &str) -> Scenario {
    Scenario { name, spec, pod: pod("Never", script), steps: vec![], until: Until::Finished }
}

pub(super) fn indexed(
    name: &'static str,
    completions: u32,
    parallelism: u32,
    mut spec: Value,
    script: &str,
) -> Scenario {
    spec["completionMode"] = json!("Indexed");
    spec["completions"] = json!(completions);
    spec["parallelism"] = json!(parallelism);
    plain(name, spec, script)
}

impl Scenario {
    pub(super) fn then(mut self, steps: impl Into<Vec<Step>>) -> Self {
        self.steps = steps.into();
        self
    }

    pub(super) fn until(mut self, until: Until) -> Self {
        self.until = until;
        self
    }

    pub(super) fn in_place(mut self) -> Self {
        self.pod["restartPolicy"] = json!("OnFailure");
        self
    }

    pub(super) fn with_pod(mut self, pod: Value) -> Self {
        self.pod = pod;
        self
    }
}

pub(super) fn suspend(on: bool) -> Step {
    Edit(json!({"spec": {"suspend": on}}))
}

pub(super) fn scale(parallelism: u32) -> Step {
    Edit(json!({"spec": {"parallelism": parallelism}}))
}

pub(super) fn widen(width: u32) -> Step {
    Edit(json!({"spec": {"parallelism": width, "completions": width}}))
}

pub(super) fn on_exit(action: &str, operator: &str, codes: &[i32]) -> Value {
    json!({"action": action, "onExitCodes": {"operator": operator, "values": codes}})
}

pub(super) fn policy(rules: &[Value]) -> Value {
    json!({"rules": rules})
}

/// One feature at a time.
pub(super) fn all() -> Vec<Scenario> {
    [
        counting(),
        failing(),
        suspending(),
        scaling(),
        deleting(),
        in_place(),
        failure_policies(),
        by_index(),
        containers(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn counting() -> Vec<Scenario> {
    vec![
        plain("one", json!({}), "true"),
        plain("three-at-once", json!({"completions": 3, "parallelism": 3}), "sleep 0.2"),
        plain("five-by-two", json!({"completions": 5, "parallelism": 2}), "sleep 0.2"),
        plain("more-workers-than-work", json!({"completions": 2, "parallelism": 5}), "sleep 0.2"),
        plain("thirty-by-ten", json!({"completions": 30, "parallelism": 10}), "true"),
        plain("nothing-to-do", json!({"completions": 0, "parallelism": 1}), "true"),
        plain("work-queue", json!({"parallelism": 3}), "sleep 1"),
        plain("work-queue-of-one", json!({"parallelism": 1}), "true"),
        plain("work-queue-fails", json!({"parallelism": 2, "backoffLimit": 0}), &format!("{GATE}; exit 1"))
            .then([Ready(2), Go]),
        indexed("indexes", 3, 3, json!({}), "true"),
        indexed("indexes-by-two", 5, 2, json!({}), "sleep 0.2"),
        indexed("indexes-of-nothing", 0, 1, json!({}), "true"),
        indexed("twenty-indexes", 20, 20, json!({}), "true"),
    ]
}

fn failing() -> Vec<Scenario> {
    vec![
        plain("fails-at-once", json!({"backoffLimit": 0}), "exit 1"),
        plain("fails-twice", json!({"backoffLimit": 1}), "exit 3"),
        plain("succeeds-the-second-time", json!({"backoffLimit": 2}), FAIL_ONCE),
        plain(
            "succeeds-the-third-time",
            json!({"backoffLimit": 3}),
            "n=$(cat $NOTE 2>/dev/null || echo 0); echo $((n+1)) > $NOTE; test $n -ge 2",
        ),
        plain(
            "one-failure-stops-all",
            json!({"backoffLimit": 0, "completions": 3, "parallelism": 3}),
            &format!("{GATE}; mkdir $NOTE && exit 1; sleep 120"),
        )
        .then([Ready(3), Go]),
        plain("killed-by-a-signal", json!({"backoffLimit": 0}), "kill -9 $$$$"),
        plain("too-long", json!({"activeDeadlineSeconds": 20}), "sleep 120"),
        plain(
            "too-long-for-two",
            json!({"activeDeadlineSeconds": 20, "completions": 2, "parallelism": 2}),
            "sleep 120",
        ),
        plain("in-time", json!({"activeDeadlineSeconds": 60}), "true"),
        plain("deadline-set-later", json!({}), "sleep 120")
            .then([Ready(1), Edit(json!({"spec": {"activeDeadlineSeconds": 2}}))]),
        plain("limit-lowered-while-waiting", json!({"backoffLimit": 5}), "exit 1")
            .then([Failed(1), Edit(json!({"spec": {"backoffLimit": 0}}))]),
        indexed(
            "one-index-fails-the-job",
            3,
            3,
            json!({"backoffLimit": 0}),
            &format!("test {I} != 1 && exit 0; {GATE}; exit 1"),
        )
        .then([Succeeded(2), Go]),
        indexed(
            "one-index-needs-two-runs",
            3,
            3,
            json!({"backoffLimit": 2}),
            &format!("test {I} != 1 && exit 0; {FAIL_ONCE}"),
        ),
    ]
}

fn suspending() -> Vec<Scenario> {
    vec![
        plain("suspended-from-the-start", json!({"suspend": true}), "true").until(Until::Rest(12)),
        plain("resumed", json!({"suspend": true}), "true").then([Condition("Suspended"), suspend(false)]),
        plain("suspended-while-running", json!({}), HANG_ONCE).then([
            Ready(1),
            suspend(true),
            Condition("Suspended"),
            Seconds(3),
            suspend(false),
        ]),
        plain("suspended-and-left", json!({"completions": 2, "parallelism": 2}), "sleep 120")
            .then([Ready(2), suspend(true), Condition("Suspended")])
            .until(Until::Rest(12)),
        plain("suspended-with-nothing-to-do", json!({"completions": 0, "suspend": true, "parallelism": 1}), "true"),
        plain("suspended-after-a-failure", json!({"backoffLimit": 4}), "exit 1")
            .then([Failed(1), suspend(true), Condition("Suspended")])
            .until(Until::Rest(12)),
        plain(
            "suspended-half-way",
            json!({"completions": 4, "parallelism": 2}),
            &format!("mkdir $NOTE.1 || mkdir $NOTE.2 || {{ {GATE}; }}"),
        )
        .then([Succeeded(2), suspend(true), Condition("Suspended"), Seconds(3), Go, suspend(false)]),
        plain("suspension-outlasts-the-deadline", json!({"activeDeadlineSeconds": 25}), HANG_ONCE).then([
            Ready(1),
            suspend(true),
            Condition("Suspended"),
            Seconds(27),
            suspend(false),
        ]),
        plain("never-resumed-with-deadline", json!({"activeDeadlineSeconds": 2, "suspend": true}), "true")
            .until(Until::Rest(12)),
        plain("suspended-and-resumed-at-once", json!({}), HANG_ONCE).then([
            Ready(1),
            suspend(true),
            Seconds(3),
            suspend(false),
            Seconds(1),
        ]),
        indexed("indexes-suspended", 3, 3, json!({}), HANG_ONCE_PER_INDEX).then([
            Ready(3),
            suspend(true),
            Condition("Suspended"),
            Seconds(3),
            suspend(false),
        ]),
    ]
}

fn scaling() -> Vec<Scenario> {
    vec![
        plain("scaled-up", json!({"completions": 3, "parallelism": 1}), GATE).then([Ready(1), scale(3), Ready(3), Go]),
        plain("scaled-down", json!({"completions": 3, "parallelism": 3}), GATE).then([
            Ready(3),
            scale(1),
            Seconds(6),
            Go,
        ]),
        plain("no-workers", json!({"completions": 1, "parallelism": 0}), "true").until(Until::Rest(12)),
        plain("no-workers-at-first", json!({"completions": 1, "parallelism": 0}), "true").then([Seconds(2), scale(1)]),
        plain("scaled-to-none-and-back", json!({"completions": 1}), HANG_ONCE).then([
            Ready(1),
            scale(0),
            Seconds(4),
            scale(1),
        ]),
        plain("work-queue-scaled-down", json!({"parallelism": 3}), GATE).then([Ready(3), scale(1), Seconds(6), Go]),
        indexed("indexes-scaled-down", 3, 3, json!({}), HANG_ONCE_PER_INDEX).then([
            Ready(3),
            scale(1),
            Seconds(4),
            scale(3),
            DeletePod(None, None),
        ]),
        indexed("grows", 2, 2, json!({}), GATE).then([Ready(2), widen(4), Ready(4), Go]),
        indexed("shrinks", 4, 4, json!({}), &format!("test {I} -ge 2 && exec sleep 120; {GATE}")).then([
            Ready(4),
            widen(2),
            Seconds(4),
            Go,
        ]),
        indexed("shrinks-below-what-is-done", 3, 3, json!({}), &format!("test {I} = 0 && exec sleep 120; exit 0"))
            .then([Succeeded(2), widen(0)]),
        indexed("shrinks-to-what-is-done", 3, 3, json!({}), &format!("test {I} = 2 && exec sleep 120; exit 0"))
            .then([Succeeded(2), widen(2)]),
    ]
}

fn deleting() -> Vec<Scenario> {
    let slowly = "trap 'sleep 2; exit 1' TERM; test -e $NOTE && exit 0; touch $NOTE; while true; do sleep 0.1; done";
    vec![
        plain("pod-deleted", json!({}), HANG_ONCE).then([Ready(1), DeletePod(None, None)]),
        plain("pod-deleted-by-force", json!({}), HANG_ONCE).then([Ready(1), DeletePod(None, Some(0))]),
        plain("pod-deleted-over-the-limit", json!({"backoffLimit": 0}), "sleep 120")
            .then([Ready(1), DeletePod(None, None)]),
        plain("pod-ends-slowly", json!({}), slowly).then([Ready(1), DeletePod(None, None)]),
        plain("pod-ends-slowly-before-it-is-replaced", json!({"podReplacementPolicy": "Failed"}), slowly)
            .then([Ready(1), DeletePod(None, None)]),
        plain(
            "one-done-before-the-other",
            json!({"completions": 2, "parallelism": 2}),
            &format!("mkdir $NOTE && exit 0; {GATE}"),
        )
        .then([Succeeded(1), Go]),
        indexed(
            "pod-of-an-index-deleted",
            2,
            2,
            json!({}),
            &format!("test {I} = 0 && {{ {GATE}; exit 0; }}; {HANG_ONCE}"),
        )
        .then([Ready(2), DeletePod(Some(1), None), Go]),
        plain("job-deleted", json!({"completions": 2, "parallelism": 2}), "sleep 120")
            .then([Ready(2), DeleteJob("Background")])
            .until(Until::Gone),
        plain("job-deleted-with-its-pods", json!({"completions": 2, "parallelism": 2}), "sleep 120")
            .then([Ready(2), DeleteJob("Foreground")])
            .until(Until::Gone),
        plain("job-deleted-without-its-pods", json!({}), "sleep 30")
            .then([Ready(1), DeleteJob("Orphan")])
            .until(Until::Gone),
        plain("done-and-deleted-in-time", json!({"ttlSecondsAfterFinished": 1}), "true").until(Until::Gone),
        plain("failed-and-deleted-in-time", json!({"ttlSecondsAfterFinished": 0, "backoffLimit": 0}), "exit 1")
            .until(Until::Gone),
    ]
}

fn in_place() -> Vec<Scenario> {
    vec![
        plain("in-place", json!({}), "true").in_place(),
        plain("in-place-the-second-time", json!({"backoffLimit": 4}), FAIL_ONCE).in_place(),
        plain("in-place-at-the-limit", json!({"backoffLimit": 1}), "sleep 1; exit 1").in_place(),
        plain("in-place-without-a-second-chance", json!({"backoffLimit": 0}), "sleep 1; exit 1").in_place(),
        indexed("indexes-in-place", 2, 2, json!({"backoffLimit": 4}), &format!("test {I} = 0 && exit 0; {FAIL_ONCE}"))
            .in_place(),
    ]
}

fn failure_policies() -> Vec<Scenario> {
    let disrupted = |action: &str| json!({"action": action, "onPodConditions": [{"type": "DisruptionTarget"}]});
    vec![
        plain(
            "exit-code-fails-the-job",
            json!({"podFailurePolicy": policy(&[on_exit("FailJob", "In", &[42])])}),
            "exit 42",
        ),
        plain(
            "exit-code-is-ignored",
            json!({"backoffLimit": 0, "podFailurePolicy": policy(&[on_exit("Ignore", "In", &[7])])}),
            "test -e $NOTE && exit 0; touch $NOTE; exit 7",
        ),
        plain(
            "exit-code-counts",
            json!({"backoffLimit": 0, "podFailurePolicy": policy(&[on_exit("Count", "In", &[1])])}),
            "exit 1",
        ),
        plain(
            "other-exit-codes-fail-the-job",
            json!({"podFailurePolicy": policy(&[on_exit("FailJob", "NotIn", &[1, 2])])}),
            "exit 3",
        ),
        plain(
            "second-rule-of-the-container",
            json!({"podFailurePolicy": policy(&[
                on_exit("Ignore", "In", &[9]),
                json!({"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [5, 42]}}),
            ])}),
            "exit 42",
        ),
        plain(
            "no-rule-matches",
            json!({"backoffLimit": 0, "podFailurePolicy": policy(&[on_exit("Ignore", "In", &[7])])}),
            "exit 1",
        ),
        plain(
            "disruption-is-ignored",
            json!({"backoffLimit": 0, "podFailurePolicy": policy(&[disrupted("Ignore")])}),
            HANG_ONCE,
        )
        .then([Ready(1), MarkPod("DisruptionTarget", "True"), DeletePod(None, None)]),
        plain("disruption-fails-the-job", json!({"podFailurePolicy": policy(&[disrupted("FailJob")])}), "sleep 120")
            .then([Ready(1), MarkPod("DisruptionTarget", "True"), DeletePod(None, None)]),
        plain(
            "failing-the-job-stops-the-others",
            json!({"completions": 2, "parallelism": 2, "podFailurePolicy": policy(&[on_exit("FailJob", "In", &[42])])}),
            &format!("{GATE}; mkdir $NOTE && exit 42; sleep 120"),
        )
        .then([Ready(2), Go]),
    ]
}

fn by_index() -> Vec<Scenario> {
    let limit = |limit: u32| json!({"backoffLimitPerIndex": limit});
    let fail_1 = format!("test {I} != 1");
    vec![
        indexed("an-index-fails", 3, 3, limit(0), &fail_1),
        indexed("an-index-fails-twice", 2, 2, limit(1), &fail_1),
        indexed("an-index-succeeds-the-second-time", 2, 2, limit(1), &format!("test {I} = 0 && exit 0; {FAIL_ONCE}")),
        indexed("all-indexes-fail", 3, 3, limit(0), "exit 1"),
        indexed("an-index-fails-and-the-rest-follows", 4, 1, limit(0), &fail_1),
        indexed(
            "one-failed-index-is-too-many",
            3,
            3,
            json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 0}),
            &format!("test {I} = 1 || exec sleep 120; {GATE}; exit 1"),
        )
        .then([Ready(3), Go]),
        indexed(
            "two-failed-indexes-are-too-many",
            4,
            4,
            json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 1}),
            &format!("test {I} -lt 2 || exec sleep 120; {GATE}; exit 1"),
        )
        .then([Ready(4), Go]),
        indexed(
            "an-exit-code-fails-the-index",
            2,
            2,
            json!({"backoffLimitPerIndex": 3, "podFailurePolicy": policy(&[on_exit("FailIndex", "In", &[42])])}),
            &format!("test {I} = 0 || exit 42"),
        ),
        indexed(
            "an-ignored-failure-of-an-index",
            2,
            2,
            json!({"backoffLimitPerIndex": 0, "podFailurePolicy": policy(&[on_exit("Ignore", "In", &[7])])}),
            &format!("test {I} = 0 && exit 0; test -e $NOTE && exit 0; touch $NOTE; exit 7"),
        ),
        indexed(
            "one-index-suffices",
            3,
            3,
            json!({"successPolicy": {"rules": [{"succeededIndexes": "0"}]}}),
            &format!("test {I} = 0 || exec sleep 120; {GATE}"),
        )
        .then([Ready(3), Go]),
        indexed(
            "two-indexes-suffice",
            4,
            4,
            json!({"successPolicy": {"rules": [{"succeededCount": 2}]}}),
            &format!("test {I} -lt 2 || exec sleep 120; {GATE}"),
        )
        .then([Ready(4), Go]),
        indexed(
            "one-of-two-leaders-suffices",
            3,
            3,
            json!({"successPolicy": {"rules": [{"succeededIndexes": "2"}, {"succeededIndexes": "0,1", "succeededCount": 1}]}}),
            &format!("test {I} = 1 || exec sleep 120; {GATE}"),
        )
        .then([Ready(3), Go]),
        indexed(
            "the-leader-succeeds-after-another-failed",
            2,
            2,
            json!({"backoffLimitPerIndex": 0, "successPolicy": {"rules": [{"succeededIndexes": "0"}]}}),
            &format!("test {I} = 1 && exit 1; {GATE}"),
        )
        .then([Failed(1), Go]),
        indexed("an-index-in-time", 2, 2, json!({}), &format!("test {I} = 0 && exit 0; sleep 120"))
            .then([Succeeded(1), Ready(1), Edit(json!({"spec": {"activeDeadlineSeconds": 1}}))]),
    ]
}

fn containers() -> Vec<Scenario> {
    let container = |name: &str, script: &str| json!({"name": name, "command": ["sh", "-c", script]});
    let two = |one: &str, other: &str| json!({"restartPolicy": "Never", "containers": [container("a", one), container("b", other)]});
    let after = |init: &str, main: &str| json!({"restartPolicy": "Never", "initContainers": [container("first", init)], "containers": [container("main", main)]});
    vec![
        plain("two-containers", json!({}), "").with_pod(two("true", "sleep 0.5")),
        plain("one-of-two-containers-fails", json!({"backoffLimit": 0}), "").with_pod(two("true", "exit 1")),
        plain("prepared", json!({}), "").with_pod(after("touch $NOTE", "test -e $NOTE")),
        plain("badly-prepared", json!({"backoffLimit": 0}), "").with_pod(after("exit 1", "true")),
        plain("nothing-to-run", json!({"backoffLimit": 0}), "")
            .with_pod(json!({"restartPolicy": "Never", "containers": [{"name": "main"}]})),
    ]
}
