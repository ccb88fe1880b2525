//! A create that comes late, twice, or not at all.

use std::time::Duration;

use jobferry_sim::stage::{Stage, job};
use jobferry_sim::{JobFacts, Rule, Truth};
use jobferry_testkit::fault::{Fate, WatchFate};

use crate::{MANAGER, creates_on, prefer_w1, until_running};

/// Half a minute behind: long enough for anything to happen unseen.
const BEHIND: WatchFate = WatchFate::Slow(Duration::from_secs(30));

#[test]
fn h01_a_create_refused_by_quota_does_not_prove_that_the_one_before_was_not_carried_out() {
    Stage::play(2, async |stage: &Stage| {
        prefer_w1(stage).await;
        stage.watch_fate(("d1", "w1"), "/jobs", 100, BEHIND);
        stage.start("d1");
        stage.wait(100).await;
        // The create is carried out and takes the last place of the quota; the connection breaks before the answer.
        stage.fate(("d1", "w1"), "POST /jobs", 1, Fate::AnswerReset);
        stage.submit(&job("train", 100)).await;
        stage.until_mirrored("w1", "train").await;
        stage.impose("w1", Rule::Quota);
        stage.until("there is a second create", |_| creates_on(stage, "w1") == 2).await;
        stage.until_ended("train", "Complete").await;
        let codes: Vec<u16> = stage.written("w1", "POST /jobs").iter().map(|write| write.code).collect();
        assert_eq!((&codes[..2], creates_on(stage, "w2")), (&[201, 403][..], 0), "w1 had it all the time");
        stage.settle().await;
    });
}

#[test]
fn h03_a_create_that_an_old_leader_held_back_finds_the_name_of_the_finished_mirror_taken() {
    Stage::play(1, async |stage: &Stage| {
        stage.start("d1");
        stage.wait(5).await;
        stage.fate(("d1", "w1"), "POST /jobs", 1, Fate::Late(Duration::from_secs(65)));
        stage.submit(&job("train", 1)).await;
        stage.wait(1).await;
        stage.kill("d1");
        stage.start("d2");
        stage.until_ended("train", "Complete").await;
        assert_eq!(creates_on(stage, "w1"), 1, "the old one is still under way");
        // Neither the end of the workload nor its deletion frees the name before nothing can be under way any more.
        stage.delete_job(MANAGER, "train", "Background").await;
        stage.until("the late create arrives", |_| creates_on(stage, "w1") == 2).await;
        let codes: Vec<u16> = stage.written("w1", "POST /jobs").iter().map(|write| write.code).collect();
        assert_eq!(codes, [201, 409]);
        stage.empty().await;
    });
}

#[test]
fn h06_a_placement_without_a_mirror_is_created_later_and_one_whose_mirror_left_pods_is_not_run_again() {
    Stage::play(1, async |stage: &Stage| {
        stage.start("d1");
        stage.wait(5).await;
        stage.fate(("d1", "w1"), "POST /jobs", 1, Fate::Lost);
        stage.submit(&job("never-created", 5)).await;
        stage.until("it is placed", |truth| truth.job(MANAGER, "never-created").unwrap().placement.is_some()).await;
        stage.wait(1).await;
        stage.kill("d1");
        stage.start("d2");
        stage.until_ended("never-created", "Complete").await;
        assert_eq!(creates_on(stage, "w1"), 1);

        // This one is created; nobody hears of it before somebody deletes it and leaves its pods.
        stage.kill("d2");
        stage.watch_fate(("d2", "w1"), "/jobs", 100, BEHIND);
        stage.start("d2");
        stage.wait(100).await;
        stage.fate(("d2", "w1"), "POST /jobs", 1, Fate::AnswerLost);
        stage.submit(&job("deleted", 300)).await;
        until_running(stage, "w1", "deleted").await;
        stage.kill("d2");
        stage.delete_job("w1", "deleted", "Orphan").await;
        stage.until("the mirror is gone", |truth| truth.job("w1", "deleted").is_none()).await;
        stage.clear_fates();
        stage.start("d3");
        stage.until_ended("deleted", "Failed").await;
        assert_eq!(creates_on(stage, "w1"), 2, "it may have run to its end, so it is not created again");
    });
}

#[test]
fn h11_nothing_waits_on_a_worker_that_was_not_chosen_for_its_queue_to_start() {
    Stage::play(2, async |stage: &Stage| {
        for worker in ["w1", "w2"] {
            stage.impose(worker, Rule::Suspends);
        }
        stage.start("d1");
        stage.submit(&job("train", 5)).await;
        let there = |stage: &Stage| ["w1", "w2"].map(|worker| creates_on(stage, worker)).iter().sum::<usize>();
        stage.until("a mirror is created", |_| there(stage) > 0).await;
        stage.wait(300).await;
        for worker in ["w1", "w2"] {
            stage.lift(worker, Rule::Suspends);
            stage.admit(worker).await;
        }
        stage.until_ended("train", "Complete").await;
        assert_eq!(there(stage), 1, "one worker, one mirror");
        stage.settle().await;
    });
}

/// The workload leaves w1, which refuses it, and a create that was held back lands there after all.
async fn leave_w1_with_a_late_create(stage: &Stage, seconds: u64) {
    prefer_w1(stage).await;
    stage.start("d1");
    stage.wait(5).await;
    stage.fate(("d1", "w1"), "POST /jobs", 1, Fate::Late(Duration::from_secs(60)));
    stage.impose("w1", Rule::Quota);
    stage.submit(&job("train", seconds)).await;
    stage.until("it leaves", |truth| epoch(truth) == Some(2)).await;
    stage.lift("w1", Rule::Quota);
    stage.until_mirrored("w1", "train").await;
}

fn epoch(truth: &Truth) -> Option<u32> {
    Some(truth.job(MANAGER, "train")?.placement.as_ref()?.epoch)
}

#[test]
fn h13_a_delete_that_an_old_leader_held_back_hits_only_what_it_was_meant_for() {
    Stage::play(2, async |stage: &Stage| {
        stage.fate(("d1", "w1"), "DELETE /jobs", 1, Fate::Late(Duration::from_secs(60)));
        leave_w1_with_a_late_create(stage, 400).await;
        let late = stage.truth(|truth| truth.job("w1", "train").unwrap().uid.clone());
        // The delete of the mirror that came late is under way when d1 dies.
        stage.wait(1).await;
        stage.kill("d1");
        stage.start("d2");
        stage.until("both deletes arrived", |_| stage.written("w1", "DELETE /jobs").len() == 2).await;
        stage.until_ended("train", "Complete").await;
        let deletes = ["w1", "w2"].map(|worker| stage.written(worker, "DELETE /jobs")).concat();
        assert!(deletes.iter().all(|delete| delete.body["preconditions"]["uid"] == late.as_str()), "{deletes:?}");
        stage.settle().await;
    });
}

#[test]
fn h20_a_mirror_of_an_earlier_placement_that_finished_after_all_is_the_result() {
    Stage::play(2, async |stage: &Stage| {
        stage.fate(("d1", "w1"), "DELETE /jobs", 1, Fate::Lost);
        leave_w1_with_a_late_create(stage, 0).await;
        stage.until_ended("train", "Complete").await;
        stage.wait(200).await;
        assert_eq!(creates_on(stage, "w2"), 0, "it has run, so it is not placed again");
        stage.settle().await;
    });
}

#[test]
fn h23_a_worker_that_hangs_collects_no_more_workloads_than_it_has_slots() {
    const WORKLOADS: usize = 300;
    const SLOTS: usize = 64;
    /// Placements that are written at the same moment see the same free slots.
    const BEING_PLACED: usize = 32;
    Stage::play(2, async |stage: &Stage| {
        stage.start("d1");
        stage.wait(5).await;
        stage.fate(("d1", "w1"), "POST /jobs", 1_000_000, Fate::Lost);
        for number in 0..WORKLOADS {
            stage.submit(&job(&format!("job-{number}"), 1)).await;
        }
        stage.wait(60).await;
        let on = |worker: &str| {
            let there = |job: &&JobFacts| job.placement.as_ref().is_some_and(|at| at.worker == worker);
            stage.truth(|truth| truth.workloads().filter(there).count())
        };
        assert!(on("w1") <= SLOTS + BEING_PLACED, "{} were placed on w1", on("w1"));
        let done = stage.truth(|truth| truth.workloads().filter(|job| job.ending.is_some()).count());
        assert!(done >= WORKLOADS - SLOTS - BEING_PLACED, "only {done} of {WORKLOADS} have ended");
    });
}
