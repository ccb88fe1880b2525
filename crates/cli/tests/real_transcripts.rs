//! Transcripts that need real clusters: joining and leaving, rights, tokens. See `transcripts.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::fs;

use jobferry_testkit::{RealFleet, User};
use support::{Background, transcript::Terminal};

#[tokio::test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn on_real_clusters() {
    let fleet = RealFleet::start(&["manager", "eu-1", "us-1"]).await.unwrap();
    let mut terminal = Terminal::open();
    let copy = |from: std::path::PathBuf, name: &str| fs::copy(from, terminal.path(name)).unwrap();
    copy(fleet.manager().kubeconfig_path(User::Admin), "manager.kubeconfig");
    copy(fleet.manager().kubeconfig_path(User::Restricted), "restricted.kubeconfig");
    for worker in fleet.workers() {
        copy(worker.kubeconfig_path(User::Admin), &format!("{}.kubeconfig", worker.name()));
    }
    let manager = terminal.path("manager.kubeconfig").to_str().unwrap().to_owned();
    terminal.set("KUBECONFIG", &manager);
    let dispatcher = "exec jobferry dispatcher --install --metrics-address '' 2>dispatcher.log";
    let _dispatcher = Background::start(terminal.command(dispatcher));
    let misfits = [terminal.play("real-clusters"), terminal.play("real-no-permission")].concat();
    assert!(misfits.is_empty(), "{}", misfits.join("\n"));
}
