//! Workers that are lost, for a while or for good.

use std::time::Duration;

use jobferry_sim::stage::{Stage, job};
use jobferry_sim::{Rule, Truth};
use jobferry_testkit::fault::Fate;
use serde_json::json;

use crate::{MANAGER, creates_on, prefer_w1, runs_in, until_running};

fn is_unfinished(truth: &Truth, name: &str) -> bool {
    truth.job(MANAGER, name).is_some_and(|job| job.ending.is_none())
}

#[test]
fn h05_a_cluster_that_was_rebuilt_behind_its_address_is_a_lost_worker_not_a_deleted_mirror() {
    Stage::play(2, async |stage: &Stage| {
        prefer_w1(stage).await;
        stage.start("d1");
        stage.submit(&job("train", 600)).await;
        until_running(stage, "w1", "train").await;
        stage.wait(5).await;
        stage.rebuild("w1").await;
        stage.wait(60).await;
        stage.change_secret("w1");
        stage.settle().await;
        assert!(stage.truth(|truth| is_unfinished(truth, "train")));
        assert_eq!((creates_on(stage, "w1"), creates_on(stage, "w2")), (1, 0), "it may run where nobody sees it");
        stage.submit(&job("next", 5)).await;
        stage.until_ended("next", "Complete").await;
        assert_eq!(creates_on(stage, "w1"), 2, "the new cluster is a worker like any other");
    });
}

#[test]
fn h05_a_create_that_reaches_the_cluster_in_its_workers_place_is_found_there_and_its_end_counts() {
    Stage::play(1, async |stage: &Stage| {
        stage.start("d1");
        stage.wait(5).await;
        // No watch shows what that cluster's admission makes of the mirror, and it is not stopped in time.
        stage.impose("w1", Rule::TakesLabel);
        stage.fate(("d1", "w1"), "POST /jobs", 1, Fate::Late(Duration::from_secs(2)));
        stage.fate(("d1", "w1"), "DELETE /jobs", 1, Fate::Lost);
        stage.submit(&job("train", 5)).await;
        stage.wait(1).await;
        stage.rebuild("w1").await;
        until_running(stage, "w1", "train").await;
        stage.lift("w1", Rule::TakesLabel);
        stage.until_ended("train", "Complete").await;
        stage.settle().await;
        assert_eq!(creates_on(stage, "w1"), 1);
    });
}

#[test]
fn h07_a_recorded_loss_does_not_fail_a_workload_whose_worker_answers() {
    Stage::play(1, async |stage: &Stage| {
        stage.policy(json!({"onWorkerLost": {"action": "Fail", "after": "5m"}})).await;
        stage.start("d1");
        stage.submit(&job("train", 3000)).await;
        until_running(stage, "w1", "train").await;
        stage.cut("w1", true);
        stage.wait(200).await;
        stage.kill("d1");
        stage.wait(1800).await;
        stage.cut("w1", false);
        stage.start("d2");
        stage.wait(300).await;
        assert!(stage.truth(|truth| is_unfinished(truth, "train")));
        stage.until_ended("train", "Complete").await;
        stage.settle().await;
    });
}

#[test]
fn h07_a_recorded_loss_does_not_count_for_one_after_the_worker_has_answered() {
    Stage::play(1, async |stage: &Stage| {
        stage.policy(json!({"onWorkerLost": {"action": "Fail", "after": "10m"}})).await;
        stage.start("d1");
        stage.submit(&job("train", 3000)).await;
        until_running(stage, "w1", "train").await;
        stage.cut("w1", true);
        stage.wait(200).await;
        stage.kill("d1");
        stage.wait(900).await;
        stage.cut("w1", false);
        stage.start("d2");
        stage.wait(60).await;
        // It answers, if only to refuse us; and then it is lost, as of now.
        stage.impose("w1", Rule::Denied(401));
        stage.cut("w1", true);
        stage.wait(5).await;
        stage.cut("w1", false);
        stage.wait(60).await;
        stage.cut("w1", true);
        stage.wait(300).await;
        assert!(stage.truth(|truth| is_unfinished(truth, "train")), "ten minutes are not over");
        stage.lift("w1", Rule::Denied(401));
        stage.cut("w1", false);
        stage.until_ended("train", "Complete").await;
        stage.settle().await;
    });
}

#[test]
fn h07_when_all_workers_look_lost_nothing_is_given_up() {
    Stage::play(3, async |stage: &Stage| {
        stage.policy(json!({"onWorkerLost": {"action": "Fail", "after": "5m"}})).await;
        stage.start("d1");
        stage.wait(5).await;
        for number in 0..6 {
            stage.submit(&job(&format!("job-{number}"), 3000)).await;
        }
        stage.wait(30).await;
        let all = ["w1", "w2", "w3"];
        for worker in all {
            stage.cut(worker, true);
        }
        stage.wait(1800).await;
        assert_eq!(stage.truth(|truth| truth.workloads().filter(|job| job.ending.is_some()).count()), 0);
        // One alone, with the others back, is a loss indeed.
        for worker in &all[1..] {
            stage.cut(worker, false);
        }
        stage.wait(300).await;
        let failed = stage.truth(|truth| truth.workloads().filter(|job| job.ending.is_some()).count());
        assert!(failed > 0 && failed < 6, "{failed} failed");
        stage.cut("w1", false);
        stage.settle().await;
    });
}

#[test]
fn h19_once_success_was_copied_a_lost_worker_ends_the_job_in_success() {
    Stage::play(1, async |stage: &Stage| {
        stage.policy(json!({"onWorkerLost": {"action": "Fail", "after": "5m"}})).await;
        stage.start("d1");
        let mut early = job("early", 60);
        early["spec"]["completionMode"] = "Indexed".into();
        early["spec"]["completions"] = 2.into();
        early["spec"]["successPolicy"] = json!({"rules": [{"succeededIndexes": "0"}]});
        stage.submit(&early).await;
        until_running(stage, "w1", "early").await;
        // The second index is in the middle of its work when the first one decides.
        stage.wait(30).await;
        stage.edit_job(MANAGER, "early", json!({"spec": {"parallelism": 2}})).await;
        let met = |truth: &Truth| {
            let job = truth.job(MANAGER, "early").unwrap();
            let all = job.status["conditions"].as_array().cloned().unwrap_or_default();
            all.iter().any(|condition| condition["type"] == "SuccessCriteriaMet") && job.ending.is_none()
        };
        stage.until("success is decided and not complete", met).await;
        stage.cut("w1", true);
        stage.until_ended("early", "Complete").await;
        assert!(stage.truth(|truth| !runs_in(truth, "w2", "early")));
        assert_eq!(stage.written(MANAGER, "PATCH /status").iter().filter(|write| write.code == 422).count(), 0);
        stage.cut("w1", false);
        stage.settle().await;
    });
}
