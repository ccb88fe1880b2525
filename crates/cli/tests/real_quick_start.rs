//! README's quick start on real clusters: its commands are read out of README.md and typed, one after the other.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::fs;

use jobferry_testkit::{RealFleet, User};
use support::{Background, succeed, transcript::Terminal};

/// The lines of the first block of commands under a heading.
fn commands_under<'a>(heading: &str, text: &'a str) -> Vec<&'a str> {
    let section = text.split(heading).nth(1).unwrap_or_else(|| panic!("README.md has no {heading:?}"));
    let block = section.split("```sh\n").nth(1).and_then(|block| block.split("```").next()).unwrap();
    block.lines().collect()
}

#[tokio::test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn from_three_bare_clusters_to_a_finished_remote_job() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let commands = commands_under("## On real clusters", &readme);
    assert!(commands.len() <= 4, "more than four commands: {commands:?}");

    let fleet = RealFleet::start(&["manager", "eu-1", "us-1"]).await.unwrap();
    let terminal = Terminal::open();
    for cluster in fleet.clusters() {
        fs::write(terminal.path(&format!("{}.yaml", cluster.name())), cluster.kubeconfig(User::Admin)).unwrap();
    }
    fs::create_dir(terminal.path("examples")).unwrap();
    fs::copy(terminal.path("hello.yaml"), terminal.path("examples/hello.yaml")).unwrap();

    let mut in_background = Vec::new();
    let mut said = String::new();
    for command in commands {
        match command.strip_suffix(" &") {
            Some(command) => in_background.push(Background::start(terminal.command(&format!("exec {command} 2>log")))),
            None => said.push_str(&succeed(terminal.command(command))),
        }
    }
    assert_eq!(said, "worker/eu-1 joined\nworker/us-1 joined\njob/hello submitted\njob/hello complete\n");
    assert_eq!(in_background.len(), 1, "the dispatcher");

    let doctor = succeed(terminal.command("jobferry doctor --kubeconfig manager.yaml"));
    assert!(doctor.contains("worker eu-1") && doctor.contains("worker us-1"), "{doctor}");
    let jobs = succeed(terminal.command("jobferry get --kubeconfig manager.yaml"));
    assert!(jobs.contains("eu-1") || jobs.contains("us-1"), "{jobs}");
    let on_manager = fleet.manager().kubeconfig_path(User::Admin);
    assert_eq!(succeed(support::kubectl(&on_manager, &["get", "pods", "-o", "name"])), "", "no pod ran on the manager");
}
