//! CronJobs whose template is delegated: the CronJob controller of the management cluster goes by the status that the
//! dispatcher copies. Where the clusters have no such controller, the scenario does what it would do.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use super::dispatch::{Outcome, placed};
use super::{JobManifest, has_active, is_complete, is_failed};
use crate::fleet::{Fleet, Place, ScenarioError};

/// Between two looks at what a CronJob has made.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Real CronJobs are due once a minute, and the controller may be some seconds late.
const LOOKS: u32 = 200;

/// What happens when a Job is due and the one before still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Concurrency {
    Allow,
    Forbid,
    Replace,
}

struct Cron<'a> {
    fleet: &'a Fleet,
    place: Place,
    name: &'static str,
    concurrency: Concurrency,
    template: Value,
    /// How often it has been due.
    due: u32,
}

impl<'a> Cron<'a> {
    async fn start(
        fleet: &'a Fleet,
        place: Place,
        name: &'static str,
        concurrency: Concurrency,
        job: JobManifest,
    ) -> Result<Self, ScenarioError> {
        let template = json!({"spec": job.manifest()["spec"]});
        let cron_job = json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
            "spec": {"schedule": "* * * * *", "concurrencyPolicy": format!("{concurrency:?}"), "jobTemplate": template},
        });
        place.create_other("batch/v1", "cronjobs", &cron_job).await?;
        Ok(Self { fleet, place, name, concurrency, template, due: 0 })
    }

    /// A minute passes: the controller does what is due.
    async fn tick(&mut self) -> Outcome {
        self.due += 1;
        if self.fleet.runs_cron_jobs() {
            return Ok(());
        }
        let active: Vec<Job> =
            self.place.jobs().await?.into_iter().filter(|job| !is_complete(job) && !is_failed(job)).collect();
        match self.concurrency {
            Concurrency::Forbid if !active.is_empty() => return Ok(()),
            Concurrency::Replace => {
                for job in active {
                    self.place.delete(&job.metadata.name.unwrap_or_default()).await?;
                }
            }
            Concurrency::Allow | Concurrency::Forbid => {}
        }
        let name = format!("{}-{}", self.name, 29_000_000 + self.due);
        self.place.create(&self.job(&name).await?).await
    }

    /// A Job as the controller makes it, owned by the CronJob.
    async fn job(&self, name: &str) -> Result<Value, ScenarioError> {
        let uid = self.place.get_other("batch/v1", "cronjobs", self.name).await?["metadata"]["uid"].clone();
        let owner = json!([{
            "apiVersion": "batch/v1", "kind": "CronJob", "name": self.name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        }]);
        Ok(json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "ownerReferences": owner},
            "spec": self.template["spec"],
        }))
    }

    /// The Jobs that it has made, oldest first, once there are as many as wanted.
    async fn made(&self, wanted: impl Fn(&[String]) -> bool) -> Result<Vec<String>, ScenarioError> {
        for _ in 0..LOOKS {
            let jobs = self.place.jobs().await?;
            let mut names: Vec<String> = jobs.into_iter().filter_map(|job| job.metadata.name).collect();
            names.sort();
            if wanted(&names) {
                return Ok(names);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err(ScenarioError::Missed { what: format!("the Jobs of CronJob {}", self.name), last: String::new() })
    }
}

/// Every Job of the CronJob goes to a worker.
pub async fn cron_jobs_that_may_overlap_all_run(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("cron-allow").await?;
    let template = JobManifest::delegated("template").runs_for("1");
    let mut cron = Cron::start(fleet, namespace.manager(), "allow", Concurrency::Allow, template).await?;
    cron.tick().await?;
    cron.tick().await?;
    for job in cron.made(|names| names.len() >= 2).await?.into_iter().take(2) {
        let job = namespace.manager().until(&job, "complete", is_complete).await?;
        assert!(job.metadata.owner_references.is_some_and(|owners| !owners.is_empty()), "its owner is untouched");
    }
    assert_eq!(namespace.manager().pods().await?, 0);
    Ok(())
}

/// The next one waits until the dispatcher has copied the end of the one before.
pub async fn cron_jobs_that_may_not_overlap_wait_for_each_other(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("cron-forbid").await?;
    let manager = namespace.manager();
    let template = JobManifest::delegated("template").runs_for_ever();
    let mut cron = Cron::start(fleet, manager.clone(), "forbid", Concurrency::Forbid, template).await?;
    cron.tick().await?;
    let first = cron.made(|names| !names.is_empty()).await?.remove(0);
    manager.until(&first, "active", has_active(1)).await?;
    cron.tick().await?;
    if fleet.runs_cron_jobs() {
        // Over at least one due time.
        tokio::time::sleep(Duration::from_secs(65)).await;
    }
    let made = cron.made(|names| !names.is_empty()).await?;
    assert_eq!(made, std::slice::from_ref(&first), "the first one still runs");
    let (_, worker) = placed(&namespace, &first).await?;
    worker.delete(&first).await?;
    manager.until(&first, "failed", is_failed).await?;
    cron.tick().await?;
    let names = cron.made(|names| names.len() == 2).await?;
    let second = names.into_iter().find(|name| *name != first).unwrap_or_default();
    manager.until(&second, "active", has_active(1)).await?;
    Ok(())
}

/// The one before is deleted, and with it its mirror, before or after the next one has started.
pub async fn cron_jobs_that_replace_each_other_leave_one_mirror(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("cron-replace").await?;
    let manager = namespace.manager();
    let template = JobManifest::delegated("template").runs_for_ever();
    let mut cron = Cron::start(fleet, manager.clone(), "replace", Concurrency::Replace, template).await?;
    cron.tick().await?;
    let first = cron.made(|names| !names.is_empty()).await?.remove(0);
    manager.until(&first, "active", has_active(1)).await?;
    let (_, worker) = placed(&namespace, &first).await?;
    cron.tick().await?;
    let second = cron.made(|names| names.iter().any(|name| *name != first)).await?;
    let second = second.into_iter().find(|name| *name != first).unwrap_or_default();
    manager.until(&second, "active", has_active(1)).await?;
    worker.until_gone(&first).await
}

/// `kubectl create job --from=cronjob/x`.
pub async fn cron_a_job_made_from_a_cron_job_by_hand_runs(fleet: &Fleet) -> Outcome {
    let namespace = fleet.namespace("cron-manual").await?;
    let manager = namespace.manager();
    let template = JobManifest::delegated("template");
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "source"},
        "spec": {"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": {"spec": template.manifest()["spec"]}},
    });
    manager.create_other("batch/v1", "cronjobs", &cron_job).await?;
    let uid = manager.get_other("batch/v1", "cronjobs", "source").await?["metadata"]["uid"].clone();
    let owner =
        json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "source", "uid": uid, "controller": true}]);
    let manual = template.annotation("cronjob.kubernetes.io/instantiate", "manual");
    manager.create(manual.metadata("name", json!("by-hand")).metadata("ownerReferences", owner).manifest()).await?;
    manager.until("by-hand", "complete", is_complete).await?;
    let (_, worker) = placed(&namespace, "by-hand").await?;
    assert_eq!(worker.get("by-hand").await?.metadata.owner_references.unwrap_or_default(), []);
    Ok(())
}
