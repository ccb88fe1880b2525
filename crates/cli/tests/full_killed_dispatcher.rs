//! The dispatcher as a process of its own, killed like by a power cut at every write of a Job's life.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::time::Duration;

use jobferry_testkit::{
    AuditMark, RealFleet, User,
    scenarios::{JobManifest, is_complete},
};
use support::{Background, jobferry};

/// Between two looks at the audit logs: shorter than a write takes.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How many writes to Jobs of this namespace dispatchers have made since the marks, on all clusters.
fn writes(fleet: &RealFleet, marks: &[AuditMark], namespace: &str) -> usize {
    let records = fleet
        .clusters()
        .iter()
        .zip(marks)
        .flat_map(|(cluster, mark)| cluster.audit().records_of(User::Dispatcher, *mark).unwrap());
    let reads = ["get", "list", "watch"];
    records
        .filter(|r| r.namespace == namespace && r.resource.starts_with("jobs") && !reads.contains(&r.verb.as_str()))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
async fn a_dispatcher_killed_after_its_nth_write_loses_and_repeats_nothing() {
    let real = RealFleet::start(&["manager", "worker-1", "worker-2"]).await.unwrap();
    let fleet = real.undispatched().await.unwrap();
    let kubeconfig = real.manager().kubeconfig_path(User::Dispatcher);
    let kubeconfig = kubeconfig.to_str().unwrap();
    let start = || {
        let flags = ["dispatcher", "--kubeconfig", kubeconfig, "--no-lease", "--metrics-address", ""];
        Background::start(jobferry(&flags))
    };
    let namespace = fleet.namespace("killed").await.unwrap();
    let manager = namespace.manager();
    for fatal in 1.. {
        let name = format!("job-{fatal}");
        let marks: Vec<_> = real.clusters().iter().map(|cluster| cluster.audit().mark().unwrap()).collect();
        let victim = start();
        manager.create(JobManifest::delegated(&name).runs_for("1").manifest()).await.unwrap();
        let has_ended = loop {
            if writes(&real, &marks, "killed") >= fatal {
                break false;
            }
            if is_complete(&manager.get(&name).await.unwrap()) {
                break true;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        };
        drop(victim); // SIGKILL
        let _heir = start();
        let job = manager.until(&name, "complete", is_complete).await.unwrap();
        assert_eq!(job.status.and_then(|status| status.succeeded), Some(1), "killed after {fatal} writes");
        let ran = (namespace.mirrors().await.unwrap(), namespace.pods_on_workers().await.unwrap());
        assert_eq!(ran, (fatal, fatal), "killed after {fatal} writes");
        if has_ended {
            assert!(fatal > 3, "a placement, a mirror and at least two copies of its status");
            return;
        }
    }
}
