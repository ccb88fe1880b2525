//! What is written on the user's Job, and who else writes there.

use jobferry_api::{conditions, labels};
use jobferry_sim::stage::{Stage, job};
use serde_json::{Value, json};

use crate::{JOBS, MANAGER, creates_on, prefer_w1, until_running};

#[test]
fn h02_a_record_can_neither_be_forged_nor_copied_and_a_lost_one_is_found_again_from_the_mirror() {
    Stage::play(2, async |stage: &Stage| {
        prefer_w1(stage).await;
        stage.start("d1");
        stage.submit(&job("train", 600)).await;
        until_running(stage, "w1", "train").await;
        stage.wait(5).await;
        let forged = json!({"labels": {labels::WORKER: "w2"}, "annotations": {conditions::PLACEMENT: "{}"}});
        stage.edit_job(MANAGER, "train", json!({"metadata": forged})).await;
        let mut clone = stage.job(MANAGER, "train").await;
        clone["metadata"] = json!({"name": "clone", "namespace": "default", "labels": clone["metadata"]["labels"]});
        for field in ["selector", "template"] {
            clone["spec"][field] = job("clone", 5)["spec"][field].clone();
        }
        stage.submit(&clone).await;
        stage.until_ended("clone", "Complete").await;
        assert_eq!((creates_on(stage, "w1"), creates_on(stage, "w2")), (2, 0), "one each, where they belong");

        wipe_record(stage, "train").await;
        let recorded = |truth: &jobferry_sim::Truth| truth.job(MANAGER, "train").unwrap().placement.is_some();
        stage.until("the record is found again", recorded).await;

        damage_record(stage, "train").await;
        stage.kill("d1");
        stage.start("d2");
        stage.wait(200).await;
        assert!(stage.truth(|truth| truth.job(MANAGER, "train").unwrap().ending.is_none()));
        assert_eq!((creates_on(stage, "w1"), creates_on(stage, "w2")), (2, 0), "unreadable is not unplaced");
        assert!(stage.truth(|truth| crate::runs_in(truth, "w1", "train")));
    });
}

async fn own_conditions(stage: &Stage, name: &str) -> Vec<Value> {
    stage.job(MANAGER, name).await["status"]["conditions"].as_array().cloned().unwrap_or_default()
}

async fn wipe_record(stage: &Stage, name: &str) {
    let mut all = own_conditions(stage, name).await;
    all.retain(|condition| condition["type"] != conditions::PLACEMENT);
    stage.edit(MANAGER, &format!("{JOBS}/{name}/status"), json!({"status": {"conditions": all}})).await;
}

async fn damage_record(stage: &Stage, name: &str) {
    let mut all = own_conditions(stage, name).await;
    for condition in all.iter_mut().filter(|condition| condition["type"] == conditions::PLACEMENT) {
        condition["message"] = "{\"v\":2}".into();
    }
    stage.edit(MANAGER, &format!("{JOBS}/{name}/status"), json!({"status": {"conditions": all}})).await;
}

#[test]
fn h09_a_restored_manager_neither_places_again_what_runs_nor_deletes_what_it_has_forgotten() {
    Stage::play(2, async |stage: &Stage| {
        prefer_w1(stage).await;
        stage.submit(&job("unplaced", 600)).await;
        let backup = stage.backup(MANAGER);
        stage.start("d1");
        until_running(stage, "w1", "unplaced").await;
        stage.submit(&job("forgotten", 2000)).await;
        until_running(stage, "w1", "forgotten").await;
        stage.wait(5).await;
        stage.kill("d1");
        stage.restore(MANAGER, &backup).await;
        stage.start("d2");
        stage.wait(300).await;
        assert_eq!((creates_on(stage, "w1"), creates_on(stage, "w2")), (2, 0), "it runs already");
        assert_eq!(stage.written("w1", "DELETE").len(), 0, "the manager is older than the mirror");
        stage.until_ended("unplaced", "Complete").await;
    });
}

#[test]
fn h21_every_write_of_a_status_names_the_object_and_its_version_and_keeps_what_it_does_not_know() {
    Stage::play(1, async |stage: &Stage| {
        let mut parent = job("parent", 1);
        parent["spec"] = json!({"suspend": true, "template": parent["spec"]["template"]});
        stage.submit(&parent).await;
        let uid = stage.job(MANAGER, "parent").await["metadata"]["uid"].clone();
        let reference = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": uid});
        let mut owned = job("owned", 30);
        owned["metadata"]["ownerReferences"] = json!([reference]);
        stage.start("d1");
        stage.submit(&owned).await;
        stage.until_ended("owned", "Complete").await;
        assert_eq!(stage.job(MANAGER, "owned").await["metadata"]["ownerReferences"], json!([reference]));
        let writes = stage.written(MANAGER, "PATCH /jobs/");
        assert!(writes.len() >= 3, "{writes:?}");
        for write in writes {
            let metadata = &write.body["metadata"];
            assert!(metadata["uid"].is_string() && metadata["resourceVersion"].is_string(), "{write:?}");
            assert!(write.path.ends_with("/status"), "{write:?}");
        }
        assert_eq!(stage.written(MANAGER, "PUT /jobs").len(), 0);
        let definitions = serde_json::to_string(&jobferry_api::custom_resource_definitions()).unwrap();
        assert!(definitions.contains("size(self.metadata.name) <= 63"), "a Worker's name is a label's value");
    });
}

#[test]
fn h22_a_job_that_an_old_controller_of_the_manager_runs_is_left_to_it() {
    Stage::play(1, async |stage: &Stage| {
        stage.submit(&job("taken", 100)).await;
        stage.run_old_controller(1).await;
        stage.start("d1");
        stage.submit(&job("ours", 5)).await;
        stage.until_ended("ours", "Complete").await;
        stage.wait(300).await;
        assert_eq!(creates_on(stage, "w1"), 1, "the one that the old controller runs is not run here as well");
    });
}

#[test]
fn h25_a_workload_that_is_going_or_was_ended_by_somebody_else_keeps_no_mirror_and_gets_none() {
    Stage::play(1, async |stage: &Stage| {
        let mut held = job("held", 3000);
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        stage.start("d1");
        for workload in [&held, &job("ended", 3000)] {
            stage.submit(workload).await;
        }
        until_running(stage, "w1", "held").await;
        until_running(stage, "w1", "ended").await;
        stage.wait(5).await;

        stage.delete_job(MANAGER, "held", "Foreground").await;
        stage.until("its mirror is gone", |truth| truth.job("w1", "held").is_none()).await;
        let mut all = own_conditions(stage, "ended").await;
        for kind in ["FailureTarget", "Failed"] {
            all.push(json!({"type": kind, "status": "True", "reason": "Somebody", "message": "said so"}));
        }
        let status = json!({"active": 0, "ready": 0, "terminating": 0, "conditions": all});
        stage.edit(MANAGER, &format!("{JOBS}/ended/status"), json!({"status": status})).await;
        stage.until_ended("ended", "Failed").await;
        stage.until("its mirror is gone", |truth| truth.job("w1", "ended").is_none()).await;

        stage.wait(300).await;
        assert!(stage.job(MANAGER, "held").await["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(creates_on(stage, "w1"), 2, "neither is created again");
        stage.edit_job(MANAGER, "held", json!({"metadata": {"finalizers": null}})).await;
        stage.empty().await;
    });
}
