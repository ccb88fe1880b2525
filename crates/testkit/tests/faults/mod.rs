//! A fleet whose clusters may be broken, and what is true of it afterwards.

use std::sync::LazyLock;
use std::time::Duration;

use jobferry_testkit::{
    Component, RealCluster, RealFleet,
    fleet::{Fleet, Namespace},
    scenarios::{JobManifest, has_active, is_complete},
};
use tokio::{
    runtime::Runtime,
    sync::{Mutex, OnceCell},
};

/// The fleet's connections and its dispatcher live here, whichever test came first.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
/// Held by the test that has the fleet.
static TURN: Mutex<()> = Mutex::const_new(());

/// Runs a test that has the shared fleet for itself.
pub(crate) fn with_fleet(test: impl AsyncFnOnce(&'static RealFleet, &'static Fleet)) {
    static FLEET: OnceCell<Fleet> = OnceCell::const_new();
    RUNTIME.block_on(async {
        let real = RealFleet::shared().await.unwrap();
        let fleet = FLEET.get_or_init(|| async { real.undispatched().await.unwrap() }).await;
        let _turn = TURN.lock().await;
        fleet.restore().await.unwrap();
        test(real, fleet).await;
    });
}

/// A Job runs on the first worker while something happens to it; it ends as if nothing had happened.
pub(crate) async fn survives(fleet: &Fleet, name: &str, disturb: impl AsyncFnOnce()) {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace(name).await.unwrap();
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("running").only_on(first).runs_for("3").manifest()).await.unwrap();
    manager.until("running", "active", has_active(1)).await.unwrap();
    manager.create(JobManifest::delegated("deleted").only_on(first).runs_for_ever().manifest()).await.unwrap();
    manager.until("deleted", "active", has_active(1)).await.unwrap();
    disturb().await;
    manager.delete("deleted").await.unwrap();
    manager.create(JobManifest::delegated("next").only_on(first).manifest()).await.unwrap();
    for job in ["running", "next"] {
        let job = manager.until(job, "complete", is_complete).await.unwrap();
        assert_eq!(job.status.and_then(|status| status.succeeded), Some(1));
    }
    namespace.worker(first).until_gone("deleted").await.unwrap();
    ran_once(&namespace, 2).await;
}

/// As many mirrors and pods as Jobs, all on workers: no duplicate, no orphan.
pub(crate) async fn ran_once(namespace: &Namespace<'_>, jobs: usize) {
    namespace.until_pods_on_workers(jobs).await.unwrap();
    assert_eq!(namespace.mirrors().await.unwrap(), jobs);
    assert_eq!(namespace.manager().pods().await.unwrap(), 0);
}

/// Freezes the API server of a cluster: connections stay open, nobody answers.
pub(crate) async fn freeze_for(cluster: &RealCluster, time: Duration) {
    cluster.freeze(Component::ApiServer).unwrap();
    tokio::time::sleep(time).await;
    cluster.thaw(Component::ApiServer).unwrap();
}
