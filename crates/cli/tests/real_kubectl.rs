//! Real kubectl against the clusters of `jobferry up`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::os::unix::fs::PermissionsExt as _;

use support::{Background, jobferry, kubectl, succeed};

#[test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
fn kubectl_watches_a_job_of_an_embedded_fleet_and_reads_its_logs_on_the_worker() {
    let directory = tempfile::tempdir().unwrap();
    let mut up = Background::start(jobferry(&["up", "--workers", "2", "--dir", directory.path().to_str().unwrap()]));
    up.until("ready");
    let kubeconfig = directory.path().join("kubeconfig");
    assert_eq!(kubeconfig.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let run = |arguments: &[&str]| succeed(kubectl(&kubeconfig, arguments));

    let workers = run(&["get", "workers"]);
    assert_eq!(workers.matches("True").count(), 2, "{workers}");

    let mut watch = Background::start(kubectl(&kubeconfig, &["get", "jobs", "-w", "-L", "jobferry.dev/worker"]));
    run(&["apply", "-f", concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hello.yaml")]);
    let line = watch.until("Complete");
    let worker = line.split_whitespace().last().unwrap();
    assert!(line.starts_with("hello") && worker.starts_with("worker-"), "{line}");

    run(&["wait", "--for=condition=complete", "job/hello", "--timeout=30s"]);
    assert_eq!(run(&["--context", worker, "logs", "job/hello"]), "hello from the other side\n");
    assert_eq!(run(&["get", "pods", "-o", "name"]), "", "no pod of a dispatched Job runs on the manager");
}
