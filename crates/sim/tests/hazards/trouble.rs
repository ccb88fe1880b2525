//! A worker that is watched as ever, and does not do what is asked of it.

use jobferry_sim::stage::{Stage, job};
use jobferry_sim::{JobFacts, Truth};
use jobferry_testkit::fault::Fate;

use crate::MANAGER;

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
