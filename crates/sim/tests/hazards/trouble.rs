//! A worker that is watched as ever, and does not do what is asked of it.

use std::time::Duration;

use jobferry_sim::stage::{Stage, job};
use jobferry_sim::{JobFacts, Truth};
use jobferry_testkit::fault::{Fate, WatchFate};
use serde_json::json;

use crate::{MANAGER, creates_on, prefer_w1};

fn is_told(truth: &Truth, name: &str, reason: &str) -> bool {
    let told = |job: &JobFacts| job.told.as_ref().is_some_and(|(holds, why)| !holds && why == reason);
    truth.job(MANAGER, name).is_some_and(told)
}

#[test]
fn a_worker_that_answers_again_is_used_again_though_nothing_was_left_to_ask_of_it() {
    Stage::play(1, async |stage: &Stage| {
        stage.start("d1");
        stage.wait(5).await;
        for what in ["POST /jobs", "GET /jobs", "GET /kube-system", "GET /pods"] {
            stage.fate(("d1", "w1"), what, 1000, Fate::Lost);
        }
        let names = ["a", "b", "c", "d", "e", "f"];
        for name in names {
            stage.submit(&job(name, 1)).await;
        }
        stage.wait(30).await;
        for name in names {
            stage.delete_job(MANAGER, name, "Background").await;
        }
        stage.wait(60).await;
        stage.submit(&job("train", 1)).await;
        stage.until("it waits", |truth| is_told(truth, "train", "NoWorkerFits")).await;
        stage.clear_fates();
        stage.until_ended("train", "Complete").await;
        stage.settle().await;
    });
}

#[test]
fn a_worker_that_fails_at_every_create_is_left_for_one_that_does_not() {
    Stage::play(2, async |stage: &Stage| {
        prefer_w1(stage).await;
        stage.start("d1");
        stage.wait(5).await;
        stage.fate(("d1", "w1"), "POST /jobs", 1000, Fate::Refused(500));
        stage.submit(&job("train", 1)).await;
        stage.until("the user is told", |truth| is_told(truth, "train", "Refused")).await;
        stage.until_ended("train", "Complete").await;
        assert_eq!((creates_on(stage, "w1"), creates_on(stage, "w2")), (0, 1));
        stage.settle().await;
    });
}

#[test]
fn a_worker_at_which_every_create_hangs_is_left_for_one_at_which_none_does() {
    Stage::play(2, async |stage: &Stage| {
        prefer_w1(stage).await;
        stage.start("d1");
        stage.wait(5).await;
        stage.fate(("d1", "w1"), "POST /jobs", 1000, Fate::Lost);
        stage.submit(&job("train", 1)).await;
        stage.until("the user is told", |truth| is_told(truth, "train", "Refused")).await;
        stage.until_ended("train", "Complete").await;
        assert_eq!((creates_on(stage, "w1"), creates_on(stage, "w2")), (0, 1));
        let others = ["a", "b", "c", "d"];
        for name in others {
            stage.submit(&job(name, 1)).await;
        }
        stage.wait(5).await;
        assert_eq!(creates_on(stage, "w2"), 5, "whoever can goes elsewhere at once");
        stage.clear_fates();
        stage.settle().await;
    });
}

#[test]
fn an_edit_at_which_the_worker_fails_over_and_over_again_is_told() {
    Stage::play(1, async |stage: &Stage| {
        stage.start("d1");
        stage.wait(5).await;
        stage.submit(&job("train", 600)).await;
        let runs =
            |truth: &Truth| truth.job(MANAGER, "train").is_some_and(|job| !truth.running_in(&job.uid).is_empty());
        stage.until("it runs", runs).await;
        stage.fate(("d1", "w1"), "PATCH /train", 1000, Fate::Refused(500));
        stage.edit_job(MANAGER, "train", json!({"spec": {"suspend": true}})).await;
        let told = |job: &JobFacts| job.told.as_ref().is_some_and(|(_, why)| why == "EditRefused");
        stage.until("the user is told", |truth| truth.job(MANAGER, "train").is_some_and(told)).await;
        stage.clear_fates();
        stage.until("it stops", |truth| !runs(truth)).await;
    });
}

#[test]
fn a_worker_that_fails_though_it_did_what_was_asked_is_not_left() {
    Stage::play(2, async |stage: &Stage| {
        prefer_w1(stage).await;
        // Nobody sees the mirror before there is reason enough to leave.
        stage.watch_fate(("d1", "w1"), "/jobs", 100, WatchFate::Slow(Duration::from_secs(30)));
        stage.start("d1");
        stage.wait(100).await;
        stage.fate(("d1", "w1"), "POST /jobs", 1000, Fate::CommittedButRefused(500));
        stage.submit(&job("train", 400)).await;
        stage.until("the user is told", |truth| is_told(truth, "train", "Refused")).await;
        stage.clear_fates();
        stage.until_ended("train", "Complete").await;
        assert_eq!(creates_on(stage, "w2"), 0, "it ran on w1 all the time");
        stage.settle().await;
    });
}

#[test]
fn a_worker_that_fails_and_has_no_other_beside_it_is_asked_less_and_less_often() {
    Stage::play(1, async |stage: &Stage| {
        stage.start("d1");
        stage.wait(5).await;
        stage.fate(("d1", "w1"), "POST /jobs", 1000, Fate::Refused(500));
        stage.submit(&job("train", 1)).await;
        stage.until("the user is told", |truth| is_told(truth, "train", "Refused")).await;
        stage.wait(300).await;
        let writes = stage.written(MANAGER, "PATCH /train").len();
        assert!(writes < 12, "{writes} writes for one Job that waits");
        stage.clear_fates();
        stage.until_ended("train", "Complete").await;
        stage.settle().await;
    });
}
