//! `jobferry demo`: a management cluster and three workers come up in this process, six Jobs go out and come back, and one
//! worker is cut off in between.

mod jobs;
mod view;

use std::{collections::BTreeMap, pin::pin, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use futures::{Stream, StreamExt};
use jobferry_api::annotations;
use jobferry_kubeio::{self as kubeio, Collection, Event, Patch};
use k8s_openapi::api::batch::v1::Job;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    dispatcher::{log_to_stderr, stop_on_signal},
    fleet::{
        Fleet, FleetPlan, WorkerPlan,
        home::{Home, scratch},
    },
    install::DEADLINE,
    job::explain,
    table::Table,
    worker,
};
use jobs::{CUT_OFF, DemoJob, PATIENT, TRAVELLER, outcome};
use view::View;

/// The Jobs take seconds; everything beyond this is a fault worth an error.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// How long the worker is cut off. Its Job goes on there, and ends after it.
const CUT_OFF_FOR: Duration = Duration::from_secs(3);
const RECONNECTED_WITHIN_SECONDS: u64 = 30;
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// Runs the demo. Success means that every Job ended as it should, where it should, and ran once.
pub(crate) async fn run() -> anyhow::Result<ExitCode> {
    log_to_stderr(false, "off");
    let shutdown = CancellationToken::new();
    tokio::spawn(stop_on_signal(shutdown.clone()));
    let directory = scratch("jobferry-demo-")?;
    let started = Instant::now();
    println!("--- a management cluster and three workers start in this process");
    let mut fleet = Fleet::start(&Home::at(directory.path().to_owned()), &plan(), false).await?;
    let jobs = jobs::all();
    let shown = tokio::select! {
        shown = tokio::time::timeout(ENDS_WITHIN, show(&mut fleet, &jobs)) => shown,
        () = shutdown.cancelled() => bail!("interrupted"),
    };
    let ended = shown.with_context(|| format!("the Jobs did not end within {} s", ENDS_WITHIN.as_secs()))??;
    let as_expected = summarize(&jobs, &ended, &pods(&fleet).await?);
    fleet.stop().await;
    if !as_expected {
        bail!("a Job did not end as expected");
    }
    println!("all of it took {} s\n", started.elapsed().as_secs());
    println!("next: jobferry up                  such a fleet, kept running for your own kubectl");
    println!("      jobferry explain -f JOB.yaml where a Job of yours would go, and why");
    println!("      docs/quick-start.md          the same on clusters of your own");
    Ok(ExitCode::SUCCESS)
}

/// Three workers that differ.
fn plan() -> FleetPlan {
    let worker = |name: &str, labels: &[(&str, &str)]| WorkerPlan {
        name: name.into(),
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..WorkerPlan::default()
    };
    FleetPlan {
        workers: vec![
            worker("worker-1", &[("region", "eu"), ("price", "low")]),
            worker(CUT_OFF, &[("region", "us"), ("price", "high"), ("gpu", "a100")]),
            worker("worker-3", &[("region", "us"), ("price", "low")]),
        ],
    }
}

/// Submits the Jobs and shows what becomes of them; returns them as they ended.
async fn show(fleet: &mut Fleet, jobs: &[DemoJob]) -> anyhow::Result<BTreeMap<String, Job>> {
    println!("--- submitted to the manager, most with spec.managedBy: {}", jobferry_api::managed_by::DISPATCHER);
    let width = jobs.iter().map(|job| job.name.len()).max().unwrap_or_default();
    for job in jobs {
        println!("    {:<width$}  {}", job.name, job.tells);
        let created = kubeio::create(fleet.manager(), JOBS, job.manifest().to_string().into_bytes(), DEADLINE).await;
        created.with_context(|| format!("cannot submit Job {}", job.name))?;
    }
    let collection = Collection::new(JOBS, |job: &Job| job.metadata.resource_version.as_deref().unwrap_or_default());
    let mut events = pin!(kubeio::watch(fleet.manager().clone(), collection));
    let mut view = View::new(jobs);
    let mut ended = BTreeMap::new();

    // Until the Job runs on the worker that is to be cut off.
    let runs = |job: &Job| job.status.as_ref().is_some_and(|status| status.active == Some(1));
    let on_its_way = |job: &Job| job.metadata.name.as_deref() == Some(TRAVELLER) && runs(job);
    follow(&mut events, &mut view, &mut ended, |changed, _| changed.iter().any(on_its_way)).await;

    view.tell(&format!("{PATIENT} waits; `jobferry explain {PATIENT}` says why"));
    view.quote(&explain::verdicts(fleet.manager(), "default", PATIENT).await?);

    let away = fleet.worker(CUT_OFF).context("the demo has no such worker")?;
    away.cut_off().await;
    view.tell(&format!("{CUT_OFF} is cut off: {TRAVELLER} goes on there, and is not started elsewhere"));
    let back = tokio::time::timeout(CUT_OFF_FOR, follow(&mut events, &mut view, &mut ended, |_, _| false));
    // The time is what ends it.
    let _ = back.await;
    let away = fleet.worker(CUT_OFF).context("the demo has no such worker")?;
    away.reconnect().await?;
    worker::wait_until_connected(fleet.manager(), CUT_OFF, RECONNECTED_WITHIN_SECONDS).await?;
    view.tell(&format!("{CUT_OFF} is back"));

    view.tell(&format!("{PATIENT} gets another selector: region=eu"));
    let corrected = json!({"metadata": {"annotations": {annotations::WORKER_SELECTOR: "region=eu"}}});
    let path = format!("{JOBS}/{PATIENT}");
    kubeio::patch(fleet.manager(), &path, Patch::Merge, corrected.to_string().into_bytes(), DEADLINE).await?;
    follow(&mut events, &mut view, &mut ended, |_, ended| ended.len() == jobs.len()).await;
    Ok(ended)
}

/// Shows what changes until there is `enough`.
async fn follow(
    events: &mut (impl Stream<Item = Event<Job>> + Unpin),
    view: &mut View,
    ended: &mut BTreeMap<String, Job>,
    enough: impl Fn(&[Job], &BTreeMap<String, Job>) -> bool,
) {
    while let Some(event) = events.next().await {
        let changed = match event {
            Event::Reset(jobs) => jobs,
            Event::Applied(job) => vec![job],
            _ => continue,
        };
        for job in &changed {
            view.show(job);
            if outcome(job).is_some() {
                ended.insert(job.metadata.name.clone().unwrap_or_default(), job.clone());
            }
        }
        if enough(&changed, ended) {
            return;
        }
    }
}

/// How many pods each Job got, on each cluster.
async fn pods(fleet: &Fleet) -> anyhow::Result<BTreeMap<String, BTreeMap<String, usize>>> {
    #[derive(Deserialize)]
    struct Pods {
        items: Vec<Pod>,
    }
    #[derive(Deserialize)]
    struct Pod {
        metadata: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(default)]
        labels: BTreeMap<String, String>,
    }
    let mut counts: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for (cluster, client) in fleet.clients() {
        let pods: Pods = kubeio::get(client, "/api/v1/namespaces/default/pods", DEADLINE).await?;
        for mut pod in pods.items {
            let Some(job) = pod.metadata.labels.remove("batch.kubernetes.io/job-name") else { continue };
            *counts.entry(job).or_default().entry(cluster.to_owned()).or_default() += 1;
        }
    }
    Ok(counts)
}

fn summarize(
    jobs: &[DemoJob],
    ended: &BTreeMap<String, Job>,
    pods: &BTreeMap<String, BTreeMap<String, usize>>,
) -> bool {
    let mut table = Table::new(["JOB", "CLUSTER", "STATUS", "COMPLETIONS", "INDEXES", "PODS", "EXPECTED"]);
    let mut all_good = true;
    for expected in jobs {
        let Some(job) = ended.get(expected.name) else { return false };
        let ran_on = pods.get(expected.name).cloned().unwrap_or_default();
        let clusters: Vec<_> = ran_on.keys().map(String::as_str).collect();
        let (outcome, count) = (outcome(job).unwrap_or("-"), ran_on.values().sum::<usize>());
        let right_place = clusters.len() == 1 && expected.place.is_none_or(|place| clusters == [place]);
        let good = right_place && outcome == expected.outcome && count == expected.pods;
        all_good &= good;
        table.row([
            expected.name.into(),
            clusters.join(","),
            outcome.into(),
            jobs::completions(job),
            job.status.as_ref().and_then(|status| status.completed_indexes.clone()).unwrap_or_else(|| "-".into()),
            count.to_string(),
            if good { "yes".into() } else { format!("no: {}, {} pods", expected.outcome, expected.pods) },
        ]);
    }
    print!("\n{table}");
    println!("\neach Job ran in one cluster, each pod once: {}", if all_good { "yes" } else { "NO" });
    all_good
}
