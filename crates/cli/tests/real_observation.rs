//! What people and machines see of a dispatcher on real clusters: Events, metrics, health, and the canary.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
};

use jobferry_testkit::{RealFleet, User};
use support::{Background, eventually, jobferry, kubectl, succeed};

const JOBS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/observation.yaml");

/// An address that is free now.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// The answer to one GET, head and body; empty while nobody listens.
fn get(address: &str, path: &str) -> String {
    let mut answer = String::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        stream.read_to_string(&mut answer).unwrap();
    }
    answer
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn a_dispatcher_tells_how_it_is_and_stops_placing_when_delegation_is_broken() {
    let fleet = RealFleet::start(&["manager", "eu-1"]).await.unwrap();
    let admin = fleet.manager().kubeconfig_path(User::Admin);
    let run = |arguments: &[&str]| succeed(kubectl(&admin, arguments));
    let flag = admin.to_str().unwrap();
    let address = free_address();
    let start = ["dispatcher", "--install", "--metrics-address", &address, "--kubeconfig", flag];
    let _dispatcher = Background::start(jobferry(&start));
    let worker = fleet.workers()[0].kubeconfig_path(User::Dispatcher);
    let worker = worker.to_str().unwrap();
    succeed(jobferry(&["worker", "join", "eu-1", "--kubeconfig", flag, "--worker-kubeconfig", worker]));

    run(&["apply", "-f", JOBS]);
    run(&["wait", "--for=condition=complete", "job/plain", "--timeout=60s"]);
    eventually("the Events", || {
        let described = run(&["describe", "job/plain"]);
        ["Placed", "on worker eu-1", "Finished", "Complete on worker eu-1"].iter().all(|word| described.contains(word))
    });
    assert!(get(&address, "/livez").starts_with("HTTP/1.1 200"));
    assert!(get(&address, "/readyz").ends_with("ok: leading\n"));
    let metric = |line: &str| get(&address, "/metrics").lines().any(|found| found == line);
    for line in [
        "jobferry_leader 1",
        "jobferry_halted 0",
        r#"jobferry_worker_up{worker="eu-1"} 1"#,
        r#"jobferry_worker_unfinished{worker="eu-1"} 1"#,
        r#"jobferry_placements_total{worker="eu-1"} 2"#,
        r#"jobferry_stage_duration_seconds_count{stage="placed"} 2"#,
        r#"jobferry_stage_duration_seconds_count{stage="mirrored"} 2"#,
    ] {
        assert!(metric(line), "{line} is missing in\n{}", get(&address, "/metrics"));
    }

    // Somebody acts on the canary, as an old Job controller would.
    let write_status = |job: &str, namespace: &str, manager: &str, status: &str| {
        let flags = ["--subresource=status", "--field-manager", manager, "-p", status];
        run(&[&["patch", "job", job, "-n", namespace], flags.as_slice()].concat());
    };
    let suspended = r#"{"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}"#;
    write_status("jobferry-canary", "jobferry-system", "old-controller", suspended);
    eventually("the halt", || metric("jobferry_halted 1"));
    run(&["create", "-f", concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hello.yaml")]);
    eventually("the reason", || run(&["get", "job/hello", "-o", "json"]).contains("\"Halted\""));
    run(&["delete", "job", "jobferry-canary", "-n", "jobferry-system"]);
    run(&["wait", "--for=condition=complete", "job/hello", "--timeout=60s"]);
    assert!(metric("jobferry_halted 0"));

    // The built-in controller acts on a delegated Job.
    write_status("long", "default", "kube-controller-manager", r#"{"status": {"active": 7}}"#);
    eventually("the alarm", || get(&address, "/metrics").contains(r#"jobferry_alarms_total{alarm="acted_on"}"#));
}
