//! The dispatcher stops, restarts and dies at every stage of a Job's life, and works twice at the same time.

use jobferry_api::conditions;
use serde_json::json;

use super::dispatch::{Outcome, placed};
use super::{JobManifest, has_active, is_complete, is_told};
use crate::fleet::{Fleet, Namespace};

async fn ran_once(namespace: &Namespace<'_>, jobs: usize) -> Outcome {
    assert_eq!((namespace.mirrors().await?, namespace.pods_on_workers().await?), (jobs, jobs), "each ran once");
    assert_eq!(namespace.manager().pods().await?, 0);
    Ok(())
}

/// A Job that nobody has seen yet.
pub async fn restart_before_the_placement(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("restart-1").await?;
    fleet.stop_dispatchers().await;
    namespace.manager().create(JobManifest::delegated("train").manifest()).await?;
    fleet.start_dispatcher().await;
    namespace.manager().until("train", "complete", is_complete).await?;
    ran_once(&namespace, 1).await
}

/// H6: the record is written, and nobody knows whether the create got through.
pub async fn restart_between_the_placement_and_the_mirror(fleet: &Fleet) -> Outcome {
    let [first, _] = fleet.two_workers();
    let namespace = fleet.namespace("restart-2").await?;
    let manager = namespace.manager();
    fleet.cut(first);
    manager.create(JobManifest::delegated("train").only_on(first).manifest()).await?;
    placed(&namespace, "train").await?;
    fleet.stop_dispatchers().await;
    fleet.mend(first);
    fleet.start_dispatcher().await;
    manager.until("train", "complete", is_complete).await?;
    ran_once(&namespace, 1).await
}

/// Running work is not touched.
pub async fn restart_while_it_runs(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("restart-3").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").runs_for("4").manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    fleet.stop_dispatchers().await;
    fleet.start_dispatcher().await;
    manager.until("train", "complete", is_complete).await?;
    ran_once(&namespace, 1).await
}

/// U26, H16: the end comes while nobody looks.
pub async fn restart_after_the_end(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("restart-4").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").runs_for("3").manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, "train").await?;
    fleet.stop_dispatchers().await;
    worker.until("train", "complete on the worker", is_complete).await?;
    fleet.start_dispatcher().await;
    manager.until("train", "complete", is_complete).await?;
    ran_once(&namespace, 1).await
}

/// U04: the deletion comes while nobody looks.
pub async fn restart_after_the_deletion(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("restart-5").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").runs_for_ever().manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, "train").await?;
    fleet.stop_dispatchers().await;
    manager.delete("train").await?;
    manager.until_gone("train").await?;
    fleet.start_dispatcher().await;
    worker.until_gone("train").await?;
    worker.until_no_pods().await
}

/// An edit that was made while nobody looked reaches the mirror, once.
pub async fn restart_after_an_edit(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("restart-6").await?;
    let manager = namespace.manager();
    manager.create(JobManifest::delegated("train").spec("completions", json!(9)).runs_for_ever().manifest()).await?;
    manager.until("train", "active", has_active(1)).await?;
    fleet.stop_dispatchers().await;
    manager.change("train", &json!({"spec": {"parallelism": 2}})).await?;
    fleet.start_dispatcher().await;
    manager.until("train", "two pods", has_active(2)).await?;
    Ok(())
}

/// A move goes on where it was, and waits its time whoever leads.
pub async fn restart_while_it_moves(fleet: &Fleet) -> Outcome {
    let [first, second] = fleet.two_workers();
    let namespace = fleet.namespace_on("restart-7", &[second]).await?;
    let manager = namespace.manager();
    let prefer = json!([{"workers": {"matchLabels": {"name": first}}, "weight": 100}]);
    fleet.create_policy("restart-7", &json!({ "prefer": prefer })).await?;
    manager.create(JobManifest::delegated("train").label("jobferry.dev/policy", "restart-7").manifest()).await?;
    manager.until("train", "leaving", is_told(conditions::REASON_MOVING)).await?;
    fleet.stop_dispatchers().await;
    fleet.start_dispatcher().await;
    let job = manager.until("train", "complete", is_complete).await?;
    assert_eq!(super::worker_of(&job), Some(second));
    assert_eq!(namespace.worker(second).pods().await?, 1);
    fleet.delete_policy("restart-7").await
}

/// Must hold even without a lease: two dispatchers at once, and nothing runs twice.
pub async fn two_dispatchers_without_a_lease_run_nothing_twice(fleet: &Fleet) -> Outcome {
    const JOBS: usize = 16;
    let namespace = fleet.namespace("two-dispatchers").await?;
    let manager = namespace.manager();
    fleet.stop_dispatchers().await;
    fleet.start_dispatcher_without_lease().await;
    fleet.start_dispatcher_without_lease().await;
    for number in 0..JOBS {
        manager.create(JobManifest::delegated(&format!("job-{number}")).runs_for("0.5").manifest()).await?;
    }
    for number in 0..JOBS {
        let name = format!("job-{number}");
        let job = manager.until(&name, "complete", is_complete).await?;
        assert_eq!(job.status.and_then(|status| status.succeeded), Some(1));
    }
    ran_once(&namespace, JOBS).await?;
    manager.create(JobManifest::delegated("deleted").runs_for_ever().manifest()).await?;
    manager.until("deleted", "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, "deleted").await?;
    manager.delete("deleted").await?;
    worker.until_gone("deleted").await
}

/// The dispatcher is killed right after its Nth write, for every N of a Job's life: the next one brings it to its end.
pub async fn killed_after_every_write_of_a_life_cycle(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("killed").await?;
    let manager = namespace.manager();
    fleet.stop_dispatchers().await;
    for writes in 1.. {
        let name = format!("job-{writes}");
        let life = fleet.start_mortal_dispatcher(writes).await;
        manager.create(JobManifest::delegated(&name).runs_for("1").manifest()).await?;
        let has_ended = tokio::select! {
            () = life.over() => false,
            job = manager.until(&name, "complete", is_complete) => job.map(|_| true)?,
        };
        let killed = !has_ended || life.is_over();
        fleet.stop_dispatchers().await;
        fleet.start_dispatcher_without_lease().await;
        let job = manager.until(&name, "complete", is_complete).await?;
        assert_eq!(job.status.and_then(|status| status.succeeded), Some(1), "killed after {writes} writes");
        ran_once(&namespace, writes).await?;
        fleet.stop_dispatchers().await;
        if !killed {
            assert!(writes > 3, "a placement, a mirror and at least two copies of its status");
            return Ok(());
        }
    }
    Ok(())
}

/// The same at the end of its life: gone before it deleted the mirror, and killed right after.
pub async fn killed_while_a_deleted_job_is_cleaned_up(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("killed-late").await?;
    let manager = namespace.manager();
    for writes in [0, 1] {
        let name = format!("job-{writes}");
        fleet.stop_dispatchers().await;
        fleet.start_dispatcher().await;
        manager.create(JobManifest::delegated(&name).runs_for_ever().manifest()).await?;
        manager.until(&name, "active", has_active(1)).await?;
        let (_, worker) = placed(&namespace, &name).await?;
        fleet.stop_dispatchers().await;
        let life = fleet.start_mortal_dispatcher(writes).await;
        manager.delete(&name).await?;
        manager.until_gone(&name).await?;
        if writes > 0 {
            // The deletion is its only write.
            tokio::select! {
                () = life.over() => {}
                gone = worker.until_gone(&name) => gone?,
            }
        }
        fleet.stop_dispatchers().await;
        fleet.start_dispatcher().await;
        worker.until_gone(&name).await?;
        worker.until_no_pods().await?;
        assert_eq!(namespace.mirrors().await?, 0);
    }
    Ok(())
}
