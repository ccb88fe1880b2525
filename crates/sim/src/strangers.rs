//! People who meddle with what is ours: with the record, with mirrors, with how workers are registered.

use std::time::Duration;

use jobferry_api::{conditions, labels};
use jobferry_kubeio::{self as kubeio, Patch};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::actors::{ANSWER_WITHIN, JOBS, TRIES, WORKERS, create_when_free, delete, edit};
use crate::admission::Rule;
use crate::cluster::Cluster;
use crate::crew::Secrets;
use crate::etl;
use crate::faults::Fault;
use crate::scenario::Deed;
use crate::truth::Role;
use crate::weather::Weather;

/// What keeps a mirror, or a workload.
const FINALIZER: &str = "example.com/keep";

/// Marks what a worker's queue holds back.
const HELD: &str = "example.com/held";

/// The second name of a cluster.
pub(crate) const TWIN: &str = "twin";
/// A record that no version of ours can read.
const DAMAGED: &str = "{\"v\":2}";

/// Takes back what they had taken back already: a cluster that was restored may have gone back to when it was done.
pub(crate) async fn take_back(manager: &Cluster, workers: &[Cluster]) {
    let user = manager.client("user", Role::User);
    for job in jobs_of(manager) {
        mend_record(&user, &job).await;
        keep(&user, &job, false).await;
    }
    for worker in workers {
        for job in jobs_of(worker) {
            keep(&worker.client("foreigner", Role::Foreigner), &job, false).await;
            let let_go =
                |stored: &Value| (!stored["metadata"]["annotations"][HELD].is_null()).then(|| hold(&job, false));
            amend(&worker.client("queue", Role::Cluster), &job, "", let_go).await;
        }
    }
}

/// What a worker's queue does to a mirror that it holds back, or lets go.
pub(crate) fn hold(job: &str, held: bool) -> Value {
    let mut change = etl::suspend(job, held);
    change["metadata"]["annotations"][HELD] = if held { "yes".into() } else { Value::Null };
    change
}

fn jobs_of(cluster: &Cluster) -> Vec<String> {
    cluster.hub().truth(|truth| truth.jobs(&cluster.name).map(|job| job.name.clone()).collect())
}

/// Keeps a Job by a finalizer, or lets it go.
pub(crate) async fn keep(client: &Client, job: &str, kept: bool) {
    amend(client, job, "", |stored| {
        let is_kept = list(&stored["metadata"], "finalizers").iter().any(|finalizer| finalizer == FINALIZER);
        (is_kept != kept).then(|| with_finalizer(stored, kept))
    })
    .await;
}

async fn mend_record(user: &Client, job: &str) {
    let is_damaged = |condition: &Value| condition["type"] == conditions::PLACEMENT && condition["message"] == DAMAGED;
    amend(user, job, "/status", |stored| {
        let damaged = list(&stored["status"], "conditions").iter().any(is_damaged);
        damaged.then(|| with_record(stored, None))?
    })
    .await;
}

/// Does what they do.
pub(crate) async fn meddle(manager: &Cluster, worker: &Cluster, deed: Deed, weather: &Weather, secrets: &Secrets) {
    let name = &worker.name;
    let foreigner = worker.client("foreigner", Role::Foreigner);
    let (user, admin) = (manager.client("user", Role::User), manager.client("admin", Role::User));
    match deed {
        Deed::WipeRecord(job) => {
            weather.count(Fault::RecordWiped, format_args!("/{job}: wiped"));
            amend(&user, &job, "/status", |stored| with_record(stored, None)).await;
        }
        Deed::DamageRecord(job, time) => {
            weather.count(Fault::RecordWiped, format_args!("/{job}: damaged for {time:?}"));
            // Nothing is done about it before somebody looks after it.
            manager.hub().disturb_for(&manager.name, time);
            amend(&user, &job, "/status", |stored| with_record(stored, Some(DAMAGED))).await;
            sleep(time).await;
            mend_record(&user, &job).await;
        }
        Deed::ForgeLabel(job) => {
            weather.count(Fault::RecordWiped, format_args!("/{job}: its label says {name}"));
            edit(&user, &etl::path_of(&job), json!({"metadata": {"labels": {labels::WORKER: &**name}}})).await;
        }
        Deed::Rewrite(job, changes, time) => {
            weather.count(Fault::MirrorRewritten, format_args!("{name} /{job}: {} for {time:?}", changes[0]));
            manager.hub().disturb_for(name, time);
            for change in changes {
                edit(&foreigner, &etl::path_of(&job), change).await;
                sleep(time).await;
            }
        }
        Deed::Keep(job, time) => {
            weather.count(Fault::MirrorHeld, format_args!("{name} /{job} for {time:?}"));
            manager.hub().disturb_for(name, time);
            keep(&foreigner, &job, true).await;
            sleep(time).await;
            keep(&foreigner, &job, false).await;
        }
        Deed::End(job) => {
            weather.count(Fault::EndedByOthers, format_args!("/{job}"));
            amend(&manager.client("foreigner", Role::Foreigner), &job, "/status", failed).await;
        }
        Deed::Mislead(other, time) => {
            weather.count(Fault::SecretMisled, format_args!("that of {name} leads to {other} for {time:?}"));
            manager.hub().ill(name, "misled", true);
            secrets.lead(name, Some(&other));
            sleep(time).await;
            secrets.lead(name, None);
            manager.hub().ill(name, "misled", false);
        }
        Deed::Double(cluster, time) => {
            weather.count(Fault::WorkerDoubled, format_args!("{cluster} for {time:?}"));
            let twin = json!({"apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker", "metadata": {"name": TWIN},
                              "spec": {"kubeconfigSecret": cluster}});
            create_when_free(&admin, WORKERS, &twin).await;
            sleep(time).await;
            delete(&admin, &format!("{WORKERS}/{TWIN}"), "Background").await;
        }
        Deed::DeleteNamespace(time) => {
            weather.count(Fault::NamespaceDeleted, format_args!("{name} for {time:?}"));
            worker.impose(Rule::Terminating);
            delete_jobs(&foreigner).await;
            sleep(time).await;
            worker.lift(Rule::Terminating);
        }
        Deed::RefuseEdits(time) => {
            weather.count(Fault::EditsRefused, format_args!("{name} for {time:?}"));
            rule_for(worker, Rule::RefusesEdits, "refuses", time).await;
        }
        Deed::Fail(time) => {
            weather.count(Fault::WebhookDown, format_args!("{name} for {time:?}"));
            rule_for(worker, Rule::Fails, "fails", time).await;
        }
        // The others are told in `actors`.
        _ => {}
    }
}

async fn rule_for(worker: &Cluster, rule: Rule, trouble: &'static str, time: Duration) {
    worker.hub().ill(&worker.name, trouble, true);
    worker.impose(rule);
    sleep(time).await;
    worker.lift(rule);
    worker.hub().ill(&worker.name, trouble, false);
}

/// Changes a Job in the light of what it is, with its resourceVersion, as a careful client does: otherwise it would take
/// back what was written meanwhile. `at` is the subresource.
async fn amend(client: &Client, job: &str, at: &str, change: impl Fn(&Value) -> Option<Value>) {
    if etl::collection_of(job) != JOBS {
        return;
    }
    let path = format!("{JOBS}/{job}");
    for _ in 0..TRIES {
        let stored = match kubeio::get::<Value>(client, &path, ANSWER_WITHIN).await {
            Ok(stored) => stored,
            Err(error) if error.refusal().is_none() => continue,
            Err(_) => return,
        };
        let Some(mut change) = change(&stored) else { return };
        change["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
        let change = change.to_string().into_bytes();
        match kubeio::patch(client, &format!("{path}{at}"), Patch::Merge, change, ANSWER_WITHIN).await {
            Err(error) if error.refusal().is_none() || error.is_conflict() => {}
            _ => return,
        }
    }
}

fn list(object: &Value, field: &str) -> Vec<Value> {
    object[field].as_array().cloned().unwrap_or_default()
}

/// With this in place of the placement record, or without one.
fn with_record(stored: &Value, record: Option<&str>) -> Option<Value> {
    let mut all = list(&stored["status"], "conditions");
    let at = all.iter().position(|condition| condition["type"] == conditions::PLACEMENT)?;
    match record {
        Some(record) => all[at]["message"] = record.into(),
        None => drop(all.remove(at)),
    }
    Some(json!({"status": {"conditions": all}}))
}

fn with_finalizer(stored: &Value, kept: bool) -> Value {
    let mut all = list(&stored["metadata"], "finalizers");
    all.retain(|finalizer| finalizer != FINALIZER);
    all.extend(kept.then(|| FINALIZER.into()));
    json!({"metadata": {"finalizers": all}})
}

/// `None`: it has come to an end, or is about to.
fn failed(stored: &Value) -> Option<Value> {
    let mut all = list(&stored["status"], "conditions");
    let ends = ["SuccessCriteriaMet", "FailureTarget", "Complete", "Failed"];
    if all.iter().any(|condition| ends.iter().any(|end| condition["type"] == *end)) {
        return None;
    }
    let now = stored["metadata"]["creationTimestamp"].clone();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "SomebodySaysSo", "message": "", "lastTransitionTime": now});
    all.extend(["FailureTarget", "Failed"].map(condition));
    let start = stored["status"].get("startTime").cloned().unwrap_or(now.clone());
    let counts = json!({"active": 0, "ready": 0, "terminating": 0, "startTime": start, "conditions": all});
    Some(json!({"status": counts}))
}

/// All Jobs go, as their namespace does.
async fn delete_jobs(client: &Client) {
    let list: Value = kubeio::get(client, JOBS, ANSWER_WITHIN).await.unwrap_or_default();
    for job in list["items"].as_array().into_iter().flatten() {
        let name = job["metadata"]["name"].as_str().unwrap_or_default();
        delete(client, &format!("{JOBS}/{name}"), "Background").await;
    }
}
