//! Jobs, created as fast as the server takes them, and watched until each is Complete.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use futures::{StreamExt, pin_mut, stream};
use jobferry_kubeio::{self as kubeio, Collection, Event};
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use serde_json::json;
use tokio::time::Instant;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
/// One creation.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A whole round; a cluster that takes longer is broken.
const DONE_WITHIN: Duration = Duration::from_mins(15);

#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) jobs: usize,
    pub(crate) in_flight: usize,
}

/// What one round showed.
pub(crate) struct Figures {
    /// From the first creation to the last Complete.
    pub(crate) jobs_per_second: f64,
    /// How long each Job took from its creation to Complete, sorted.
    pub(crate) took: Vec<Duration>,
}

/// Measures one round.
pub(crate) async fn run(client: &Client, load: Load) -> Figures {
    // The first Job waits for things that are made once: the node, the namespace's account, connections.
    complete(client, &["warm-up".to_owned()], 1).await;
    let names: Vec<String> = (0..load.jobs).map(|number| format!("job-{number:05}")).collect();
    let begun = Instant::now();
    let mut took = complete(client, &names, load.in_flight).await;
    let seconds = begun.elapsed().as_secs_f64();
    took.sort_unstable();
    #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
    let jobs_per_second = load.jobs as f64 / seconds;
    Figures { jobs_per_second, took }
}

/// Creates these Jobs and waits until all are Complete; how long each took.
async fn complete(client: &Client, names: &[String], in_flight: usize) -> Vec<Duration> {
    let creating = async {
        let sent: Vec<(String, Instant)> = stream::iter(names)
            .map(|name| async move {
                let sent = Instant::now();
                create(client, name).await;
                (name.clone(), sent)
            })
            .buffer_unordered(in_flight)
            .collect()
            .await;
        sent
    };
    let both = async { tokio::join!(creating, completions(client, names)) };
    let (sent, seen) = tokio::time::timeout(DONE_WITHIN, both).await.expect("every Job should be Complete by now");
    sent.into_iter().map(|(name, sent)| seen[&name] - sent).collect()
}

async fn create(client: &Client, name: &str) {
    let container = json!({"name": "main", "image": "none", "command": ["true"]});
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    });
    kubeio::create(client, JOBS, job.to_string().into_bytes(), ANSWER_WITHIN).await.unwrap();
}

/// When each of these Jobs was seen Complete.
async fn completions(client: &Client, names: &[String]) -> HashMap<String, Instant> {
    let jobs = Collection::new(JOBS, |job: &Job| job.metadata.resource_version.as_deref().unwrap_or_default());
    let stream = kubeio::watch(client.clone(), jobs);
    pin_mut!(stream);
    let mut waiting: HashSet<&str> = names.iter().map(String::as_str).collect();
    let mut seen = HashMap::new();
    while !waiting.is_empty() {
        let jobs = match stream.next().await.expect("a watch has no end") {
            Event::Reset(jobs) => jobs,
            Event::Applied(job) => vec![job],
            _ => continue,
        };
        for job in jobs.into_iter().filter(is_complete) {
            let name = job.metadata.name.unwrap_or_default();
            if waiting.remove(name.as_str()) {
                seen.insert(name, Instant::now());
            }
        }
    }
    seen
}

fn is_complete(job: &Job) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Complete" && condition.status == "True")
}
