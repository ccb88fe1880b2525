//! A Job goes to a worker and its result comes back; all others stay where they are.

use jobferry_api::{annotations, conditions, labels};
use k8s_openapi::api::batch::v1::Job;
use serde_json::json;

use super::{JobManifest, condition, has_active, is_complete, is_failed, is_suspended, is_told, worker_of};
use crate::fleet::{Fleet, Namespace, Place, ScenarioError};

pub(super) type Outcome = Result<(), ScenarioError>;

pub(super) async fn placed(namespace: &Namespace<'_>, name: &str) -> Result<(Job, Place), ScenarioError> {
    let job = namespace.manager().until(name, "placed", |job| worker_of(job).is_some()).await?;
    let worker = namespace.worker(worker_of(&job).unwrap_or_default());
    Ok((job, worker))
}

/// Type, status, reason and message of the conditions that Kubernetes itself knows, in a fixed order.
fn outcome(job: &Job) -> Vec<[Option<String>; 4]> {
    let status = job.status.as_ref();
    let built_in = status.and_then(|s| s.conditions.as_ref()).into_iter().flatten().filter(|c| !c.type_.contains('/'));
    let mut conditions: Vec<_> = built_in
        .map(|c| [Some(c.type_.clone()), Some(c.status.clone()), c.reason.clone(), c.message.clone()])
        .collect();
    conditions.sort();
    conditions
}

/// E06: conditions and counts are the mirror's, no pod runs on the manager, people see where it is.
pub async fn a_delegated_job_runs_on_a_worker_and_is_complete_on_the_manager(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("main-path").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").spec("completions", json!(2)).manifest()).await?;
    let (_, worker) = placed(&namespace, "train").await?;
    let job = manager.until("train", "complete", is_complete).await?;

    let mirror = worker.get("train").await?;
    assert_eq!(outcome(&job), outcome(&mirror), "the user's Job has the mirror's conditions");
    let counts = |job: &Job| job.status.as_ref().map(|s| (s.succeeded, s.failed, s.active));
    assert_eq!(counts(&job), counts(&mirror));
    assert!(mirror.spec.as_ref().is_some_and(|spec| spec.managed_by.is_none()), "the worker runs it by itself");
    assert_eq!(manager.pods().await?, 0, "no pod of a dispatched Job runs on the manager");
    assert_eq!(worker.pods().await?, 2);
    let placed = condition(&job, conditions::PLACED).map(|condition| condition.status.as_str());
    assert_eq!(placed, Some("True"));
    Ok(())
}

/// KEP, a Job fails: same conditions as the mirror's, BackoffLimitExceeded, one failed pod.
pub async fn a_failing_job_fails_on_the_manager_for_the_reason_that_the_worker_gave(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("failing").await?;
    let manifest = JobManifest::delegated("train").exits(3).spec("backoffLimit", json!(0));
    namespace.manager().create(manifest.manifest()).await?;
    let job = namespace.manager().until("train", "failed", is_failed).await?;
    let (_, worker) = placed(&namespace, "train").await?;
    assert_eq!(outcome(&job), outcome(&worker.get("train").await?));
    let reason = condition(&job, "Failed").and_then(|condition| condition.reason.as_deref());
    assert_eq!(reason, Some("BackoffLimitExceeded"));
    assert_eq!(job.status.and_then(|status| status.failed), Some(1));
    Ok(())
}

/// Index strings come back as the worker wrote them.
pub async fn an_indexed_job_shows_its_indexes_on_the_manager(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("indexed").await?;
    let manifest = JobManifest::delegated("sweep")
        .spec("completionMode", json!("Indexed"))
        .spec("completions", json!(4))
        .spec("parallelism", json!(4))
        .spec("backoffLimitPerIndex", json!(0))
        .failing_indexes("2");
    namespace.manager().create(manifest.manifest()).await?;
    let job = namespace.manager().until("sweep", "failed", is_failed).await?;
    let status = job.status.clone().unwrap_or_default();
    assert_eq!(status.completed_indexes.as_deref(), Some("0,1,3"));
    assert_eq!(status.failed_indexes.as_deref(), Some("2"));
    let reason = condition(&job, "Failed").and_then(|condition| condition.reason.as_deref());
    assert_eq!(reason, Some("FailedIndexes"));
    Ok(())
}

/// I20, E13: Jobs without the field, or with the reserved value, run on the manager; nothing goes to workers.
pub async fn jobs_that_are_not_delegated_run_on_the_manager(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("hybrid").await?;
    let manager = namespace.manager();
    let reserved = JobManifest::new("reserved").spec("managedBy", json!("kubernetes.io/job-controller"));
    for manifest in [JobManifest::new("plain"), reserved] {
        manager.create(manifest.manifest()).await?;
    }
    for name in ["plain", "reserved"] {
        let job = manager.until(name, "complete", is_complete).await?;
        assert_eq!(worker_of(&job), None);
    }
    assert_eq!(manager.pods().await?, 2);
    for worker in namespace.workers() {
        assert_eq!(worker.pods().await?, 0);
    }
    Ok(())
}

/// I31, I36, U10: a Job of another controller is the same object afterwards, to the last field.
pub async fn a_job_of_another_controller_is_not_touched(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("others").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::new("theirs").spec("managedBy", json!("example.com/other")).manifest()).await?;
    let before = manager.get("theirs").await?;
    // Once a Job that came later has gone its whole way, the dispatcher has seen the earlier one too.
    manager.create(JobManifest::delegated("ours").manifest()).await?;
    manager.until("ours", "complete", is_complete).await?;
    assert_eq!(manager.get("theirs").await?, before);
    Ok(())
}

/// I12: deleting a running Job removes its mirror.
pub async fn deleting_the_job_removes_its_mirror(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("deleting").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("endless").runs_for_ever().manifest()).await?;
    manager.until("endless", "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, "endless").await?;
    manager.delete("endless").await?;
    worker.until_gone("endless").await
}

/// A Job that its user holds back takes no place on a worker.
pub async fn a_suspended_job_waits_until_it_is_resumed(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("suspended").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("later").spec("suspend", json!(true)).manifest()).await?;
    let job = manager.until("later", "shown as suspended", is_suspended).await?;
    assert_eq!(worker_of(&job), None);
    manager.change("later", &json!({"spec": {"suspend": false}})).await?;
    let job = manager.until("later", "complete", is_complete).await?;
    assert!(worker_of(&job).is_some());
    let resumed = condition(&job, "Suspended").map(|condition| condition.status.as_str());
    assert_eq!(resumed, Some("False"));
    Ok(())
}

/// i14540: users narrow, by name and by label.
pub async fn a_job_goes_where_its_annotation_says(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("narrowed").await?;
    for name in fleet.workers.keys() {
        let by_name = JobManifest::delegated(&format!("by-name-{name}")).annotation(annotations::WORKERS, name);
        let selector = format!("name={name}");
        let by_label =
            JobManifest::delegated(&format!("by-label-{name}")).annotation(annotations::WORKER_SELECTOR, &selector);
        for manifest in [by_name, by_label] {
            namespace.manager().create(manifest.manifest()).await?;
        }
    }
    for name in fleet.workers.keys() {
        for job in [format!("by-name-{name}"), format!("by-label-{name}")] {
            let job = namespace.manager().until(&job, "complete", is_complete).await?;
            assert_eq!(worker_of(&job), Some(name.as_str()));
        }
    }
    Ok(())
}

/// i10189: the condition counts the reasons for waiting.
pub async fn a_job_that_fits_nowhere_says_so(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("nowhere").await?;
    let manifest = JobManifest::delegated("lost").annotation(annotations::WORKERS, "atlantis");
    namespace.manager().create(manifest.manifest()).await?;
    let told = |job: &Job| condition(job, conditions::PLACED).is_some();
    let job = namespace.manager().until("lost", "told", told).await?;
    let placed = condition(&job, conditions::PLACED).cloned().unwrap_or_default();
    assert_eq!((placed.status.as_str(), placed.reason.as_deref()), ("False", Some("NoWorkerFits")));
    let message = placed.message.unwrap_or_default();
    assert!(message.contains("not among the named workers"), "{message}");
    Ok(())
}

/// What is not ours is never changed, even where it is in our way.
pub async fn a_name_taken_on_the_worker_is_reported_and_left_alone(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("taken").await?;
    let [name, _] = fleet.two_workers();
    let worker = namespace.worker(name);
    worker.create(JobManifest::new("popular").runs_for_ever().manifest()).await?;
    let theirs = worker.until("popular", "active", has_active(1)).await?;
    let manifest = JobManifest::delegated("popular").annotation(annotations::WORKERS, name);
    namespace.manager().create(manifest.manifest()).await?;
    let job = namespace.manager().until("popular", "refused", is_told(conditions::REASON_REFUSED)).await?;
    let message =
        condition(&job, conditions::PLACED).and_then(|condition| condition.message.clone()).unwrap_or_default();
    assert!(message.contains("is not ours"), "{message}");
    assert_eq!(worker.get("popular").await?.metadata.uid, theirs.metadata.uid);
    Ok(())
}

/// A refusal is the one thing that moves a Job: never before the first worker is proved to have nothing of it.
pub async fn a_job_that_one_worker_refuses_goes_to_another(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("elsewhere").await?;
    let [first, second] = fleet.two_workers();
    let worker = namespace.worker(first);
    worker.create(JobManifest::new("popular").runs_for_ever().manifest()).await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("popular").annotation(annotations::WORKERS, first).manifest()).await?;
    manager.until("popular", "refused", is_told(conditions::REASON_REFUSED)).await?;
    let both = format!("{first},{second}");
    manager.change("popular", &json!({"metadata": {"annotations": {annotations::WORKERS: both}}})).await?;
    manager.until("popular", "leaving", is_told(conditions::REASON_MOVING)).await?;
    let job = manager.until("popular", "complete", is_complete).await?;
    assert_eq!(worker_of(&job), Some(second));
    let record = condition(&job, conditions::PLACEMENT).and_then(|condition| condition.message.clone());
    assert!(record.as_ref().is_some_and(|record| record.contains("\"epoch\":2")), "{record:?}");
    Ok(())
}

/// Deleted while it runs and submitted again at once: the second one is a new Job and runs.
pub async fn a_job_deleted_and_submitted_again_runs_again(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("again").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").runs_for_ever().manifest()).await?;
    let first = manager.until("train", "active", has_active(1)).await?;
    manager.delete("train").await?;
    manager.until_gone("train").await?;
    manager.create(JobManifest::delegated("train").manifest()).await?;
    let second = manager.until("train", "complete", is_complete).await?;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    Ok(())
}

/// What may have finished unseen must not run again by itself.
pub async fn a_mirror_deleted_by_somebody_fails_the_job(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("vandals").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("victim").runs_for_ever().manifest()).await?;
    manager.until("victim", "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, "victim").await?;
    worker.delete("victim").await?;
    let job = manager.until("victim", "failed", is_failed).await?;
    let reason = condition(&job, "Failed").and_then(|condition| condition.reason.as_deref());
    assert_eq!(reason, Some(conditions::REASON_MIRROR_DELETED));
    Ok(())
}

/// Without our marks a mirror would be out of our sight, and its result lost.
pub async fn marks_taken_off_a_mirror_are_put_back(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("marks").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("branded").runs_for_ever().manifest()).await?;
    manager.until("branded", "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, "branded").await?;
    worker.change("branded", &json!({"metadata": {"labels": {labels::ORIGIN: null}}})).await?;
    let marked = |job: &Job| job.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(labels::ORIGIN));
    worker.until("branded", "marked again", marked).await?;
    worker.change("branded", &json!({"spec": {"suspend": true}})).await?;
    manager.until("branded", "live again", is_suspended).await?;
    Ok(())
}
