//! What a worker's own admission, queue and connection do.

use jobferry_sim::Rule;
use jobferry_sim::stage::{Stage, job};
use jobferry_testkit::fault::Fate;
use serde_json::json;

use crate::{MANAGER, WORKERS, creates_on, prefer_w1, until_running};

#[test]
fn h08_a_mirror_that_a_workers_admission_changed_keeps_its_ttl_or_is_taken_back() {
    const THIRTY_DAYS: u64 = 30 * 24 * 3600;
    Stage::play(2, async |stage: &Stage| {
        prefer_w1(stage).await;
        stage.start("d1");
        stage.impose("w1", Rule::AddsTtl);
        stage.submit(&job("ttl", 5)).await;
        stage.until_ended("ttl", "Complete").await;
        assert_eq!(stage.job("w1", "ttl").await["spec"]["ttlSecondsAfterFinished"], THIRTY_DAYS);
        stage.lift("w1", Rule::AddsTtl);
        for (name, rule) in [("unmarked", Rule::TakesLabel), ("delegated", Rule::Delegates)] {
            stage.impose("w1", rule);
            stage.submit(&job(name, 5)).await;
            stage.until_ended(name, "Complete").await;
            assert!(stage.job("w1", name).await.is_null() && stage.job("w2", name).await.is_object(), "{name}");
            stage.lift("w1", rule);
        }
        // The same when nobody hears what the worker made of it: it is not taken for a mirror that was simply found.
        stage.impose("w1", Rule::Delegates);
        stage.fate(("d1", "w1"), "POST /jobs", 1, Fate::AnswerReset);
        stage.submit(&job("unheard", 5)).await;
        stage.until_ended("unheard", "Complete").await;
        stage.lift("w1", Rule::Delegates);
        stage.settle().await;
    });
}

#[test]
fn h18_a_queue_of_the_workers_own_is_reported_and_not_fought() {
    Stage::play(1, async |stage: &Stage| {
        stage.start("d1");
        stage.submit(&job("train", 60)).await;
        until_running(stage, "w1", "train").await;
        stage.wait(5).await;
        stage.edit_job("w1", "train", json!({"spec": {"suspend": true}})).await;
        stage.wait(600).await;
        assert_eq!(stage.job("w1", "train").await["spec"]["suspend"], true);
        let shown = stage.job(MANAGER, "train").await;
        let suspended =
            |condition: &serde_json::Value| condition["type"] == "Suspended" && condition["status"] == "True";
        assert!(shown["status"]["conditions"].as_array().unwrap().iter().any(suspended), "{shown}");
        assert_eq!(shown["spec"]["suspend"], false, "the user did not ask for it");
        assert_eq!(stage.written("w1", "PATCH /jobs").len(), 0);
        stage.admit("w1").await;
        stage.until_ended("train", "Complete").await;
        stage.settle().await;
    });
}

#[test]
fn h24_a_flapping_worker_rewrites_what_waiting_jobs_say_once_a_minute_at_most() {
    const MINUTES: usize = 10;
    Stage::play(1, async |stage: &Stage| {
        let worker = format!("{WORKERS}/w1");
        stage.policy(json!({"workers": {"matchLabels": {"zone": "a"}}})).await;
        stage.edit(MANAGER, &worker, json!({"spec": {"cordoned": true}})).await;
        stage.start("d1");
        stage.wait(5).await;
        for number in 0..20 {
            stage.submit(&job(&format!("job-{number}"), 1)).await;
        }
        for zone in ["b", "a"].into_iter().cycle().take(MINUTES * 20) {
            stage.edit(MANAGER, &worker, json!({"metadata": {"labels": {"zone": zone}}})).await;
            stage.wait(3).await;
        }
        assert_eq!(creates_on(stage, "w1"), 0);
        for number in 0..20 {
            let writes = stage.written(MANAGER, &format!("PATCH /job-{number}/status")).len();
            assert!((2..=MINUTES + 1).contains(&writes), "job-{number} was written {writes} times");
        }
    });
}
