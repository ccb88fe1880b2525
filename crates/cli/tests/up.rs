//! `jobferry up`, `status` and `down`, by the real binary.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::fs;

use support::{Background, eventually, fail, jobferry, succeed};

#[test]
fn a_fleet_is_held_by_one_process_says_how_it_is_and_survives_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("fleet");
    let dir = directory.to_str().unwrap();
    let start = |arguments: &[&str]| {
        let mut up = Background::start(jobferry(&[&["up", "--dir", dir], arguments].concat()));
        let line = up.until("ready");
        (up, line)
    };

    assert!(succeed(jobferry(&["down", "--dir", dir])).contains("not running"));
    let (mut up, line) = start(&["--workers", "1"]);
    assert_eq!(line, "ready: a manager and 1 worker; Ctrl-C stops them");
    let error = fail(jobferry(&["up", "--dir", dir]));
    assert!(error.contains("is in use by process") && error.contains("jobferry down"), "{error}");
    let status = succeed(jobferry(&["status", "--dir", dir]));
    assert!(status.starts_with("running as process") && status.contains("worker-1"), "{status}");
    let kubeconfig = fs::read(directory.join("kubeconfig")).unwrap();
    assert_eq!(succeed(jobferry(&["down", "--dir", dir])), "stopped\n");
    up.until_end();
    let output = jobferry(&["status", "--dir", dir]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "not running\n");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("start it with `jobferry up --dir {dir}`\n"));

    // Again, and one more: the same clusters at the same addresses.
    let (_up, line) = start(&["--workers", "2"]);
    assert!(line.contains("2 workers"), "{line}");
    let again = fs::read_to_string(directory.join("kubeconfig")).unwrap();
    let server = |text: &str| text.lines().find(|line| line.contains("\"server\"")).unwrap().to_owned();
    assert_eq!(server(&again), server(std::str::from_utf8(&kubeconfig).unwrap()));
    succeed(jobferry(&["down", "--dir", dir]));
    let error = fail(jobferry(&["up", "--dir", dir, "--workers", "1"]));
    assert!(error.contains("has a worker worker-2"), "{error}");
}

#[test]
fn a_fleet_file_gives_workers_names_and_labels_and_an_ephemeral_fleet_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("fleet.yaml");
    fs::write(&file, "workers: [{name: eu-1, labels: {region: eu}}]").unwrap();
    let mut up = Background::start(jobferry(&["up", "--ephemeral", "--config", file.to_str().unwrap()]));
    let export = up.until("export KUBECONFIG=");
    let kubeconfig = export.trim_start_matches("export KUBECONFIG=").to_owned();
    up.until("ready");
    let workers = succeed(jobferry(&["worker", "describe", "eu-1", "--kubeconfig", &kubeconfig]));
    assert!(workers.contains("region=eu"), "{workers}");

    fs::write(&file, "workers: [{name: eu-1, label: {region: eu}}]").unwrap();
    let error = fail(jobferry(&["up", "--ephemeral", "--config", file.to_str().unwrap()]));
    assert!(error.contains("fleet.yaml") && error.contains("label"), "{error}");
}

#[test]
fn a_label_that_is_taken_out_of_the_fleet_file_leaves_the_worker() {
    let home = tempfile::tempdir().unwrap();
    let (dir, file) = (home.path().join("fleet"), home.path().join("fleet.yaml"));
    let (dir, kubeconfig) = (dir.to_str().unwrap(), dir.join("kubeconfig"));
    let up = |workers: &str| {
        fs::write(&file, workers).unwrap();
        let mut up = Background::start(jobferry(&["up", "--dir", dir, "--config", file.to_str().unwrap()]));
        up.until("ready");
        let described = jobferry(&["worker", "describe", "eu-1", "--kubeconfig", kubeconfig.to_str().unwrap()]);
        let described = succeed(described);
        succeed(jobferry(&["down", "--dir", dir]));
        described.lines().find(|line| line.starts_with("Labels:")).unwrap().to_owned()
    };
    let before = up("workers: [{name: eu-1, labels: {region: eu, gpu: a100}}]");
    assert!(before.ends_with("gpu=a100,region=eu"), "{before}");
    let after = up("workers: [{name: eu-1, labels: {region: eu}}]");
    assert!(after.ends_with(" region=eu"), "{after}");
}

/// The Job's own process says when it is asked to end, and has ended before the fleet has.
#[test]
fn ctrl_c_stops_jobs_and_clusters_in_order_and_the_fleet_goes_on_later() {
    let home = tempfile::tempdir().unwrap();
    let (dir, witness) = (home.path().join("fleet"), home.path().join("witness"));
    let dir = dir.to_str().unwrap();
    let script = format!(
        "trap 'echo asked >> {0}; exit 0' TERM; echo begun >> {0}; while :; do sleep 0.1; done",
        witness.display()
    );
    let manifest = home.path().join("job.yaml");
    let job = serde_json::json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "long"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "main", "image": "none", "command": ["sh", "-c", script]}]}}},
    });
    fs::write(&manifest, job.to_string()).unwrap();

    let mut up = Background::start(jobferry(&["up", "--workers", "1", "--dir", dir]));
    up.until("ready");
    let kubeconfig = format!("{dir}/kubeconfig");
    succeed(jobferry(&["submit", "-f", manifest.to_str().unwrap(), "--kubeconfig", &kubeconfig]));
    let witnessed = || fs::read_to_string(&witness).unwrap_or_default();
    eventually("a process that runs", || witnessed() == "begun\n");
    up.interrupt();
    assert_eq!(up.rest(), "", "it ends by itself, with exit code 0");
    assert_eq!(witnessed(), "begun\nasked\n", "and not before the process was asked to end");
    fail(jobferry(&["status", "--dir", dir]));

    let mut up = Background::start(jobferry(&["up", "--dir", dir]));
    up.until("ready");
    let jobs = succeed(jobferry(&["get", "long", "-o", "name", "--kubeconfig", &kubeconfig]));
    assert_eq!(jobs, "job/long\n");
    up.interrupt();
    up.until_end();
}
