//! The faults that take minutes.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod faults;

use std::time::Duration;

use faults::{freeze_for, survives, with_fleet};
use jobferry_testkit::Component;

#[test]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
fn the_api_server_of_a_worker_freezes_for_a_minute() {
    with_fleet(async |real, fleet| {
        survives(fleet, "frozen-minute", async || freeze_for(&real.workers()[0], Duration::from_secs(60)).await).await;
    });
}

#[test]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
fn the_api_server_of_a_worker_freezes_for_longer_than_any_deadline() {
    with_fleet(async |real, fleet| {
        survives(fleet, "frozen-long", async || freeze_for(&real.workers()[0], Duration::from_secs(150)).await).await;
    });
}

#[test]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
fn the_api_server_of_the_manager_freezes_for_a_minute() {
    with_fleet(async |real, fleet| {
        survives(fleet, "manager-frozen", async || freeze_for(real.manager(), Duration::from_secs(60)).await).await;
    });
}

/// With its store: the whole control plane of a worker is gone for a while, as after a power cut.
#[test]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
fn the_control_plane_of_a_worker_loses_its_power() {
    with_fleet(async |real, fleet| {
        survives(fleet, "power-cut", async || {
            let worker = &real.workers()[0];
            for component in [Component::ControllerManager, Component::ApiServer, Component::Etcd] {
                worker.kill(component).unwrap();
            }
            tokio::time::sleep(Duration::from_secs(20)).await;
            for component in [Component::Etcd, Component::ApiServer, Component::ControllerManager] {
                worker.launch(component).await.unwrap();
            }
        })
        .await;
    });
}
