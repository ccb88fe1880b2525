//! Real control planes that freeze, die and come back, and a dispatcher that is killed: no duplicate run, no lost result,
//! no orphan.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod faults;

use std::time::Duration;

use faults::{RUNTIME, freeze_for, ran_once, survives, with_fleet};
use jobferry_testkit::{
    Component, PodRunner, RealFleet, User,
    scenarios::{self, JobManifest, has_active, is_complete, is_failed},
};

#[test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
fn the_api_server_of_a_worker_freezes_for_ten_seconds() {
    with_fleet(async |real, fleet| {
        survives(fleet, "frozen", async || freeze_for(&real.workers()[0], Duration::from_secs(10)).await).await;
    });
}

#[test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
fn the_api_server_of_a_worker_is_killed_and_started_again() {
    with_fleet(async |real, fleet| {
        survives(fleet, "worker-killed", async || {
            real.workers()[0].kill(Component::ApiServer).unwrap();
            real.workers()[0].launch(Component::ApiServer).await.unwrap();
        })
        .await;
    });
}

#[test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
fn the_api_server_of_the_manager_is_restarted() {
    with_fleet(async |real, fleet| {
        survives(fleet, "manager-restarted", async || real.manager().restart(Component::ApiServer).await.unwrap())
            .await;
    });
}

#[test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
fn the_dispatcher_is_killed_after_every_write_of_a_life_cycle() {
    with_fleet(async |_, fleet| scenarios::killed_after_every_write_of_a_life_cycle(fleet).await.unwrap());
}

/// H5: another cluster behind the same address. What ran on the old one is waited for: nobody knows how it ended, so it is
/// neither started again nor declared deleted.
#[test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
fn a_worker_is_wiped_and_comes_back_empty_behind_the_same_address() {
    RUNTIME.block_on(async {
        let real = RealFleet::start(&["manager", "worker-1"]).await.unwrap();
        let fleet = real.dispatched().await.unwrap();
        let namespace = fleet.namespace("wiped").await.unwrap();
        let manager = namespace.manager();
        manager.create(JobManifest::delegated("before").runs_for_ever().manifest()).await.unwrap();
        manager.until("before", "active", has_active(1)).await.unwrap();
        let old = fleet.worker_status("worker-1").await.unwrap()["identity"].clone();

        real.workers()[0].wipe().await.unwrap();
        let _runner = PodRunner::start(real.workers()[0].config(User::PodRunner).await.unwrap()).unwrap();
        let replaced = |worker: Option<&serde_json::Value>| worker.is_some_and(|w| w["status"]["identity"] != old);
        fleet.until_worker("worker-1", "known by its new identity", replaced).await.unwrap();
        fleet.add_namespace("wiped", "worker-1").await.unwrap();
        manager.create(JobManifest::delegated("after").manifest()).await.unwrap();
        manager.until("after", "complete", is_complete).await.unwrap();

        let before = manager.get("before").await.unwrap();
        assert!(!is_failed(&before) && !is_complete(&before), "it is waited for");
        ran_once(&namespace, 1).await;
        manager.delete("before").await.unwrap();
        manager.until_gone("before").await.unwrap();
        fleet.stop_dispatchers().await;
    });
}
