//! The bare client: what the API servers allow to whoever does nothing but the writes of the budget.
//!
//! It sees a Job and sends a placement and a mirror; it sees the mirror active and ended and sends each to the manager. It
//! knows nothing of what others may have done, checks nothing, and would lose Jobs at the first surprise. Bodies have
//! the form and about the size of Jobferry's.

use std::{collections::HashMap, path::PathBuf, pin::pin, sync::Arc, time::Duration};

use futures::StreamExt;
use jobferry_kubeio::{self as kubeio, Collection, Event, Patch};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tokio::{
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
};

use crate::fleet::NAMESPACE;

/// How this program is told to be the floor.
pub(crate) const ROLE: &str = "floor";

const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Requests under way, as in Jobferry's lanes.
const MANAGER_CONCURRENCY: usize = 32;
const WORKER_CONCURRENCY: usize = 16;
/// Stands for the identities that Jobferry writes.
const UID: &str = "00000000-0000-0000-0000-000000000000";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[arg(long)]
    manager: PathBuf,
    #[arg(long)]
    worker: Vec<PathBuf>,
}

/// A cluster, and how many requests it may be sent at once.
#[derive(Clone)]
struct Lane {
    client: Client,
    turns: Arc<Semaphore>,
}

#[derive(Deserialize)]
struct Job {
    metadata: Meta,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: String,
    resource_version: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Status {
    active: Option<i32>,
    start_time: Option<String>,
    completion_time: Option<String>,
    conditions: Option<Box<RawValue>>,
}

pub(crate) async fn run(arguments: Arguments) {
    // A write that failed is a Job that never ends: better to end at once.
    let complain = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        complain(info);
        std::process::exit(1);
    }));
    let manager = Lane::open(arguments.manager, MANAGER_CONCURRENCY).await;
    let mut workers = Vec::new();
    for kubeconfig in arguments.worker {
        workers.push(Lane::open(kubeconfig, WORKER_CONCURRENCY).await);
    }
    let mut watches = JoinSet::new();
    for worker in &workers {
        watches.spawn(copy_statuses(manager.clone(), worker.client.clone()));
    }
    watches.spawn(place(manager, workers));
    watches.join_all().await;
}

/// Every new Job goes to the next worker.
async fn place(manager: Lane, workers: Vec<Lane>) {
    let mut turn = workers.iter().cycle();
    let mut placed = HashMap::new();
    let mut events = pin!(kubeio::watch(manager.client.clone(), jobs()));
    while let Some(event) = events.next().await {
        for job in applied(event) {
            placed.entry(job.metadata.name).or_insert_with_key(|name| {
                let (manager, worker, name) = (manager.clone(), turn.next().unwrap().clone(), name.clone());
                tokio::spawn(async move {
                    manager.patch(&name, placement()).await;
                    worker.create(mirror(&name)).await;
                })
            });
        }
    }
}

/// Every mirror's first activity and end go to the manager, in this order.
async fn copy_statuses(manager: Lane, worker: Client) {
    let mut copies: HashMap<String, (bool, JoinHandle<()>)> = HashMap::new();
    let mut events = pin!(kubeio::watch(worker, jobs()));
    while let Some(event) = events.next().await {
        for job in applied(event) {
            let Status { active, start_time, completion_time, conditions } = job.status;
            let ended = completion_time.is_some();
            let body = match copies.get(&job.metadata.name) {
                None if !ended && active.is_some() => {
                    json!({"status": {"active": 1, "ready": 0, "startTime": start_time}})
                }
                before if ended && before.is_none_or(|(ended, _)| !ended) => json!({"status": {
                    "active": null, "ready": 0, "succeeded": 1, "startTime": start_time,
                    "completionTime": completion_time, "conditions": conditions,
                }}),
                _ => continue,
            };
            let (manager, name) = (manager.clone(), job.metadata.name.clone());
            let before = copies.remove(&name);
            let copy = tokio::spawn(async move {
                if let Some((_, before)) = before {
                    before.await.unwrap();
                }
                manager.patch(&name, body.to_string()).await;
            });
            copies.insert(job.metadata.name, (ended, copy));
        }
    }
}

impl Lane {
    async fn open(kubeconfig: PathBuf, concurrency: usize) -> Self {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        config.default_retry = false;
        config.proxy_url = None;
        let turns = Arc::new(Semaphore::new(concurrency));
        Self { client: Client::try_from(config).unwrap(), turns }
    }

    async fn patch(&self, name: &str, body: String) {
        let _turn = self.turns.acquire().await.unwrap();
        let path = format!("{}/{name}/status", path());
        kubeio::patch(&self.client, &path, Patch::Strategic, body.into_bytes(), ANSWER_WITHIN).await.unwrap();
    }

    async fn create(&self, body: String) {
        let _turn = self.turns.acquire().await.unwrap();
        kubeio::create(&self.client, &path(), body.into_bytes(), ANSWER_WITHIN).await.unwrap();
    }
}

fn path() -> String {
    format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
}

fn jobs() -> Collection<Job> {
    Collection::new(path(), |job: &Job| &job.metadata.resource_version)
}

fn applied(event: Event<Job>) -> Vec<Job> {
    match event {
        Event::Reset(jobs) => jobs,
        Event::Applied(job) => vec![job],
        Event::Deleted(_) | Event::Interrupted(_) | Event::Resumed => Vec::new(),
    }
}

fn placement() -> String {
    let time = "2026-01-01T00:00:00Z";
    let record = json!({"v": 1, "worker": "worker-1", "identity": UID, "epoch": 1, "since": time}).to_string();
    let condition = |type_: &str, message: &str| {
        json!({
            "type": type_, "status": "True", "reason": "Placed", "message": message,
            "lastProbeTime": time, "lastTransitionTime": time,
        })
    };
    let conditions = [condition("jobferry.dev/Placement", &record), condition("jobferry.dev/Placed", "on worker-1")];
    let labels = json!({"jobferry.dev/worker": "worker-1"});
    json!({"metadata": {"labels": labels}, "status": {"conditions": conditions}}).to_string()
}

fn mirror(name: &str) -> String {
    let annotations = json!({
        "jobferry.dev/origin-uid": UID, "jobferry.dev/epoch": "1", "jobferry.dev/manager-resource-version": "1000",
        "jobferry.dev/forwarded": "backoffLimit,completions,parallelism,suspend 0123456789abcdef0123456789abcdef",
    });
    let container = json!({"name": "main", "image": "work", "command": ["true"]});
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "labels": {"jobferry.dev/origin": UID}, "annotations": annotations},
        "spec": {
            "ttlSecondsAfterFinished": 2_592_000,
            "template": {
                "metadata": {"labels": {"jobferry.dev/origin-uid": UID}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    })
    .to_string()
}
