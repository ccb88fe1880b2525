//! The first command of README, as a new user would run it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use support::{fail, jobferry, succeed};

#[test]
fn the_demo_sends_its_jobs_out_and_each_ends_as_expected() {
    let output = succeed(jobferry(&["demo"]));
    let rows: Vec<&str> = output.lines().skip_while(|line| !line.starts_with("JOB ")).collect();
    let row = |name: &str| rows.iter().find(|row| row.starts_with(name)).unwrap_or_else(|| panic!("{name}: {output}"));
    for (name, place, outcome) in [
        ("hello", "worker-", "Complete"),
        ("sweep", "worker-", "Failed"),
        ("train", "worker-2", "Complete"),
        ("patient", "worker-1", "Complete"),
        ("plain", "manager", "Complete"),
        ("local", "manager", "Complete"),
    ] {
        let row = row(name);
        assert!(row.contains(place) && row.contains(outcome) && row.ends_with("yes"), "{row}");
    }
    assert!(row("sweep").contains("0-2,4,5"), "{output}");
    assert!(output.contains("waits: of 3 workers none fits: 3 labels do not match the selector"), "{output}");
    assert!(output.contains("worker-2 is cut off") && output.contains("worker-2 is back"), "{output}");
}

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
