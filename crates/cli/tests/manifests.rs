//! What the program prints is what the repository shows.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use support::{fail, jobferry, succeed};

fn committed(file: &str) -> String {
    let path = format!("{}/../../manifests/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn definitions() -> String {
    ["workers", "dispatchpolicies", "workloadkinds"]
        .map(|name| format!("---\n{}", committed(&format!("crds/{name}.yaml"))))
        .concat()
}

#[test]
fn jobferry_crds_prints_the_committed_definitions() {
    assert_eq!(succeed(jobferry(&["crds"])), definitions());
}

#[test]
fn jobferry_install_prints_the_committed_manifests() {
    let rights = format!("{}---\n{}", definitions(), committed("manager.yaml"));
    assert_eq!(succeed(jobferry(&["install", "--print", "--no-deployment"])), rights);
    let deployment = committed("deployment.yaml").replace("IMAGE", "mirror.example/jobferry:1");
    let printed = succeed(jobferry(&["install", "--print", "--image", "mirror.example/jobferry:1"]));
    assert_eq!(printed, format!("{rights}---\n{deployment}"));
}

#[test]
fn an_image_is_a_name_and_nothing_that_changes_the_manifest() {
    let error = fail(jobferry(&["install", "--print", "--image", "x\n        hostNetwork: true"]));
    assert!(error.contains("no such image"), "{error}");
}
