//! What users do to a running Job reaches its mirror; what workers do to a mirror is shown to the user.

use jobferry_api::conditions;
use k8s_openapi::api::batch::v1::Job;
use serde_json::json;

use super::dispatch::{Outcome, placed};
use super::{JobManifest, condition, has_active, is_complete, is_suspended, is_told};
use crate::fleet::Fleet;

fn spec_suspend(job: &Job) -> Option<bool> {
    job.spec.as_ref().and_then(|spec| spec.suspend)
}

/// U21: suspending stops the pods, resuming starts them on the same worker.
pub async fn a_running_job_is_suspended_and_resumed_on_its_worker(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("pausing").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("long").runs_for_ever().manifest()).await?;
    manager.until("long", "active", has_active(1)).await?;
    manager.change("long", &json!({"spec": {"suspend": true}})).await?;
    let job = manager.until("long", "suspended, no pod left", |job| is_suspended(job) && has_active(0)(job)).await?;
    let (_, worker) = placed(&namespace, "long").await?;
    assert_eq!(spec_suspend(&worker.get("long").await?), Some(true));
    let before = job.metadata.labels.clone();
    manager.change("long", &json!({"spec": {"suspend": false}})).await?;
    let job = manager.until("long", "active again", |job| !is_suspended(job) && has_active(1)(job)).await?;
    assert_eq!(job.metadata.labels, before, "it stays on its worker");
    Ok(())
}

/// I54: every field that may change, and labels and annotations.
pub async fn edits_of_a_running_job_reach_its_mirror(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("editing").await?;
    let manager = namespace.manager();
    let manifest = JobManifest::delegated("elastic")
        .spec("completionMode", json!("Indexed"))
        .spec("completions", json!(2))
        .spec("parallelism", json!(2))
        .spec("backoffLimitPerIndex", json!(1))
        .spec("maxFailedIndexes", json!(1))
        .runs_for_ever();
    manager.create(manifest.manifest()).await?;
    manager.until("elastic", "two pods", has_active(2)).await?;
    let (_, worker) = placed(&namespace, "elastic").await?;
    let edit = json!({
        "metadata": {"labels": {"stage": "late"}, "annotations": {"note": "bigger"}},
        "spec": {"completions": 3, "parallelism": 3, "backoffLimit": 2, "activeDeadlineSeconds": 90_000,
                 "maxFailedIndexes": 2, "podReplacementPolicy": "Failed"},
    });
    manager.change("elastic", &edit).await?;
    manager.until("elastic", "three pods", has_active(3)).await?;
    let mirror = worker.get("elastic").await?;
    let spec = mirror.spec.unwrap_or_default();
    assert_eq!((spec.completions, spec.parallelism), (Some(3), Some(3)));
    assert_eq!((spec.backoff_limit, spec.active_deadline_seconds), (Some(2), Some(90_000)));
    assert_eq!((spec.max_failed_indexes, spec.pod_replacement_policy.as_deref()), (Some(2), Some("Failed")));
    let label = mirror.metadata.labels.unwrap_or_default().get("stage").cloned();
    let note = mirror.metadata.annotations.unwrap_or_default().get("note").cloned();
    assert_eq!((label.as_deref(), note.as_deref()), (Some("late"), Some("bigger")));
    Ok(())
}

/// I09, E09: where MultiKueue goes elsewhere when a worker's Kueue suspends a mirror, it is shown and not fought.
pub async fn what_the_worker_does_to_a_mirror_is_reported_not_fought(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("queueing").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("queued").runs_for_ever().manifest()).await?;
    manager.until("queued", "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, "queued").await?;
    worker.change("queued", &json!({"spec": {"suspend": true}})).await?;
    let job = manager.until("queued", "shown as suspended", |job| is_suspended(job) && has_active(0)(job)).await?;
    assert_eq!(spec_suspend(&job), Some(false), "the user's own wish is unchanged");
    // An edit of something else leaves the worker's suspension alone.
    manager.change("queued", &json!({"metadata": {"labels": {"touched": "yes"}}})).await?;
    let touched = |job: &Job| job.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("touched"));
    let mirror = worker.until("queued", "label forwarded", touched).await?;
    assert_eq!(spec_suspend(&mirror), Some(true));
    Ok(())
}

/// An edit that is legal here may be illegal there.
pub async fn an_edit_that_the_worker_refuses_is_told(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("refusing").await?;
    let manager = namespace.manager();
    let manifest = JobManifest::delegated("steady")
        .spec("completionMode", json!("Indexed"))
        .spec("completions", json!(2))
        .spec("parallelism", json!(1))
        .runs_for_ever();
    manager.create(manifest.manifest()).await?;
    manager.until("steady", "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, "steady").await?;
    // Somebody scales the mirror; the user's later edit, legal on the manager, is not legal on top of that.
    worker.change("steady", &json!({"spec": {"parallelism": 2}})).await?;
    manager.change("steady", &json!({"spec": {"completions": 1}})).await?;
    let refused = is_told(conditions::REASON_EDIT_REFUSED);
    let job = manager.until("steady", "told that the edit was refused", refused).await?;
    let message =
        condition(&job, conditions::PLACED).and_then(|condition| condition.message.clone()).unwrap_or_default();
    assert!(message.contains("completions"), "{message}");
    assert!(!is_complete(&job));
    // What comes after it is not refused with it.
    manager.change("steady", &json!({"spec": {"suspend": true}})).await?;
    worker.until("steady", "stopped", |mirror| is_suspended(mirror) && has_active(0)(mirror)).await?;
    Ok(())
}

/// An Indexed Job is widened in two steps, because its indexes change in tandem with its pods only. What was changed while
/// nobody looked is not sent as one step.
pub async fn edits_that_are_legal_one_after_the_other_reach_the_mirror_so(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("stepping").await?;
    let manager = namespace.manager();
    let manifest = JobManifest::delegated("wide")
        .spec("completionMode", json!("Indexed"))
        .spec("completions", json!(2))
        .spec("parallelism", json!(2))
        .runs_for_ever();
    manager.create(manifest.manifest()).await?;
    manager.until("wide", "two pods", has_active(2)).await?;
    let (_, worker) = placed(&namespace, "wide").await?;
    fleet.stop_dispatchers().await;
    manager.change("wide", &json!({"spec": {"completions": 4, "parallelism": 4}})).await?;
    manager.change("wide", &json!({"spec": {"parallelism": 1}})).await?;
    fleet.start_dispatcher().await;
    let is_done = |mirror: &Job| {
        let spec = mirror.spec.as_ref();
        spec.is_some_and(|spec| (spec.completions, spec.parallelism) == (Some(4), Some(1)))
    };
    worker.until("wide", "wider, with one pod", is_done).await?;
    manager.until("wide", "one pod", has_active(1)).await?;
    Ok(())
}

/// While it is suspended a Job may be told where its pods go: by a queue, say, which resumes it by the same write.
pub async fn the_template_of_a_suspended_job_is_edited_on_its_worker_too(fleet: &Fleet) -> Outcome {
    let [first, second] = fleet.two_workers();
    let namespace = fleet.namespace_on("template", &[second]).await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").only_on(first).manifest()).await?;
    // It is placed, and has no mirror: what is suspended now has never run, whatever the worker's version makes of that.
    manager.until("train", "refused", is_told(conditions::REASON_REFUSED)).await?;
    manager.change("train", &json!({"spec": {"suspend": true}})).await?;
    manager.until("train", "suspended, though nobody has it", is_suspended).await?;
    fleet.add_namespace(namespace.name(), first).await?;
    manager.until("train", "placed", is_told(conditions::REASON_PLACED)).await?;
    let (_, worker) = placed(&namespace, "train").await?;
    worker.until("train", "mirrored as suspended", |mirror| spec_suspend(mirror) == Some(true)).await?;
    let template = json!({
        "metadata": {"labels": {"stage": "two"}},
        "spec": {"tolerations": [{"key": "batch", "operator": "Exists"}]},
    });
    manager.change("train", &json!({"spec": {"suspend": false, "template": template}})).await?;
    manager.until("train", "complete", is_complete).await?;
    let template = worker.get("train").await?.spec.unwrap_or_default().template;
    let label = template.metadata.and_then(|metadata| metadata.labels?.get("stage").cloned());
    assert_eq!(label.as_deref(), Some("two"));
    assert_eq!(template.spec.and_then(|spec| Some(spec.tolerations?.len())), Some(1));
    Ok(())
}
