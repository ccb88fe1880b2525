//! Workers that say no: it is told, nothing is lost, and somebody else gets the Job where that is safe.

use jobferry_api::conditions;
use serde_json::json;

use super::dispatch::Outcome;
use super::{JobManifest, is_complete, is_settled, is_suspended, is_told, message_of, worker_of};
use crate::Closed;
use crate::fleet::Fleet;

/// KEP: a worker without the namespace. It is not created there; it is waited for.
pub async fn kep_a_namespace_that_a_worker_lacks_is_told_and_found_when_it_is_created(fleet: &Fleet) -> Outcome {
    let [first, second] = fleet.two_workers();
    let namespace = fleet.namespace_on("kep-namespace", &[second]).await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").only_on(first).manifest()).await?;
    let job = manager.until("train", "refused", is_told(conditions::REASON_REFUSED)).await?;
    let message = message_of(&job, conditions::PLACED);
    assert!(message.contains(first) && message.contains("not found"), "{message}");
    fleet.add_namespace(namespace.name(), first).await?;
    let job = manager.until("train", "complete", is_complete).await?;
    assert_eq!(worker_of(&job), Some(first));
    Ok(())
}

/// Nobody has it, and whoever waits for the condition must not wait for a worker.
pub async fn a_job_that_is_suspended_while_its_worker_refuses_it_shows_so_at_once(fleet: &Fleet) -> Outcome {
    let [first, second] = fleet.two_workers();
    let namespace = fleet.namespace_on("refused-pause", &[second]).await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").only_on(first).manifest()).await?;
    manager.until("train", "refused", is_told(conditions::REASON_REFUSED)).await?;
    manager.change("train", &json!({"spec": {"suspend": true}})).await?;
    manager.until("train", "suspended", is_suspended).await?;
    manager.change("train", &json!({"spec": {"suspend": false}})).await?;
    manager.until("train", "resumed", |job| !is_suspended(job)).await?;
    assert_eq!(namespace.mirrors().await?, 0);
    fleet.add_namespace(namespace.name(), first).await?;
    manager.until("train", "complete", is_complete).await?;
    assert_eq!(namespace.pods_on_workers().await?, 1);
    Ok(())
}

/// KEP, E21: the Job goes to the only worker that has what it needs.
pub async fn e21_a_job_goes_to_the_only_worker_that_has_its_namespace(fleet: &Fleet) -> Outcome {
    let [first, second] = fleet.two_workers();
    let namespace = fleet.namespace_on("e21", &[second]).await?;
    let weight = json!([{"workers": {"matchLabels": {"name": first}}, "weight": 100}]);
    fleet.create_policy("e21", &json!({ "prefer": weight })).await?;
    namespace.manager().create(JobManifest::delegated("train").label("jobferry.dev/policy", "e21").manifest()).await?;
    let job = namespace.manager().until("train", "complete", is_complete).await?;
    assert_eq!(worker_of(&job), Some(second));
    assert!(message_of(&job, conditions::PLACEMENT).contains("\"epoch\":2"), "it was moved, once");
    fleet.delete_policy("e21").await
}

/// KEP, I50, E20: nobody has it. The Job asks around, never faster than the quarantine allows; when a worker has it, it
/// runs there, once.
pub async fn e20_a_job_that_every_worker_refuses_runs_when_one_takes_it(fleet: &Fleet) -> Outcome {
    let [first, second] = fleet.two_workers();
    let namespace = fleet.namespace_on("e20", &[]).await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").manifest()).await?;
    let job = manager.until("train", "leaving", is_told(conditions::REASON_MOVING)).await?;
    assert!(message_of(&job, conditions::PLACED).contains("refuses it"));
    for worker in [first, second] {
        fleet.add_namespace(namespace.name(), worker).await?;
    }
    manager.until("train", "complete", is_complete).await?;
    assert_eq!((namespace.mirrors().await?, namespace.pods_on_workers().await?), (1, 1));
    Ok(())
}

/// A worker without a free place in its quota (MultiKueue: without its queue).
pub async fn kep_a_used_up_quota_is_told_and_the_job_runs_when_there_is_room(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("kep-quota").await?;
    let manager = namespace.manager();
    fleet.close(first, namespace.name(), Closed::ByQuota).await?;
    manager.create(JobManifest::delegated("train").only_on(first).manifest()).await?;
    let job = manager.until("train", "refused", is_told(conditions::REASON_REFUSED)).await?;
    let message = message_of(&job, conditions::PLACED);
    assert!(message.contains("exceeded quota"), "{message}");
    fleet.reopen(first, namespace.name(), Closed::ByQuota).await?;
    manager.until("train", "complete", is_complete).await?;
    assert_eq!(namespace.pods_on_workers().await?, 1);
    Ok(())
}

/// U15: one of two refuses, by a policy of its own.
pub async fn u15_a_job_that_one_workers_policy_denies_goes_to_the_other(fleet: &Fleet) -> Outcome {
    let [first, second] = fleet.two_workers();
    let namespace = fleet.namespace("u15").await?;
    let manager = namespace.manager();
    fleet.close(first, namespace.name(), Closed::ByPolicy).await?;
    let weight = json!([{"workers": {"matchLabels": {"name": first}}, "weight": 100}]);
    fleet.create_policy("u15", &json!({ "prefer": weight })).await?;
    manager.create(JobManifest::delegated("train").label("jobferry.dev/policy", "u15").manifest()).await?;
    manager.until("train", "leaving", is_told(conditions::REASON_MOVING)).await?;
    let job = manager.until("train", "complete", is_complete).await?;
    assert_eq!(worker_of(&job), Some(second));
    assert_eq!(namespace.pods_on_workers().await?, 1);
    fleet.reopen(first, namespace.name(), Closed::ByPolicy).await?;
    fleet.delete_policy("u15").await
}

/// A denial is told in the worker's own words, and the worker is not asked again and again.
pub async fn a_denial_is_told_in_the_workers_own_words(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("denied").await?;
    let manager = namespace.manager();
    fleet.close(first, namespace.name(), Closed::ByPolicy).await?;
    manager.create(JobManifest::delegated("train").only_on(first).manifest()).await?;
    let job = manager.until("train", "refused", is_told(conditions::REASON_REFUSED)).await?;
    let message = message_of(&job, conditions::PLACED);
    assert!(message.contains("ValidatingAdmissionPolicy 'closed-denied'"), "{message}");
    assert_eq!(namespace.mirrors().await?, 0);
    manager.delete("train").await?;
    fleet.reopen(first, namespace.name(), Closed::ByPolicy).await
}

/// I21, i11849: neither the refusal of our Job nor its deletion touches the foreign one.
pub async fn i21_a_foreign_job_of_the_same_name_is_never_touched(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("i21").await?;
    let worker = namespace.worker(first);
    worker.create(JobManifest::new("train").runs_for_ever().manifest()).await?;
    let theirs = worker.until("train", "settled", is_settled).await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").only_on(first).manifest()).await?;
    manager.until("train", "refused", is_told(conditions::REASON_REFUSED)).await?;
    manager.delete("train").await?;
    manager.until_gone("train").await?;
    // Whatever came after the deletion has been done once a later Job went all its way.
    manager.create(JobManifest::delegated("later").only_on(first).manifest()).await?;
    manager.until("later", "complete", is_complete).await?;
    assert_eq!(worker.get("train").await?, theirs);
    Ok(())
}
