//! All controllers on the embedded API server, in virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod leadership;
mod world;

use serde_json::json;
use world::{World, has};

#[tokio::test(start_paused = true)]
async fn a_job_runs_its_pods_and_completes() {
    let world = World::start().await;
    world.create_job("ten", json!({"completions": 10, "parallelism": 4}), 30, 0).await;
    let job = world.job_with("ten", "Complete").await;
    assert_eq!(job["status"]["succeeded"], 10);
    assert!((90..100).contains(&world.elapsed()), "three rounds of 30 seconds, not {}", world.elapsed());
    let pods = world.pods().await;
    assert_eq!(pods.len(), 10);
    assert!(pods.iter().all(|pod| pod["metadata"]["finalizers"].is_null()));
}

#[tokio::test(start_paused = true)]
async fn a_failing_job_waits_longer_each_time_until_its_limit() {
    let world = World::start().await;
    world.create_job("bad", json!({"backoffLimit": 3}), 1, 5).await;
    let job = world.job_with("bad", "Failed").await;
    assert_eq!((&job["status"]["failed"], world.pods().await.len()), (&json!(4), 4));
    assert!((70..80).contains(&world.elapsed()), "10 + 20 + 40 seconds of waiting, not {}", world.elapsed());
}

#[tokio::test(start_paused = true)]
async fn deleting_a_job_in_the_background_takes_its_pods_along() {
    let world = World::start().await;
    world.create_job("long", json!({"completions": 3, "parallelism": 3}), 1000, 0).await;
    world.eventually(async || (world.pods().await.len() == 3).then_some(())).await;
    world.delete_job("long", "Background").await;
    assert!(world.job("long").await.is_none(), "the Job goes at once");
    world.eventually(async || world.pods().await.is_empty().then_some(())).await;
    assert!(world.elapsed() < 60);
}

#[tokio::test(start_paused = true)]
async fn a_job_deleted_in_the_foreground_goes_after_its_pods() {
    let world = World::start().await;
    world.create_job("long", json!({"completions": 3, "parallelism": 3}), 1000, 0).await;
    world.eventually(async || (world.pods().await.len() == 3).then_some(())).await;
    world.delete_job("long", "Foreground").await;
    while world.job("long").await.is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(world.pods().await.is_empty(), "nothing is left when the Job has gone");
}

#[tokio::test(start_paused = true)]
async fn orphaned_pods_run_on_without_an_owner() {
    let world = World::start().await;
    world.create_job("long", json!({}), 1000, 0).await;
    world.eventually(async || (world.pods().await.len() == 1).then_some(())).await;
    world.delete_job("long", "Orphan").await;
    world.eventually(async || world.job("long").await.is_none().then_some(())).await;
    world.settle().await;
    let pod = world.pods().await.remove(0);
    assert_eq!((&pod["metadata"]["ownerReferences"], &pod["metadata"]["finalizers"]), (&json!(null), &json!(null)));
    assert_eq!(pod["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_is_deleted_when_its_time_is_over() {
    let world = World::start().await;
    world.create_job("brief", json!({"ttlSecondsAfterFinished": 100}), 1, 0).await;
    world.job_with("brief", "Complete").await;
    let finished = world.elapsed();
    world.eventually(async || world.job("brief").await.is_none().then_some(())).await;
    assert!((99..105).contains(&(world.elapsed() - finished)));
    assert!(world.pods().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_stops_and_resumes() {
    let world = World::start().await;
    world.create_job("pause", json!({"completions": 2, "parallelism": 2}), 20, 0).await;
    world.eventually(async || (world.pods().await.len() == 2).then_some(())).await;
    let path = "/apis/batch/v1/namespaces/default/jobs/pause";
    world.edit(path, &json!({"spec": {"suspend": true}})).await;
    let job = world.job_with("pause", "Suspended").await;
    assert_eq!(job["status"]["active"], json!(null));
    world.settle().await;
    assert!(world.pods().await.is_empty());
    world.edit(path, &json!({"spec": {"suspend": false}})).await;
    let job = world.job_with("pause", "Complete").await;
    assert_eq!((&job["status"]["succeeded"], &job["status"]["failed"]), (&json!(2), &json!(null)));
    assert!(!has(&job, "Suspended"));
}

#[tokio::test(start_paused = true)]
async fn every_namespace_has_a_default_account_and_a_deleted_one_is_emptied() {
    let world = World::start().await;
    world
        .create("/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}))
        .await;
    let account = "/api/v1/namespaces/team/serviceaccounts/default";
    world.eventually(async || world.get(account).await).await;
    world
        .create(
            "/api/v1/namespaces/team/configmaps",
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}),
        )
        .await;
    world.delete("/api/v1/namespaces/team", "Background").await;
    world.eventually(async || world.get("/api/v1/namespaces/team").await.is_none().then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_is_told_why() {
    let world = World::start().await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "big"}, "spec": {"containers": [
        {"name": "c", "image": "none", "resources": {"requests": {"cpu": "64"}}},
    ]}});
    world.create("/api/v1/namespaces/default/pods", &pod).await;
    let path = "/api/v1/namespaces/default/pods/big";
    let condition = world
        .eventually(async || {
            let pod = world.get(path).await?;
            pod["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == "PodScheduled").cloned()
        })
        .await;
    assert_eq!(condition["message"], "0/1 nodes are available: 1 Insufficient cpu.");
}
