//! `jobferry logs -f` over a connection that breaks.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::fs;

use serde_json::{Value, json};
use support::{Background, jobferry, road::Road, succeed};

const LINES: usize = 40;

/// Counts slowly enough to be interrupted.
fn counting_job() -> Value {
    let script = format!("for i in $(seq {LINES}); do echo line $i; sleep 0.1; done");
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "counting"},
        "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "main", "image": "none", "command": ["sh", "-c", script]}]}}},
    })
}

#[test]
fn a_followed_log_loses_no_line_and_repeats_none_when_the_worker_is_cut_off_twice() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let mut up = Background::start(jobferry(&["up", "--workers", "1", "--dir", &path("fleet")]));
    up.until("ready");
    let kubeconfig = path("fleet/kubeconfig");

    // The manager directly, the worker by a road that can be cut.
    let mut detour: Value = serde_json::from_slice(&fs::read(&kubeconfig).unwrap()).unwrap();
    let server = &mut detour["clusters"][1]["cluster"]["server"];
    let road = Road::to(server.as_str().unwrap().trim_start_matches("https://").parse().unwrap());
    *server = format!("https://{}", road.address()).into();
    fs::write(path("detour"), detour.to_string()).unwrap();
    fs::write(path("job.json"), counting_job().to_string()).unwrap();

    succeed(jobferry(&["submit", "-f", &path("job.json"), "--kubeconfig", &kubeconfig]));
    let follow = ["logs", "-f", "counting", "--no-prefix", "--kubeconfig", &path("detour")];
    let mut following = Background::start(jobferry(&follow));
    let mut seen = following.through("line 10");
    road.cut();
    seen.extend(following.through("line 20"));
    road.cut();
    seen.extend(following.rest().lines().map(str::to_owned));
    let expected: Vec<String> = (1..=LINES).map(|number| format!("line {number}")).collect();
    assert_eq!(seen, expected);
    succeed(jobferry(&["down", "--dir", &path("fleet")]));
}
