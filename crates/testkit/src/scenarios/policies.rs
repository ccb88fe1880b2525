//! Who may use which workers, and how.

use jobferry_api::{conditions, labels};
use serde_json::json;

use super::dispatch::{Outcome, placed};
use super::{JobManifest, has_active, is_complete, is_told, message_of, worker_of};
use crate::fleet::Fleet;

/// A namespace follows the policy that it names; Jobs may narrow further, never widen.
pub async fn a_policy_narrows_the_workers_of_its_namespaces(fleet: &Fleet) -> Outcome {
    let [first, second] = fleet.two_workers();
    let namespace = fleet.namespace("policy-narrow").await?;
    fleet.create_policy("narrow", &json!({"workers": {"matchLabels": {"name": second}}})).await?;
    namespace.label(labels::POLICY, "narrow").await?;
    let manager = namespace.manager();
    for job in ["a", "b", "c"] {
        manager.create(JobManifest::delegated(job).manifest()).await?;
    }
    for job in ["a", "b", "c"] {
        let job = manager.until(job, "complete", is_complete).await?;
        assert_eq!(worker_of(&job), Some(second));
    }
    manager.create(JobManifest::delegated("outside").only_on(first).manifest()).await?;
    let job = manager.until("outside", "waiting", is_told(conditions::REASON_NO_WORKER_FITS)).await?;
    let message = message_of(&job, conditions::PLACED);
    assert!(message.contains("not in its policy"), "{message}");
    fleet.delete_policy("narrow").await
}

/// E34, i9270: cheaper or closer first.
pub async fn e34_a_policy_prefers_a_worker(fleet: &Fleet) -> Outcome {
    let [_, second] = fleet.two_workers();
    let namespace = fleet.namespace("policy-prefer").await?;
    let prefer = json!([{"workers": {"matchLabels": {"name": second}}, "weight": 10}]);
    fleet.create_policy("prefer", &json!({ "prefer": prefer })).await?;
    let manager = namespace.manager();
    for job in ["a", "b", "c", "d"] {
        manager.create(JobManifest::delegated(job).label(labels::POLICY, "prefer").manifest()).await?;
    }
    for job in ["a", "b", "c", "d"] {
        let job = manager.until(job, "complete", is_complete).await?;
        assert_eq!(worker_of(&job), Some(second));
    }
    fleet.delete_policy("prefer").await
}

/// Nothing is placed by guess.
pub async fn a_policy_that_does_not_exist_is_told_and_waited_for(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("policy-missing").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").label(labels::POLICY, "missing").manifest()).await?;
    let job = manager.until("train", "waiting", is_told(conditions::REASON_NO_POLICY)).await?;
    assert_eq!(message_of(&job, conditions::PLACED), "DispatchPolicy missing does not exist");
    fleet.create_policy("missing", &json!({})).await?;
    manager.until("train", "complete", is_complete).await?;
    fleet.delete_policy("missing").await
}

/// Users cannot help themselves to workers of others.
pub async fn a_policy_that_is_not_open_to_the_namespace_is_told(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("policy-closed").await?;
    let manager = namespace.manager();
    fleet.create_policy("ml-only", &json!({"namespaces": {"matchLabels": {"team": "ml"}}})).await?;
    manager.create(JobManifest::delegated("train").label(labels::POLICY, "ml-only").manifest()).await?;
    let job = manager.until("train", "waiting", is_told(conditions::REASON_NO_POLICY)).await?;
    let message = message_of(&job, conditions::PLACED);
    assert_eq!(message, "DispatchPolicy ml-only is not open to namespace policy-closed");
    assert_eq!(namespace.mirrors().await?, 0);
    namespace.label("team", "ml").await?;
    manager.until("train", "complete", is_complete).await?;
    fleet.delete_policy("ml-only").await
}

/// DESIGN: policy edits never move running work.
pub async fn an_edited_policy_leaves_running_work_where_it_is(fleet: &Fleet) -> Outcome {
    let [first, second] = fleet.two_workers();
    let namespace = fleet.namespace("policy-edit").await?;
    let manager = namespace.manager();
    fleet.create_policy("edited", &json!({"workers": {"matchLabels": {"name": first}}})).await?;
    let manifest = |name: &str| JobManifest::delegated(name).label(labels::POLICY, "edited");
    manager.create(manifest("before").runs_for_ever().manifest()).await?;
    manager.until("before", "active", has_active(1)).await?;
    fleet.change_policy("edited", &json!({"spec": {"workers": {"matchLabels": {"name": second}}}})).await?;
    // The edit and a new Job reach the dispatcher by different watches: whatever comes later goes by the edit.
    let mut last = Some(first.to_owned());
    for attempt in 0..10 {
        let name = format!("after-{attempt}");
        manager.create(manifest(&name).manifest()).await?;
        last = worker_of(&manager.until(&name, "complete", is_complete).await?).map(str::to_owned);
        if last.as_deref() == Some(second) {
            break;
        }
    }
    assert_eq!(last.as_deref(), Some(second));
    let before = manager.get("before").await?;
    assert_eq!(worker_of(&before), Some(first));
    assert!(has_active(1)(&before));
    fleet.delete_policy("edited").await
}

/// U27, i13847: finished mirrors go when the policy says, not at once; the user's Job stays as it is.
pub async fn u27_a_finished_mirror_goes_when_the_policy_says(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("policy-keep").await?;
    let manager = namespace.manager();
    fleet.create_policy("keep", &json!({"keepFinished": "2s"})).await?;
    manager.create(JobManifest::delegated("train").label(labels::POLICY, "keep").manifest()).await?;
    let job = manager.until("train", "complete", is_complete).await?;
    let (_, worker) = placed(&namespace, "train").await?;
    worker.until_gone("train").await?;
    assert_eq!(manager.get("train").await?.status, job.status, "its end is what it was");
    assert_eq!(namespace.mirrors().await?, 0, "and it was not run again");
    fleet.delete_policy("keep").await
}
