//! Workers that are cordoned, removed, registered again, or shared by two management clusters or two dispatchers.

use jobferry_api::conditions;
use serde_json::json;

use super::dispatch::Outcome;
use super::{JobManifest, has_active, is_complete, is_settled, message_of, worker_of};
use crate::fleet::Fleet;

/// Cordoned: nothing new, and running work stays.
pub async fn a_cordoned_worker_gets_nothing_new_and_keeps_what_it_has(fleet: &Fleet) -> Outcome {
    let [first, second] = fleet.two_workers();
    let namespace = fleet.namespace("cordoned").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("before").only_on(first).runs_for("4").manifest()).await?;
    manager.until("before", "active", has_active(1)).await?;
    fleet.change_worker(first, &json!({"spec": {"cordoned": true}})).await?;
    manager.create(JobManifest::delegated("waits").only_on(first).manifest()).await?;
    let told = |job: &_| message_of(job, conditions::PLACED).contains("cordoned");
    manager.until("waits", "waiting", told).await?;
    manager.create(JobManifest::delegated("elsewhere").manifest()).await?;
    let elsewhere = manager.until("elsewhere", "complete", is_complete).await?;
    assert_eq!(worker_of(&elsewhere), Some(second));
    manager.until("before", "complete", is_complete).await?;
    fleet.change_worker(first, &json!({"spec": {"cordoned": false}})).await?;
    let waited = manager.until("waits", "complete", is_complete).await?;
    assert_eq!(worker_of(&waited), Some(first));
    Ok(())
}

/// H15: a Worker that is deleted under running work and registered again. The Job ends once, as if nothing had happened.
pub async fn h15_a_worker_that_is_removed_and_registered_again_keeps_its_work(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("h15").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").only_on(first).runs_for("6").manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    fleet.delete_worker(first).await?;
    namespace.worker(first).until("train", "complete on the worker", is_complete).await?;
    // It goes at once, or when its work has ended: both are fine for the Job.
    fleet.forget_worker(first).await?;
    fleet.until_worker(first, "gone", |worker| worker.is_none()).await?;
    fleet.register(first).await?;
    manager.until("train", "complete", is_complete).await?;
    assert_eq!((namespace.mirrors().await?, namespace.pods_on_workers().await?), (1, 1));
    Ok(())
}

/// H15, clean: without its Worker nobody could stop what still runs of a Job that was deleted while it was away.
pub async fn h15_a_worker_that_is_removed_stays_until_what_was_deleted_meanwhile_is_gone(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("h15-clean").await?;
    let (manager, worker) = (namespace.manager(), namespace.worker(first));
    manager.create(JobManifest::delegated("train").only_on(first).runs_for_ever().manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    fleet.cut(first);
    manager.delete("train").await?;
    manager.until_gone("train").await?;
    fleet.delete_worker(first).await?;
    fleet.mend(first);
    fleet.until_worker(first, "gone", |worker| worker.is_none()).await?;
    worker.until_gone("train").await?;
    worker.until_no_pods().await?;
    fleet.register(first).await
}

/// Two management clusters share a worker: neither sees what the other has there.
pub async fn two_managers_share_a_worker_without_touching_each_other(fleet: &Fleet) -> Outcome {
    let [first, second] = fleet.two_workers();
    let namespace = fleet.namespace("shared-worker").await?;
    let (ours, theirs, worker) = (namespace.manager(), namespace.worker(second), namespace.worker(first));
    fleet.start_second_manager(second, &[first]).await?;
    theirs.create(JobManifest::delegated("theirs").runs_for_ever().manifest()).await?;
    theirs.until("theirs", "settled", is_settled).await?;
    let before = worker.until("theirs", "settled", is_settled).await?;
    ours.create(JobManifest::delegated("ours").only_on(first).manifest()).await?;
    ours.until("ours", "complete", is_complete).await?;
    // Restarted, ours looks for orphans: what another manager put there is none.
    fleet.stop_dispatchers().await;
    fleet.start_dispatcher().await;
    ours.create(JobManifest::delegated("later").only_on(first).manifest()).await?;
    ours.until("later", "complete", is_complete).await?;
    assert_eq!(worker.get("theirs").await?, before);
    Ok(())
}

/// Two dispatchers of one manager, each with a value of managedBy and with Workers of its own, share its clusters: neither
/// touches what is the other's.
pub async fn two_dispatchers_of_one_manager_keep_to_their_own(fleet: &Fleet) -> Outcome {
    const OTHER: &str = "example.com/other";
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("other-dispatcher").await?;
    let (manager, worker) = (namespace.manager(), namespace.worker(first));
    let others = JobManifest::new("other").spec("managedBy", json!(OTHER)).only_on(&format!("other-{first}"));
    fleet.start_other_dispatcher(OTHER, fleet.manager.clone(), fleet.workers.clone()).await?;
    manager.create(others.runs_for_ever().manifest()).await?;
    manager.create(JobManifest::delegated("ours").only_on(first).runs_for_ever().manifest()).await?;
    manager.until("ours", "settled", is_settled).await?;
    manager.until("other", "settled", is_settled).await?;
    let mirror = worker.until("other", "settled", is_settled).await?;
    fleet.stop_dispatchers().await;
    manager.delete("other").await?;
    // Restarted, and alone, ours looks for orphans: what the other one put there is none of ours.
    fleet.start_dispatcher().await;
    manager.create(JobManifest::delegated("later").only_on(first).manifest()).await?;
    manager.until("later", "complete", is_complete).await?;
    assert_eq!(worker.get("other").await?, mirror);
    // Back again, the other one clears its own away.
    fleet.start_other_dispatcher(OTHER, fleet.manager.clone(), fleet.workers.clone()).await?;
    worker.until_gone("other").await?;
    worker.get("ours").await.map(drop)
}
