//! How workers are joined: their Secrets, what is refused in them, and what a change does to running work.

use jobferry_api::conditions;
use serde_json::Value;

use super::dispatch::Outcome;
use super::{JobManifest, has_active, is_complete, is_failed, worker_of};
use crate::fleet::{Fleet, ScenarioError};

/// Waits until the dispatcher says that it will not use a worker, in these words.
async fn until_refused(fleet: &Fleet, worker: &str, words: &str) -> Result<(), ScenarioError> {
    let refused = |worker: Option<&Value>| {
        let list = worker.and_then(|worker| worker["status"]["conditions"].as_array());
        list.into_iter().flatten().any(|condition| {
            condition["type"] == conditions::ACCEPTED
                && condition["status"] == "False"
                && condition["message"].as_str().is_some_and(|message| message.contains(words))
        })
    };
    fleet.until_worker(worker, &format!("refused: {words}"), refused).await
}

/// I59, I18: in which order the Worker and its Secret come does not matter, and a Job that waited for it runs.
pub async fn i59_a_worker_and_its_secret_come_in_any_order(fleet: &Fleet) -> Outcome {
    let [_, second] = fleet.two_workers();
    let namespace = fleet.namespace("i59").await?;
    fleet.delete_worker(second).await?;
    fleet.delete_secret(second).await?;
    fleet.until_worker(second, "gone", |worker| worker.is_none()).await?;
    namespace.manager().create(JobManifest::delegated("train").only_on(second).manifest()).await?;
    fleet.register(second).await?;
    until_refused(fleet, second, "not found").await?;
    fleet.write_secret(second).await?;
    fleet.until_connected(second, true).await?;
    let job = namespace.manager().until("train", "complete", is_complete).await?;
    assert_eq!(worker_of(&job), Some(second));
    Ok(())
}

/// A kubeconfig that is refused takes the worker out of use, with the reason; the right one brings it back.
async fn refused_and_corrected(fleet: &Fleet, name: &str, from: &str, to: &str, words: &str) -> Outcome {
    let [first, second] = fleet.two_workers();
    let namespace = fleet.namespace(name).await?;
    let manager = namespace.manager();
    fleet
        .write_secret_as(second, second, |kubeconfig| {
            assert!(kubeconfig.contains(from), "{kubeconfig}");
            kubeconfig.replace(from, to)
        })
        .await?;
    until_refused(fleet, second, words).await?;
    for job in ["a", "b", "c"] {
        manager.create(JobManifest::delegated(job).manifest()).await?;
        let job = manager.until(job, "complete", is_complete).await?;
        assert_eq!(worker_of(&job), Some(first), "nothing goes to a worker that is not accepted");
    }
    fleet.write_secret(second).await?;
    fleet.until_connected(second, true).await?;
    manager.create(JobManifest::delegated("back").only_on(second).manifest()).await?;
    manager.until("back", "complete", is_complete).await?;
    Ok(())
}

/// I61: a CA by file path; the Worker says so, Jobs go elsewhere, the right Secret brings it back.
pub async fn i61_a_ca_by_path_is_refused_and_corrected(fleet: &Fleet) -> Outcome {
    let (from, to) =
        ("certificate-authority-data:", "certificate-authority: /etc/passwd\n    certificate-authority-data:");
    refused_and_corrected(fleet, "i61", from, to, "certificate-authority").await
}

/// I62: a token by file path, likewise.
pub async fn i62_a_token_file_is_refused_and_corrected(fleet: &Fleet) -> Outcome {
    refused_and_corrected(fleet, "i62", "    token:", "    tokenFile: /etc/passwd\n    token:", "tokenFile").await
}

/// I64: one that worked and turns insecure is not used any more.
pub async fn i64_a_worker_that_turns_insecure_is_not_used_any_more(fleet: &Fleet) -> Outcome {
    let (from, to) = ("server: https://", "server: http://");
    refused_and_corrected(fleet, "i64", from, to, "only https").await
}

/// A token that the worker does not know is no loss of the worker: nothing fails, and nothing new goes there.
pub async fn a_refused_token_is_told_and_is_no_loss(fleet: &Fleet) -> Outcome {
    let from = "    token: ";
    refused_and_corrected(fleet, "token", from, "    token: not-", "credentials").await
}

/// A rotated Secret is taken up without dropping running work.
pub async fn a_rotated_secret_does_not_disturb_running_work(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("rotated").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").only_on(first).runs_for("3").manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    fleet.write_secret_as(first, first, |kubeconfig| format!("{kubeconfig}preferences: {{}}\n")).await?;
    manager.until("train", "complete", is_complete).await?;
    assert_eq!((namespace.mirrors().await?, namespace.pods_on_workers().await?), (1, 1));
    manager.create(JobManifest::delegated("next").only_on(first).manifest()).await?;
    manager.until("next", "complete", is_complete).await?;
    fleet.write_secret(first).await
}

/// H5, H14: a Secret that leads to another cluster is noticed. The work there is waited for, not declared deleted.
pub async fn h5_a_secret_that_leads_to_another_cluster_is_noticed(fleet: &Fleet) -> Outcome {
    let [first, second] = fleet.two_workers();
    let namespace = fleet.namespace("h5").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").only_on(first).runs_for("4").manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    fleet.write_secret_as(first, second, str::to_owned).await?;
    until_refused(fleet, first, "registered already").await?;
    namespace.worker(first).until("train", "complete on its worker", is_complete).await?;
    let job = manager.get("train").await?;
    assert!(!is_complete(&job) && !is_failed(&job), "nobody knows yet how it ended");
    fleet.write_secret(first).await?;
    manager.until("train", "complete", is_complete).await?;
    assert_eq!((namespace.mirrors().await?, namespace.pods_on_workers().await?), (1, 1));
    Ok(())
}
