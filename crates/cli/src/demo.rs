//! `jobferry demo`: a management cluster and two workers come up in this process, three Jobs go out and come back.

mod jobs;

use std::{collections::BTreeMap, pin::pin, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use futures::StreamExt;
use jobferry_api::labels;
use jobferry_kubeio::{self as kubeio, Collection, Event};
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::{
    dispatcher::{log_to_stderr, stop_on_signal},
    fleet::{Fleet, WorkerPlan},
    install::DEADLINE,
};
use jobs::{DemoJob, outcome};

/// The Jobs sleep for a second at most; everything beyond that is a fault worth an error.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Runs the demo. Success means that every Job ended as it should.
pub(crate) async fn run() -> anyhow::Result<ExitCode> {
    log_to_stderr(false, "error");
    let shutdown = CancellationToken::new();
    tokio::spawn(stop_on_signal(shutdown.clone()));
    let directory = tempfile::tempdir().context("no temporary directory for the pods' files")?;
    println!("starting a management cluster and two workers in this process ...");
    let worker = |name: &str, region: &str| WorkerPlan {
        name: name.into(),
        labels: BTreeMap::from([("region".into(), region.into())]),
    };
    let fleet = Fleet::start(directory.path(), &[worker("worker-1", "eu"), worker("worker-2", "us")]).await?;
    println!("connected; submitting Jobs with spec.managedBy: {}\n", jobferry_api::managed_by::DISPATCHER);
    let jobs = jobs::all();
    for job in &jobs {
        let created = kubeio::create(fleet.manager(), JOBS, job.manifest().to_string().into_bytes(), DEADLINE).await;
        created.with_context(|| format!("cannot submit Job {}", job.name))?;
    }
    let ended = tokio::select! {
        ended = tokio::time::timeout(ENDS_WITHIN, follow(fleet.manager(), &jobs)) => ended,
        () = shutdown.cancelled() => bail!("interrupted"),
    };
    let as_expected = match ended {
        Ok(ended) => summarize(&jobs, &ended),
        Err(_) => bail!("the Jobs did not end within {} s", ENDS_WITHIN.as_secs()),
    };
    fleet.stop().await;
    if !as_expected {
        bail!("a Job did not end as expected");
    }
    println!("\nnext: `jobferry up` keeps such a fleet running for your own kubectl");
    Ok(ExitCode::SUCCESS)
}

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// Prints what happens until every Job has ended; returns them as they ended.
async fn follow(manager: &Client, jobs: &[DemoJob]) -> BTreeMap<String, Job> {
    let collection = Collection::new(JOBS, |job: &Job| job.metadata.resource_version.as_deref().unwrap_or_default());
    let mut events = pin!(kubeio::watch(manager.clone(), collection));
    let (mut lines, mut ended) = (BTreeMap::new(), BTreeMap::new());
    while ended.len() < jobs.len() {
        let changed = match events.next().await {
            Some(Event::Reset(jobs)) => jobs,
            Some(Event::Applied(job)) => vec![job],
            Some(_) => continue,
            None => break,
        };
        for job in changed {
            let name = job.metadata.name.clone().unwrap_or_default();
            let line = format!("{name:<8} {:<10} {}", worker(&job), progress(&job));
            if lines.get(&name) != Some(&line) {
                println!("{line}");
                lines.insert(name.clone(), line);
            }
            if outcome(&job).is_some() {
                ended.insert(name, job);
            }
        }
    }
    ended
}

fn summarize(jobs: &[DemoJob], ended: &BTreeMap<String, Job>) -> bool {
    println!("\n{:<8} {:<10} {:<10} {:<12} {:<10} EXPECTED", "JOB", "WORKER", "STATUS", "COMPLETIONS", "INDEXES");
    let mut all_good = true;
    for expected in jobs {
        let Some(job) = ended.get(expected.name) else { return false };
        let status = job.status.clone().unwrap_or_default();
        let outcome = outcome(job).unwrap_or("-");
        let good = outcome == expected.outcome && worker(job) != "-";
        all_good &= good;
        println!(
            "{:<8} {:<10} {:<10} {:<12} {:<10} {}",
            expected.name,
            worker(job),
            outcome,
            completions(job),
            status.completed_indexes.as_deref().unwrap_or("-"),
            if good { "yes".into() } else { format!("no: {}", expected.outcome) },
        );
    }
    all_good
}

fn worker(job: &Job) -> &str {
    job.metadata.labels.as_ref().and_then(|labels| labels.get(labels::WORKER)).map_or("-", String::as_str)
}

fn completions(job: &Job) -> String {
    let succeeded = job.status.as_ref().and_then(|status| status.succeeded).unwrap_or(0);
    format!("{succeeded}/{}", job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or(1))
}

fn progress(job: &Job) -> String {
    let active = job.status.as_ref().and_then(|status| status.active).unwrap_or(0);
    match outcome(job) {
        Some(outcome) => format!("{outcome}, {} done", completions(job)),
        None if worker(job) == "-" => "waiting".into(),
        None if active > 0 => format!("running, {} done", completions(job)),
        None => "placed".into(),
    }
}
