//! `jobferry up`, `status` and `down`, by the real binary.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::fs;

use support::{Background, fail, jobferry, succeed};

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
    assert!(String::from_utf8(output.stdout).unwrap().contains("not running"));

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
