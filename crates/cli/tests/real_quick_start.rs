//! README's quick start on real clusters, command by command.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use jobferry_testkit::{RealFleet, User};
use support::{Background, fail, jobferry, kubectl, succeed};

#[tokio::test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn from_three_bare_clusters_to_a_finished_remote_job() {
    let fleet = RealFleet::start(&["manager", "eu-1", "us-1"]).await.unwrap();
    let manager = fleet.manager().kubeconfig_path(User::Admin);
    let manager_flag = manager.to_str().unwrap();
    let _dispatcher = Background::start(jobferry(&["dispatcher", "--kubeconfig", manager_flag, "--install"]));
    for (worker, labels) in fleet.workers().iter().zip(["region=eu", "region=us"]) {
        let kubeconfig = worker.kubeconfig_path(User::Admin);
        let flags = ["--worker-kubeconfig", kubeconfig.to_str().unwrap(), "--labels", labels];
        let mut join = vec!["worker", "join", worker.name(), "--kubeconfig", manager_flag];
        join.extend(flags);
        assert_eq!(succeed(jobferry(&join)), format!("worker/{} joined\n", worker.name()));
    }
    let itself = ["worker", "join", "self", "--kubeconfig", manager_flag, "--worker-kubeconfig", manager_flag];
    let error = fail(jobferry(&itself));
    assert!(error.contains("cannot be its own worker"), "{error}");

    let hello = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hello.yaml");
    let submit = ["submit", "--kubeconfig", manager_flag, "-f", hello, "--wait", "--timeout", "60s"];
    assert_eq!(succeed(jobferry(&submit)), "job/hello submitted\njob/hello complete\n");
    let doctor = succeed(jobferry(&["doctor", "--kubeconfig", manager_flag]));
    assert!(doctor.contains("worker eu-1") && !doctor.contains("WRONG"), "{doctor}");
    let run = |arguments: &[&str]| succeed(kubectl(&manager, arguments));
    let table = run(&["get", "jobs", "-L", "jobferry.dev/worker"]);
    assert!(table.contains("eu-1") || table.contains("us-1"), "{table}");
    assert_eq!(run(&["get", "pods", "-o", "name"]), "");
}
