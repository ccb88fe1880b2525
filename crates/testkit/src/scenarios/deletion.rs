//! Deleting a Job removes what it had on workers, and nothing else.

use jobferry_api::labels;
use serde_json::json;

use super::dispatch::{Outcome, placed};
use super::{JobManifest, has_active, is_complete, is_failed, is_settled, is_suspended};
use crate::fleet::{Fleet, Propagation};

async fn delete_while_running(fleet: &Fleet, name: &str, pods: Propagation) -> Outcome {
    let namespace = fleet.namespace(name).await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("endless").runs_for_ever().manifest()).await?;
    manager.until("endless", "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, "endless").await?;
    manager.delete_with("endless", pods).await?;
    manager.until_gone("endless").await?;
    worker.until_gone("endless").await?;
    worker.until_no_pods().await
}

/// I12, U04: the mirror and its pods go.
pub async fn i12_deleted_in_the_background(fleet: &Fleet) -> Outcome {
    delete_while_running(fleet, "i12-background", Propagation::Background).await
}

/// The user's Job has no pods that would hold it up, and the mirror goes all the same.
pub async fn i12_deleted_in_the_foreground(fleet: &Fleet) -> Outcome {
    delete_while_running(fleet, "i12-foreground", Propagation::Foreground).await
}

/// i15488: there are no pods to orphan on the manager, so nothing may run on for ever on the worker.
pub async fn i12_deleted_with_orphans(fleet: &Fleet) -> Outcome {
    delete_while_running(fleet, "i12-orphan", Propagation::Orphan).await
}

/// I13: what was never placed leaves nothing.
pub async fn i13_a_suspended_job_that_is_deleted_leaves_nothing(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("i13").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("held").spec("suspend", json!(true)).manifest()).await?;
    manager.until("held", "shown as suspended", is_suspended).await?;
    manager.delete("held").await?;
    manager.until_gone("held").await?;
    // A later Job has gone all its way: whatever the deletion caused is done.
    manager.create(JobManifest::delegated("later").manifest()).await?;
    manager.until("later", "complete", is_complete).await?;
    assert_eq!(namespace.mirrors().await?, 1);
    Ok(())
}

/// A finalizer of others keeps the Job: as under the built-in controller it comes to no end by itself, and shows no active pods.
pub async fn a_deleted_job_that_somebody_keeps_shows_that_nothing_of_it_runs(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("kept").await?;
    let manager = namespace.manager();
    let manifest = JobManifest::delegated("endless").runs_for_ever();
    manager.create(manifest.metadata("finalizers", json!(["example.com/hold"])).manifest()).await?;
    manager.until("endless", "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, "endless").await?;
    manager.delete("endless").await?;
    worker.until_gone("endless").await?;
    let job = manager.until("endless", "without active pods", has_active(0)).await?;
    assert!(!is_complete(&job) && !is_failed(&job));
    manager.change("endless", &json!({"metadata": {"finalizers": null}})).await?;
    manager.until_gone("endless").await
}

/// H3, p14734: the TTL of the user's Job is the manager's matter. The mirror has one of its own that is far away, so it
/// cannot be deleted before its end was seen; and a Job that went by its TTL does not run again.
pub async fn p14734_a_job_goes_by_its_ttl_and_so_does_its_mirror(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("p14734").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("brief").spec("ttlSecondsAfterFinished", json!(5)).manifest()).await?;
    let (_, worker) = placed(&namespace, "brief").await?;
    let mirror = worker.until("brief", "complete", is_complete).await?;
    assert_eq!(mirror.spec.and_then(|spec| spec.ttl_seconds_after_finished), Some(30 * 24 * 3600));
    manager.until("brief", "complete", is_complete).await?;
    manager.until_gone("brief").await?;
    worker.until_gone("brief").await?;
    assert_eq!(namespace.mirrors().await?, 0);
    Ok(())
}

/// The clean-up of a worker leaves alone what another management cluster put there.
pub async fn gc_jobs_of_another_origin_are_kept(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("gc-others").await?;
    let [first, _] = fleet.two_workers();
    let worker = namespace.worker(first);
    let manifest = JobManifest::new("theirs").runs_for_ever().label(labels::ORIGIN, "another-manager");
    worker.create(manifest.annotation("jobferry.dev/origin-uid", "somebody").manifest()).await?;
    let theirs = worker.until("theirs", "settled", is_settled).await?;
    namespace.manager().create(JobManifest::delegated("ours").only_on(first).manifest()).await?;
    namespace.manager().until("ours", "complete", is_complete).await?;
    namespace.manager().delete("ours").await?;
    namespace.manager().until_gone("ours").await?;
    assert_eq!(worker.get("theirs").await?, theirs);
    Ok(())
}

/// H3: a finished mirror keeps its name for as long as a late create may land, also from a new Job of that name.
pub async fn h3_a_new_job_waits_for_the_name_of_a_finished_mirror(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("h3").await?;
    let manager = namespace.manager();
    let [worker, _] = fleet.two_workers();
    let manifest = JobManifest::delegated("train").only_on(worker);
    manager.create(manifest.manifest()).await?;
    let first = manager.until("train", "complete", is_complete).await?;
    manager.delete("train").await?;
    manager.until_gone("train").await?;
    manager.create(manifest.manifest()).await?;
    let second = manager.until("train", "complete", is_complete).await?;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    assert_eq!(namespace.mirrors().await?, 1);
    Ok(())
}
