//! What the program prints is what the repository shows.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use support::{jobferry, succeed};

fn committed(file: &str) -> String {
    let path = format!("{}/../../manifests/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn definitions() -> String {
    ["workers", "dispatchpolicies"].map(|name| format!("---\n{}", committed(&format!("crds/{name}.yaml")))).concat()
}

#[test]
fn jobferry_crds_prints_the_committed_definitions() {
    assert_eq!(succeed(jobferry(&["crds"])), definitions());
}

#[test]
fn jobferry_install_prints_the_committed_manifests() {
    let manager = format!("{}---\n{}", definitions(), committed("manager.yaml"));
    assert_eq!(succeed(jobferry(&["install", "--print"])), manager);
    assert_eq!(succeed(jobferry(&["install", "worker", "--print"])), committed("worker.yaml"));
}
