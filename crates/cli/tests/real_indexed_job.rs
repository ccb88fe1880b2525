//! A Job that really computes, on an embedded cluster, read back with real kubectl.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use support::{Background, fail, jobferry, kubectl, succeed};
use tempfile::TempDir;

/// The index whose work cannot succeed.
const FAILING: u32 = 13;

/// A fleet whose `worker-1` is used as the cluster that it is.
struct Fleet {
    directory: TempDir,
    kubeconfig: PathBuf,
    _up: Background,
}

impl Fleet {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let flag = directory.path().to_str().unwrap();
        let mut up = Background::start(jobferry(&["up", "--workers", "1", "--dir", flag]));
        up.until("ready");
        Self { kubeconfig: directory.path().join("kubeconfig"), directory, _up: up }
    }

    fn kubectl(&self, arguments: &[&str]) -> Command {
        let mut command = kubectl(&self.kubeconfig, &["--context", "worker-1"]);
        command.args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> String {
        succeed(self.kubectl(arguments))
    }

    fn create(&self, object: &Value) {
        let file = self.directory.path().join("object.json");
        std::fs::write(&file, object.to_string()).unwrap();
        self.run(&["create", "-f", file.to_str().unwrap()]);
    }

    /// The log of the pod of one index of a Job.
    fn log_of_index(&self, job: &str, index: u32) -> String {
        let selector = format!("job-name={job},batch.kubernetes.io/job-completion-index={index}");
        self.run(&["logs", "-l", &selector, "--tail=-1"])
    }
}

fn container(name: &str, script: &str) -> Value {
    json!({"name": name, "image": "none", "command": ["sh", "-c", script]})
}

fn pod(name: &str, restart_policy: &str, containers: &[Value]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"restartPolicy": restart_policy, "containers": containers},
    })
}

#[test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
fn an_indexed_job_of_twenty_sums_up_its_numbers_and_its_failing_index_is_named() {
    let fleet = Fleet::start();
    let sum = "sum=0; for n in $(seq $((JOB_COMPLETION_INDEX * 100))); do sum=$((sum + n)); done";
    let script = format!("{sum}; echo index $JOB_COMPLETION_INDEX sum $sum; test $JOB_COMPLETION_INDEX -ne {FAILING}");
    fleet.create(&json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sums"},
        "spec": {
            "completionMode": "Indexed", "completions": 20, "parallelism": 5, "backoffLimitPerIndex": 0,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container("main", &script)]}},
        },
    }));
    fleet.run(&["wait", "--for=condition=failed", "job/sums", "--timeout=120s"]);
    let field = |path: &str| fleet.run(&["get", "job", "sums", "-o", &format!("jsonpath={{{path}}}")]);
    assert_eq!(field(".status.completedIndexes"), "0-12,14-19");
    assert_eq!(field(".status.failedIndexes"), FAILING.to_string());
    assert_eq!((field(".status.succeeded"), field(".status.failed")), ("19".into(), "1".into()));
    assert_eq!(field(".status.conditions[?(@.type==\"Failed\")].reason"), "FailedIndexes");
    for index in 0..20 {
        let last = index * 100;
        let expected = format!("index {index} sum {}\n", last * (last + 1) / 2);
        assert_eq!(fleet.log_of_index("sums", index), expected);
    }
}

#[test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
fn kubectl_logs_follows_and_selects_by_lines_time_container_and_run() {
    let fleet = Fleet::start();
    let gate = fleet.directory.path().join("gate");
    let wait = format!("while ! test -e {}; do sleep 0.05; done", gate.display());
    let counting = format!("echo one; echo two >&2; {wait}; echo three");
    fleet.create(&pod("talker", "Never", &[container("main", &counting), container("other", "echo aside")]));
    fleet.run(&["wait", "--for=condition=PodReadyToStartContainers", "pod/talker", "--timeout=60s"]);

    let mut following = Background::start(fleet.kubectl(&["logs", "-f", "talker", "-c", "main"]));
    following.until("two");
    open(&gate);
    following.until("three");
    following.until_end();

    let logs = |flags: &[&str]| fleet.run(&[&["logs", "talker"], flags].concat());
    assert_eq!(logs(&["-c", "other"]), "aside\n");
    assert_eq!(logs(&["-c", "main", "--tail=1"]), "three\n");
    assert_eq!(logs(&["-c", "main", "--since=1h"]).lines().count(), 3);
    assert_eq!(logs(&["-c", "main", "--since-time=2100-01-01T00:00:00Z"]), "");
    let stamped = logs(&["-c", "main", "--tail=1", "--timestamps"]);
    let (time, text) = stamped.split_once(' ').unwrap();
    assert!(time.parse::<k8s_openapi::jiff::Timestamp>().is_ok() && text == "three\n", "{stamped}");
    let ambiguous = fail(fleet.kubectl(&["logs", "talker", "-c", "nobody"]));
    assert!(ambiguous.contains("nobody"), "{ambiguous}");

    let again = fleet.directory.path().join("again");
    let twice =
        format!("test -e {0} && {{ echo second; exec sleep 60; }}; touch {0}; echo first; exit 1", again.display());
    fleet.create(&pod("twice", "Always", &[container("main", &twice)]));
    fleet.run(&["wait", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/twice", "--timeout=60s"]);
    fleet.run(&["wait", "--for=condition=Ready", "pod/twice", "--timeout=60s"]);
    let mut current = Background::start(fleet.kubectl(&["logs", "-f", "twice"]));
    current.until("second");
    assert_eq!(fleet.run(&["logs", "twice", "--previous"]), "first\n");
}

fn open(gate: &Path) {
    std::fs::write(gate, "").unwrap();
}
