//! What a dispatcher sees is old, incomplete, or from another cluster.

use std::time::Duration;

use jobferry_api::{conditions, labels};
use jobferry_sim::stage::{Stage, job};
use jobferry_testkit::fault::{Fate, WatchFate};
use serde_json::{Value, json};

use crate::{JOBS, MANAGER, WORKERS, creates_on, until_running};

#[test]
fn h04_a_label_that_was_taken_off_and_a_path_that_is_not_served_do_not_mean_that_the_mirror_is_gone() {
    Stage::play(1, async |stage: &Stage| {
        stage.start("d1");
        stage.submit(&job("train", 120)).await;
        until_running(stage, "w1", "train").await;
        stage.wait(5).await;
        stage.fate(("d1", "w1"), "GET /jobs/train", 1, Fate::Refused(404));
        stage.edit_job("w1", "train", json!({"metadata": {"labels": {labels::ORIGIN: null}}})).await;
        stage.until_mirrored("w1", "train").await;
        stage.until_ended("train", "Complete").await;
        assert_eq!((creates_on(stage, "w1"), stage.written("w1", "DELETE").len()), (1, 0));
    });
}

#[test]
fn h10_after_a_worker_was_restored_its_news_still_arrive() {
    Stage::play(1, async |stage: &Stage| {
        stage.start("d1");
        stage.submit(&job("train", 60)).await;
        until_running(stage, "w1", "train").await;
        stage.wait(5).await;
        let backup = stage.backup("w1");
        // The watch sees all of these, so that it stands far ahead of the backup.
        for number in 0..60 {
            stage.edit_job("w1", "train", json!({"metadata": {"annotations": {"touched": number.to_string()}}})).await;
        }
        stage.wait(1).await;
        stage.restore("w1", &backup).await;
        // It ends at a version that the watch has passed already; more than that is written before the watch ends.
        stage.until("the mirror has ended", |truth| truth.job("w1", "train").unwrap().ending.is_some()).await;
        for number in 0..12 {
            stage.submit(&job(&format!("later-{number}"), 0)).await;
        }
        stage.until_ended("train", "Complete").await;
        stage.settle().await;
    });
}

#[test]
fn h14_a_cluster_is_a_worker_once_and_never_its_own_manager() {
    Stage::play(1, async |stage: &Stage| {
        stage.start("d1");
        stage.wait(5).await;
        for (name, secret) in [("w1-again", "w1"), ("self", MANAGER)] {
            let worker = json!({"apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker", "metadata": {"name": name},
                                "spec": {"kubeconfigSecret": secret}});
            stage.create(MANAGER, WORKERS, &worker).await;
        }
        for number in 0..10 {
            stage.submit(&job(&format!("job-{number}"), 5)).await;
        }
        stage.settle().await;
        for name in ["w1-again", "self"] {
            let worker = stage.read(MANAGER, &format!("{WORKERS}/{name}")).await.unwrap();
            let accepted = condition(&worker, conditions::ACCEPTED);
            assert_eq!(accepted["status"], "False", "{worker}");
        }
        assert_eq!((creates_on(stage, "w1"), creates_on(stage, MANAGER)), (10, 0));
    });
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let all = object["status"]["conditions"].as_array().unwrap();
    all.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

#[test]
fn h15_a_worker_that_is_deleted_stays_until_its_last_workload_has_ended() {
    Stage::play(1, async |stage: &Stage| {
        stage.start("d1");
        stage.submit(&job("train", 300)).await;
        until_running(stage, "w1", "train").await;
        stage.delete(MANAGER, &format!("{WORKERS}/w1"), "Background").await;
        stage.submit(&job("too-late", 1)).await;
        stage.until_ended("train", "Complete").await;
        assert_eq!(creates_on(stage, "w1"), 1, "a worker that is about to go gets nothing new");
        stage.wait(30).await;
        assert_eq!(stage.read(MANAGER, &format!("{WORKERS}/w1")).await, None);
    });
}

#[test]
fn h16_an_end_that_is_seen_together_with_the_deletion_counts_and_its_ttl_begins_with_the_copy() {
    Stage::play(1, async |stage: &Stage| {
        stage.watch_fate(("d1", "w1"), "/jobs", 3, WatchFate::Slow(Duration::from_secs(20)));
        stage.start("d1");
        stage.wait(60).await;
        stage.submit(&job("train", 1)).await;
        stage
            .until("the mirror has ended", |truth| truth.job("w1", "train").is_some_and(|job| job.ending.is_some()))
            .await;
        stage.delete_job("w1", "train", "Background").await;
        stage.until_ended("train", "Complete").await;

        let mut short_lived = job("short-lived", 100);
        short_lived["spec"]["ttlSecondsAfterFinished"] = 60.into();
        stage.submit(&short_lived).await;
        until_running(stage, "w1", "short-lived").await;
        stage.wait(30).await;
        stage.cut("w1", true);
        stage.wait(900).await;
        stage.cut("w1", false);
        stage.until_ended("short-lived", "Complete").await;
        stage.wait(50).await;
        assert!(stage.job(MANAGER, "short-lived").await.is_object(), "its user has a minute to see the end");
        stage.wait(30).await;
        assert!(stage.job(MANAGER, "short-lived").await.is_null());
    });
}

#[test]
fn h17_a_foreign_job_that_took_the_name_is_not_edited_and_no_mirror_selects_foreign_pods() {
    Stage::play(1, async |stage: &Stage| {
        stage.watch_fate(("d1", "w1"), "/jobs", 100, WatchFate::Slow(Duration::from_secs(30)));
        stage.start("d1");
        stage.wait(100).await;
        stage.submit(&job("train", 600)).await;
        until_running(stage, "w1", "train").await;
        stage.delete_job("w1", "train", "Background").await;
        let mut foreign = job("train", 600);
        foreign["spec"]["suspend"] = true.into();
        foreign["spec"].as_object_mut().unwrap().remove("managedBy");
        stage.create("w1", JOBS, &foreign).await;
        stage.wait(1).await;
        let before = stage.job("w1", "train").await;
        stage.edit_job(MANAGER, "train", json!({"spec": {"parallelism": 3}})).await;
        stage.until_ended("train", "Failed").await;
        stage.wait(100).await;
        assert_eq!(stage.job("w1", "train").await, before);
        assert_eq!(stage.written("w1", "DELETE").len(), 0);

        let mut greedy = job("greedy", 5);
        greedy["spec"]["manualSelector"] = true.into();
        greedy["spec"]["selector"] = json!({"matchLabels": {"app": "shared"}});
        greedy["spec"]["template"]["metadata"]["labels"] = json!({"app": "shared"});
        stage.submit(&greedy).await;
        stage.until_mirrored("w1", "greedy").await;
        let mirror = stage.job("w1", "greedy").await;
        assert_ne!(mirror["spec"]["manualSelector"], true);
        assert_eq!(
            mirror["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"],
            mirror["metadata"]["uid"]
        );
    });
}
