//! What the program says before it has a cluster to talk to.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use support::{fail, jobferry, succeed};

#[test]
fn crds_are_printed_for_kubectl() {
    let output = succeed(jobferry(&["crds"]));
    assert!(
        output.contains("kind: CustomResourceDefinition") && output.contains("name: workers.jobferry.dev"),
        "{output}"
    );
}

#[test]
fn a_kubeconfig_that_does_not_exist_is_named() {
    let join = ["worker", "join", "eu-1", "--kubeconfig", "missing.yaml", "--worker-kubeconfig", "also-missing.yaml"];
    for arguments in [&["dispatcher", "--kubeconfig", "missing.yaml"][..], &join] {
        let error = fail(jobferry(arguments));
        assert!(error.contains("kubeconfig missing.yaml"), "{error}");
    }
}
