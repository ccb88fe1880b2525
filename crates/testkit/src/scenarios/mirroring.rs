//! One copy, on one worker, made of the user's Job and nothing else; and what people see of it while it runs.

use jobferry_api::{annotations, conditions};
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use super::dispatch::{Outcome, placed};
use super::{JobManifest, has_active, is_complete, is_failed, is_settled, is_told, message_of, worker_of};
use crate::fleet::Fleet;

/// I01, E06. Where MultiKueue races all workers and removes the mirror at the end, one worker is asked, and the finished
/// mirror stays with its logs.
pub async fn i01_one_worker_gets_the_job_and_keeps_its_finished_mirror(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("i01").await?;
    namespace.manager().create(JobManifest::delegated("train").manifest()).await?;
    namespace.manager().until("train", "complete", is_complete).await?;
    let (_, worker) = placed(&namespace, "train").await?;
    assert!(is_complete(&worker.get("train").await?));
    assert_eq!(namespace.mirrors().await?, 1, "nobody else was bothered");
    assert_eq!(namespace.pods_on_workers().await?, 1);
    Ok(())
}

/// I02. MultiKueue retries a mirror that the worker changed; here it is tolerated, since what runs must not run twice.
pub async fn i02_a_mirror_that_somebody_changed_goes_on_and_its_end_counts(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("i02").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").spec("completions", json!(3)).runs_for("1").manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, "train").await?;
    let before = worker.get("train").await?;
    worker.change("train", &json!({"metadata": {"labels": {"by": "webhook"}}, "spec": {"parallelism": 2}})).await?;
    let job = manager.until("train", "complete", is_complete).await?;
    let mirror = worker.get("train").await?;
    assert_eq!(mirror.metadata.uid, before.metadata.uid, "it was not made anew");
    assert_eq!(mirror.spec.as_ref().and_then(|spec| spec.parallelism), Some(2), "the change was not fought");
    assert_eq!(job.spec.as_ref().and_then(|spec| spec.parallelism), Some(1), "the user's wish is the user's");
    assert_eq!(job.status.and_then(|status| status.succeeded), Some(3));
    Ok(())
}

/// I03: active and ready pods and the start time are the mirror's while it runs; counters and times at its end.
pub async fn i03_progress_is_seen_while_the_job_runs(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("i03").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").runs_for("2").manifest()).await?;
    let running = |job: &Job| {
        let status = job.status.clone().unwrap_or_default();
        (status.active, status.ready) == (Some(1), Some(1)) && status.start_time.is_some()
    };
    let job = manager.until("train", "active, ready and started", running).await?;
    let (_, worker) = placed(&namespace, "train").await?;
    let started = |job: &Job| job.status.as_ref().and_then(|status| status.start_time.clone());
    assert_eq!(started(&job), started(&worker.get("train").await?));
    let job = manager.until("train", "complete", is_complete).await?;
    let status = job.status.unwrap_or_default();
    assert_eq!((status.succeeded, status.active.unwrap_or(0)), (Some(1), 0));
    assert!(status.completion_time.is_some());
    Ok(())
}

/// I14: where MultiKueue nominates a subset, users narrow; a worker that is not named gets nothing.
pub async fn i14_only_the_named_worker_gets_a_copy(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("i14").await?;
    let [first, second] = fleet.two_workers();
    for job in ["a", "b", "c"] {
        namespace.manager().create(JobManifest::delegated(job).only_on(second).manifest()).await?;
    }
    for job in ["a", "b", "c"] {
        namespace.manager().until(job, "complete", is_complete).await?;
    }
    assert_eq!(namespace.worker(first).jobs().await?, []);
    assert_eq!(namespace.worker(second).jobs().await?.len(), 3);
    Ok(())
}

/// I15: an external dispatcher is whoever writes the annotation; the Job waits for it.
pub async fn i15_nothing_is_created_until_somebody_names_a_worker(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("i15").await?;
    let manager = namespace.manager();
    let [_, second] = fleet.two_workers();
    manager.create(JobManifest::delegated("train").only_on("nobody-yet").manifest()).await?;
    manager.until("train", "waiting", is_told(conditions::REASON_NO_WORKER_FITS)).await?;
    assert_eq!(namespace.mirrors().await?, 0);
    manager.change("train", &json!({"metadata": {"annotations": {annotations::WORKERS: second}}})).await?;
    let job = manager.until("train", "complete", is_complete).await?;
    assert_eq!(worker_of(&job), Some(second));
    Ok(())
}

/// I17, H2: a Job whose record is gone is found again by its mirror, and not started a second time.
pub async fn i17_a_wiped_record_is_recovered_from_the_mirror(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("i17").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").runs_for_ever().manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, "train").await?;
    let mirror = worker.get("train").await?;
    manager.change_status("train", &json!({"conditions": null})).await?;
    let recorded = |job: &Job| message_of(job, conditions::PLACEMENT).contains("\"epoch\":1");
    manager.until("train", "recorded again", recorded).await?;
    assert_eq!(worker.get("train").await?.metadata.uid, mirror.metadata.uid);
    assert_eq!((namespace.mirrors().await?, namespace.pods_on_workers().await?), (1, 1));
    Ok(())
}

/// I19: role sharing on a worker; its own Job is the same object afterwards, to the last field.
pub async fn i19_a_worker_runs_jobs_of_its_own_beside_mirrors(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("i19").await?;
    let [first, _] = fleet.two_workers();
    let worker = namespace.worker(first);
    worker.create(JobManifest::new("local").runs_for_ever().manifest()).await?;
    let before = worker.until("local", "settled", is_settled).await?;
    namespace.manager().create(JobManifest::delegated("ferried").only_on(first).manifest()).await?;
    namespace.manager().until("ferried", "complete", is_complete).await?;
    namespace.manager().delete("ferried").await?;
    worker.until_gone("ferried").await?;
    assert_eq!(worker.get("local").await?, before, "nobody touched the worker's own Job");
    Ok(())
}

/// I25: nothing of the source's metadata but labels and annotations. An owner on the manager means nothing on the worker;
/// its garbage collector would delete the mirror for having a missing one.
pub async fn i25_a_mirror_has_neither_owners_nor_finalizers(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("i25").await?;
    let manager = namespace.manager();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
    manager.create_other("v1", "configmaps", &map).await?;
    let uid = manager.get_other("v1", "configmaps", "owner").await?["metadata"]["uid"].clone();
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
    let manifest = JobManifest::delegated("train")
        .runs_for_ever()
        .label("team", "ml")
        .metadata("ownerReferences", owner)
        .metadata("finalizers", json!(["example.com/hold"]));
    manager.create(manifest.manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, "train").await?;
    let mirror = worker.get("train").await?.metadata;
    assert_eq!(mirror.owner_references.unwrap_or_default(), []);
    assert!(!mirror.finalizers.unwrap_or_default().iter().any(|finalizer| finalizer.contains("example.com")));
    assert_eq!(mirror.labels.unwrap_or_default().get("team").map(String::as_str), Some("ml"));
    manager.change("train", &json!({"metadata": {"finalizers": null}})).await
}

/// I40, I54, E33: an edit reaches the running mirror, which is not made anew.
pub async fn i40_an_edit_reaches_the_mirror_in_place(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("i40").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").runs_for_ever().label("priority", "low").manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, "train").await?;
    let before = worker.get("train").await?;
    manager.change("train", &json!({"metadata": {"labels": {"priority": "high"}}})).await?;
    let high = |job: &Job| {
        job.metadata.labels.as_ref().is_some_and(|labels| labels.get("priority").is_some_and(|p| p == "high"))
    };
    let after = worker.until("train", "of high priority", high).await?;
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(worker.pods().await?, 1);
    Ok(())
}

/// I44: an elastic Job; each change of parallelism shows in its active pods, all completions are counted.
pub async fn i44_a_job_is_scaled_up_and_down_and_finishes(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("i44").await?;
    let manager = namespace.manager();
    let manifest = JobManifest::delegated("elastic").spec("completions", json!(6)).spec("parallelism", json!(1));
    manager.create(manifest.runs_for("3").manifest()).await?;
    for parallelism in [1, 3, 2] {
        manager.change("elastic", &json!({"spec": {"parallelism": parallelism}})).await?;
        manager.until("elastic", "as many pods as wanted", has_active(parallelism)).await?;
    }
    manager.change("elastic", &json!({"spec": {"parallelism": 6}})).await?;
    let job = manager.until("elastic", "complete", is_complete).await?;
    assert_eq!(job.status.and_then(|status| status.succeeded), Some(6));
    Ok(())
}

/// E12: what users write on a Job stays on its mirror when the worker starts a pod anew.
pub async fn e12_labels_stay_on_the_mirror_over_a_pod_failure(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("e12").await?;
    let manager = namespace.manager();
    let manifest = JobManifest::delegated("train").label("priority", "high").exits(1).spec("backoffLimit", json!(6));
    manager.create(manifest.manifest()).await?;
    let failed = |job: &Job| job.status.as_ref().and_then(|status| status.failed).unwrap_or(0) >= 1;
    manager.until("train", "a pod has failed", failed).await?;
    let (_, worker) = placed(&namespace, "train").await?;
    let labels = worker.get("train").await?.metadata.labels.unwrap_or_default();
    assert_eq!(labels.get("priority").map(String::as_str), Some("high"));
    Ok(())
}

/// I50: what the worker's controllers complain about on the mirror is said on the user's Job too.
pub async fn i50_a_warning_about_the_mirror_is_repeated_on_the_users_job(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("i50").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").runs_for_ever().manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    let (job, worker) = placed(&namespace, "train").await?;
    let mirror = worker.get("train").await?.metadata;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "train.complaint"},
        "involvedObject": {
            "apiVersion": "batch/v1", "kind": "Job", "namespace": "i50", "name": "train", "uid": mirror.uid,
        },
        "type": "Warning", "reason": "FailedCreate", "message": "serviceaccount \"trainer\" not found",
        "source": {"component": "job-controller"},
    });
    worker.create_other("v1", "events", &event).await?;
    let repeated = |event: &Value| {
        event["reason"] == "FailedCreate"
            && event["involvedObject"]["uid"].as_str() == job.metadata.uid.as_deref()
            && event["message"].as_str().is_some_and(|message| message.contains("trainer"))
    };
    manager.until_any("v1", "events", "the worker's warning", repeated).await
}

/// KEP: simultaneous admission by two workers cannot happen here: one is chosen before anything is created.
pub async fn kep_many_jobs_at_once_run_on_one_worker_each(fleet: &Fleet) -> Outcome {
    const JOBS: usize = 24;
    let namespace = fleet.namespace("kep-many").await?;
    let manager = namespace.manager();
    for number in 0..JOBS {
        manager.create(JobManifest::delegated(&format!("job-{number}")).manifest()).await?;
    }
    for number in 0..JOBS {
        manager.until(&format!("job-{number}"), "complete", is_complete).await?;
    }
    assert_eq!((namespace.mirrors().await?, namespace.pods_on_workers().await?), (JOBS, JOBS));
    for worker in namespace.workers() {
        assert!(!worker.jobs().await?.is_empty(), "the work is spread");
    }
    Ok(())
}

/// KEP: status changes often. Progress is gathered, and the end is exact.
pub async fn kep_a_job_whose_status_changes_often_ends_with_exact_counts(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("kep-often").await?;
    let manager = namespace.manager();
    let manifest = JobManifest::delegated("sweep")
        .spec("completionMode", json!("Indexed"))
        .spec("completions", json!(30))
        .spec("parallelism", json!(6))
        .spec("backoffLimitPerIndex", json!(0))
        .failing_indexes("7,8,20");
    manager.create(manifest.manifest()).await?;
    let job = manager.until("sweep", "failed", is_failed).await?;
    let (_, worker) = placed(&namespace, "sweep").await?;
    let mirror = worker.get("sweep").await?;
    let counts = |job: &Job| {
        let status = job.status.clone().unwrap_or_default();
        (status.succeeded, status.failed, status.completed_indexes, status.failed_indexes)
    };
    assert_eq!(counts(&job), counts(&mirror));
    assert_eq!(counts(&job), (Some(27), Some(3), Some("0-6,9-19,21-29".into()), Some("7,8,20".into())));
    Ok(())
}
