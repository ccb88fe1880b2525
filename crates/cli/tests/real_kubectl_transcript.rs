//! A working day with real kubectl at a cluster of `jobferry up`: every command that people use on Jobs, typed once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::path::PathBuf;
use std::process::Command;

use support::{Background, fail, jobferry, kubectl, succeed};
use tempfile::TempDir;

const JOB: &str = r"
apiVersion: batch/v1
kind: Job
metadata: {name: hello, labels: {app: demo}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox, command: [sh, -c, echo hi]}]
";

/// A terminal in a directory with manifests.
struct Terminal {
    _up: Background,
    directory: TempDir,
}

impl Terminal {
    fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let up = jobferry(&["up", "--workers", "1", "--dir", directory.path().to_str().unwrap()]);
        let mut up = Background::start(up);
        up.until("ready");
        let terminal = Self { _up: up, directory };
        let sleeping = JOB.replace("echo hi", "sleep 600");
        terminal.write("job.yaml", JOB);
        terminal.write("suspended.yaml", &JOB.replace("spec:\n  template", "spec:\n  suspend: true\n  template"));
        terminal.write("orphaning.yaml", &sleeping.replace("hello", "orphaning"));
        terminal.write("vanishing.yaml", &sleeping.replace("hello", "vanishing"));
        terminal
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let words: Vec<String> = line.split_whitespace().map(|word| word.replace('~', " ")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = kubectl(&self.path("kubeconfig"), &words);
        command.current_dir(self.directory.path()).env("HOME", self.directory.path());
        command
    }

    /// Types a line (`~` is a space inside of a word) and expects an answer that holds this text.
    fn types(&self, line: &str, expected: &str) -> String {
        let answer = succeed(self.command(line));
        assert!(answer.contains(expected), "kubectl {line}\nshould have said {expected:?}, but said\n{answer}");
        answer
    }
}

#[test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
fn a_working_day_with_kubectl() {
    let terminal = Terminal::open();
    look_around(&terminal);
    run_a_job(&terminal);
    change_it(&terminal);
    delete_jobs(&terminal);
    break_a_rule(&terminal);
}

fn look_around(terminal: &Terminal) {
    terminal.types("api-resources", "jobs");
    terminal.types("explain job.spec", "managedBy");
    terminal.types("auth can-i create jobs", "yes");
    terminal.types("create ns team", "namespace/team created");
    terminal.types("create secret generic token --from-literal=t=abc", "secret/token created");
    terminal.types("create configmap settings --from-literal=a=b", "configmap/settings created");
}

fn run_a_job(terminal: &Terminal) {
    let mut watch = Background::start(terminal.command("get jobs -w"));
    terminal.types("create -f job.yaml", "job.batch/hello created");
    terminal.types("wait --for=condition=complete job/hello --timeout=60s", "condition met");
    watch.until("Complete");
    terminal.types("get jobs -l app=demo -L app --sort-by=.metadata.name", "demo");
    terminal.types("get jobs -o wide", "busybox");
    terminal.types("get job hello -o yaml", "completionTime");
    terminal.types("get job hello -o json", "\"succeeded\": 1");
    terminal.types("get job hello -o jsonpath={.status.succeeded}", "1");
    terminal.types("get job hello -o name", "job.batch/hello");
    terminal.types("describe job hello", "1 Succeeded");
    terminal.types("logs job/hello", "hi\n");
    terminal.types("events --for job/hello", "SuccessfulCreate");
    terminal.types("create job once --image=busybox -- sh -c echo~twice", "job.batch/once created");
    terminal.types("wait --for=condition=complete job/once --timeout=60s", "condition met");
    terminal.types("logs job/once", "twice\n");
}

fn change_it(terminal: &Terminal) {
    terminal.types("apply -f job.yaml", "job.batch/hello configured");
    let difference = fail_with_output(terminal, "diff -f suspended.yaml");
    assert!(difference.contains("+  suspend: true"), "{difference}");
    terminal.types("apply --server-side --force-conflicts -f suspended.yaml", "serverside-applied");
    terminal.types("get job hello -o jsonpath={.spec.suspend}", "true");
    terminal.types(r#"patch job hello -p {"spec":{"suspend":false}}"#, "patched");
    terminal.types(r#"patch job hello --type=merge -p {"spec":{"suspend":true}}"#, "patched");
    let json = r#"[{"op":"replace","path":"/spec/suspend","value":false}]"#;
    terminal.types(&format!("patch job hello --type=json -p {json}"), "patched");
    terminal.types("label job hello colour=red", "labeled");
    terminal.types("annotate job hello note=it~works", "annotated");
}

fn delete_jobs(terminal: &Terminal) {
    terminal.types("delete job hello once", "deleted");
    for name in ["orphaning", "vanishing"] {
        terminal.types(&format!("create -f {name}.yaml"), "created");
        let running = "--for=jsonpath={.status.active}=1 --timeout=60s";
        terminal.types(&format!("wait job/{name} {running}"), "condition met");
    }
    let pods = |name: &str| terminal.types(&format!("get pods -l job-name={name} -o name"), "");
    terminal.types("delete job orphaning --cascade=orphan", "deleted");
    let orphan = pods("orphaning");
    assert!(orphan.starts_with("pod/orphaning-"), "the pod outlives its Job: {orphan:?}");
    let owners = terminal.types("get pods -l job-name=orphaning -o jsonpath={.items[*].metadata.ownerReferences}", "");
    assert_eq!(owners, "", "and belongs to nobody");
    terminal.types("delete job vanishing --cascade=foreground --timeout=60s", "deleted");
    assert_eq!(pods("vanishing"), "", "the Job waited for its pods");
    terminal.types("delete pods -l job-name=orphaning --now", "deleted");
    assert!(fail(terminal.command("get job vanishing")).contains("not found"));
}

/// The name of a Worker becomes a label value: a CEL rule of its definition says so.
fn break_a_rule(terminal: &Terminal) {
    let name = "w".repeat(64);
    let worker = format!(
        "apiVersion: jobferry.dev/v1alpha1\nkind: Worker\nmetadata: {{name: {name}}}\nspec: {{kubeconfigSecret: x}}\n"
    );
    terminal.write("worker.yaml", &worker);
    assert!(fail(terminal.command("create -f worker.yaml")).contains("at most 63 characters"));
}

/// `diff` ends with 1 when there is a difference.
fn fail_with_output(terminal: &Terminal, line: &str) -> String {
    let output = terminal.command(line).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
