//! Workers out of reach: nothing runs twice, nothing is lost, and what was deleted meanwhile is cleaned up.

use std::time::Duration;

use jobferry_api::{conditions, labels};
use k8s_openapi::api::batch::v1::Job;
use serde_json::json;
use tokio::time::sleep;

use super::dispatch::{Outcome, placed};
use super::{JobManifest, has_active, is_complete, is_failed, reason_of, worker_of};
use crate::fleet::Fleet;

/// Long enough for anything wrong to be done, short enough to be no loss.
const BRIEF: Duration = Duration::from_secs(8);

/// I04, U05, U35: mirrors of Jobs that were deleted while both workers were away go, with their pods, when they are back.
pub async fn i04_a_job_deleted_while_its_worker_was_away_leaves_nothing(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("i04").await?;
    let manager = namespace.manager();
    for worker in fleet.two_workers() {
        manager.create(JobManifest::delegated(worker).only_on(worker).runs_for_ever().manifest()).await?;
        manager.until(worker, "active", has_active(1)).await?;
    }
    for worker in fleet.two_workers() {
        fleet.cut(worker);
        manager.delete(worker).await?;
        manager.until_gone(worker).await?;
    }
    sleep(BRIEF).await;
    assert_eq!(namespace.mirrors().await?, 2, "nobody can reach them");
    for worker in fleet.two_workers() {
        fleet.mend(worker);
        namespace.worker(worker).until_gone(worker).await?;
        namespace.worker(worker).until_no_pods().await?;
    }
    Ok(())
}

/// I05: a Job for another worker runs as ever; nothing is left on the one that was away.
pub async fn i05_a_worker_that_is_away_disturbs_nobody_else(fleet: &Fleet) -> Outcome {
    let [first, second] = fleet.two_workers();
    let namespace = fleet.namespace("i05").await?;
    fleet.cut(first);
    namespace.manager().create(JobManifest::delegated("train").only_on(second).manifest()).await?;
    namespace.manager().until("train", "complete", is_complete).await?;
    fleet.mend(first);
    assert_eq!((namespace.mirrors().await?, namespace.pods_on_workers().await?), (1, 1));
    Ok(())
}

/// I07, U28: a short disconnect stops nothing: same status meanwhile, one pod, complete.
pub async fn i07_a_brief_loss_of_the_connection_changes_nothing(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("i07").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").only_on(first).runs_for("12").manifest()).await?;
    let before = manager.until("train", "active", has_active(1)).await?;
    fleet.cut(first);
    sleep(BRIEF).await;
    assert_eq!(manager.get("train").await?.status, before.status);
    fleet.mend(first);
    manager.until("train", "complete", is_complete).await?;
    assert_eq!(namespace.pods_on_workers().await?, 1);
    Ok(())
}

/// I06, U29, KEP. Where MultiKueue runs the Job again elsewhere, it is waited for here, and its result is not lost.
pub async fn i06_a_job_that_ended_while_its_worker_was_away_keeps_its_result(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("i06-wait").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").only_on(first).runs_for("5").manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    fleet.cut(first);
    namespace.worker(first).until("train", "complete on the worker", is_complete).await?;
    fleet.until_connected(first, false).await?;
    let job = manager.get("train").await?;
    assert!(!is_complete(&job) && !is_failed(&job));
    fleet.mend(first);
    manager.until("train", "complete", is_complete).await?;
    assert_eq!((namespace.mirrors().await?, namespace.pods_on_workers().await?), (1, 1));
    Ok(())
}

/// I06 with `onWorkerLost: Fail`: the Job fails when the time is up, and what ran on is removed when the worker is back.
pub async fn i06_a_lost_worker_fails_its_jobs_where_the_policy_says_so(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("i06-fail").await?;
    let manager = namespace.manager();
    fleet.create_policy("give-up", &json!({"onWorkerLost": {"action": "Fail", "after": "30s"}})).await?;
    let manifest = JobManifest::delegated("train").only_on(first).runs_for_ever();
    manager.create(manifest.label(labels::POLICY, "give-up").manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    fleet.cut(first);
    let job = manager.until("train", "failed", is_failed).await?;
    assert_eq!(reason_of(&job, "Failed"), Some(conditions::REASON_WORKER_LOST));
    assert_eq!(namespace.pods_on_workers().await?, 1, "it runs on, and nobody started it again");
    fleet.mend(first);
    namespace.worker(first).until_gone("train").await?;
    namespace.worker(first).until_no_pods().await?;
    assert_eq!(manager.get("train").await?.status, job.status);
    fleet.delete_policy("give-up").await
}

/// H7: when most workers look lost, it is more likely that we are.
pub async fn h7_the_brake_holds_when_most_workers_look_lost(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("h7").await?;
    let manager = namespace.manager();
    // A third worker at an address where nobody answers.
    let nowhere = |kubeconfig: &str| {
        let server = kubeconfig.lines().find(|line| line.contains("server:")).unwrap_or_default();
        kubeconfig.replace(server, "    server: https://127.0.0.1:1")
    };
    fleet.write_secret_as("ghost", first, nowhere).await?;
    fleet.register("ghost").await?;
    fleet.until_connected("ghost", false).await?;
    fleet.create_policy("braked", &json!({"onWorkerLost": {"action": "Fail", "after": "30s"}})).await?;
    let manifest = JobManifest::delegated("train").only_on(first).runs_for("20");
    manager.create(manifest.label(labels::POLICY, "braked").manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    fleet.cut(first);
    fleet.until_connected(first, false).await?;
    // Noticed for a minute, and longer than the policy says: only the brake holds.
    sleep(Duration::from_secs(75)).await;
    let job = manager.get("train").await?;
    assert!(!is_failed(&job), "two of three look lost");
    fleet.mend(first);
    manager.until("train", "complete", is_complete).await?;
    fleet.delete_worker("ghost").await?;
    fleet.delete_policy("braked").await
}

/// DESIGN 7: a deadline that passes while nobody can see the worker is kept.
pub async fn a_deadline_that_passes_while_the_worker_is_away_fails_the_job(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("late").await?;
    let manager = namespace.manager();
    let manifest = JobManifest::delegated("train").only_on(first).runs_for_ever();
    manager.create(manifest.spec("activeDeadlineSeconds", json!(10)).manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    fleet.cut(first);
    let job = manager.until("train", "failed", is_failed).await?;
    assert_eq!(reason_of(&job, "Failed"), Some("DeadlineExceeded"));
    fleet.mend(first);
    assert_eq!(namespace.mirrors().await?, 1);
    Ok(())
}

/// I08, U30: neither the restart nor the loss fails anything by itself.
pub async fn i08_the_dispatcher_restarts_while_the_worker_is_away(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("i08").await?;
    let manager = namespace.manager();
    fleet.create_policy("patient", &json!({"onWorkerLost": {"action": "Fail", "after": "1h"}})).await?;
    let manifest = JobManifest::delegated("train").only_on(first).runs_for("10");
    manager.create(manifest.label(labels::POLICY, "patient").manifest()).await?;
    let before = manager.until("train", "active", has_active(1)).await?;
    fleet.cut(first);
    fleet.stop_dispatchers().await;
    fleet.start_dispatcher().await;
    sleep(BRIEF).await;
    assert_eq!(manager.get("train").await?.status, before.status);
    fleet.mend(first);
    manager.until("train", "complete", is_complete).await?;
    assert_eq!(namespace.pods_on_workers().await?, 1);
    fleet.delete_policy("patient").await
}

/// I08: the clock of the loss is not reset by restarts: it is on the `Worker`.
pub async fn i08_the_clock_of_a_loss_goes_on_over_a_restart(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("i08-clock").await?;
    let manager = namespace.manager();
    fleet.create_policy("hourglass", &json!({"onWorkerLost": {"action": "Fail", "after": "90s"}})).await?;
    let manifest = JobManifest::delegated("train").only_on(first).runs_for_ever();
    manager.create(manifest.label(labels::POLICY, "hourglass").manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    fleet.cut(first);
    fleet.until_connected(first, false).await?;
    let lost_since = fleet.worker_status(first).await?["lostSince"].clone();
    fleet.stop_dispatchers().await;
    sleep(Duration::from_secs(30)).await;
    fleet.start_dispatcher().await;
    manager.until("train", "failed", is_failed).await?;
    assert_eq!(fleet.worker_status(first).await?["lostSince"], lost_since);
    fleet.mend(first);
    namespace.worker(first).until_gone("train").await?;
    fleet.delete_policy("hourglass").await
}

/// E35: Connected turns False and True again, and the worker takes Jobs.
pub async fn e35_a_worker_that_was_cut_off_works_again_when_it_is_back(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("e35").await?;
    fleet.cut(first);
    fleet.until_connected(first, false).await?;
    fleet.mend(first);
    fleet.until_connected(first, true).await?;
    namespace.manager().create(JobManifest::delegated("train").only_on(first).manifest()).await?;
    namespace.manager().until("train", "complete", is_complete).await?;
    Ok(())
}

/// KEP: an unresponsive worker. What was placed there before anybody noticed waits; the rest goes elsewhere at once.
pub async fn kep_jobs_avoid_a_worker_that_does_not_answer(fleet: &Fleet) -> Outcome {
    let [first, second] = fleet.two_workers();
    let namespace = fleet.namespace("kep-unresponsive").await?;
    let manager = namespace.manager();
    fleet.cut(first);
    let early = ["a", "b", "c", "d", "e", "f"];
    for job in early {
        manager.create(JobManifest::delegated(job).manifest()).await?;
    }
    fleet.until_connected(first, false).await?;
    for job in ["late-a", "late-b", "late-c"] {
        manager.create(JobManifest::delegated(job).manifest()).await?;
        let job = manager.until(job, "complete", is_complete).await?;
        assert_eq!(worker_of(&job), Some(second));
    }
    fleet.mend(first);
    for job in early {
        manager.until(job, "complete", is_complete).await?;
    }
    assert_eq!((namespace.mirrors().await?, namespace.pods_on_workers().await?), (9, 9), "each ran once");
    Ok(())
}

/// U32: reachable, but the mirror is gone. It may have finished unseen, so it does not run again.
pub async fn u32_a_mirror_deleted_while_its_worker_was_away_fails_the_job(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("u32").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").only_on(first).runs_for_ever().manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, "train").await?;
    fleet.cut(first);
    worker.delete("train").await?;
    worker.until_gone("train").await?;
    fleet.mend(first);
    let job: Job = manager.until("train", "failed", is_failed).await?;
    assert_eq!(reason_of(&job, "Failed"), Some(conditions::REASON_MIRROR_DELETED));
    assert_eq!(namespace.mirrors().await?, 0);
    Ok(())
}
