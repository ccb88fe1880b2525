//! `jobferry logs`: the output of a Job's pods, wherever they run.
//!
//! The worker is found by a context of its name in the kubeconfig, as `jobferry up` writes it. A Job that is followed is
//! followed to every worker that it is placed on, one after the other.

mod copy;
mod log;
mod pods;

use std::{pin::pin, process::ExitCode};

use anyhow::{Context as _, bail, ensure};
use futures::{Stream, StreamExt, stream::BoxStream};
use jobferry_kubeio::{self as kubeio, CallError, Event};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::Client;
use tokio::time::Instant;

use super::{Outage, Phase, Scope, View, collection, is_dispatched, job_name, path_of, read};
use crate::{dispatcher::wall_clock, target::Target};
use copy::Copier;

/// Flags of `jobferry logs`.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 all that there is was printed (with -f: and the Job is complete), 100 with -f the Job failed, \
                  1 an error: no logs, or some that could not be read."
)]
pub(crate) struct Args {
    #[command(flatten)]
    scope: Scope,
    /// Name of the Job
    #[arg(value_name = "JOB", value_parser = job_name)]
    name: String,
    /// Go on until the Job has ended; waits for its placement and its pods
    #[arg(short, long)]
    follow: bool,
    /// Print lines as the pods wrote them, without the pod's name before each
    #[arg(long)]
    no_prefix: bool,
}

/// Prints the logs.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (manager, namespace) = args.scope.connect().await?;
    let name = &args.name;
    let job: Job = read(&manager, &namespace, name).await?;
    let mut copier = Copier::new(&namespace, &job, !args.no_prefix);
    if args.follow {
        return follow(&args.scope.target, manager, &namespace, job, copier).await;
    }
    let view = View::of(&job, wall_clock());
    let worker = view.place.filter(|_| is_dispatched(&job));
    let cluster = match &worker {
        Some(worker) => on_worker(&args.scope.target, worker).await?,
        None if is_dispatched(&job) && view.why.is_empty() => {
            bail!("job {name} has no logs yet, it is {:?}; -f waits along", view.phase)
        }
        None if is_dispatched(&job) => bail!("job {name} has no logs yet, it waits: {}; -f waits along", view.why),
        None => manager,
    };
    copier.copy_all(&cluster, &list(&cluster, &namespace, &job, worker.as_deref()).await?).await;
    let yet = if view.phase.is_end() { "any more" } else { "yet; -f waits for them" };
    ensure!(copier.has_something(), "job {name} has no logs {yet}");
    Ok(if copier.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn list(cluster: &Client, namespace: &str, job: &Job, worker: Option<&str>) -> anyhow::Result<Vec<Pod>> {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let what = format!("the pods of job {name} on {} cannot be listed", worker.unwrap_or("the management cluster"));
    match (pods::list(cluster, namespace, job).await, worker) {
        (Err(error @ (CallError::Transport(_) | CallError::Deadline(_))), Some(worker)) => {
            bail!("{what}: {error}; check that the cluster runs, and the context {worker} of the kubeconfig")
        }
        (listed, _) => listed.context(what),
    }
}

async fn on_worker(target: &Target, worker: &str) -> anyhow::Result<Client> {
    target.in_context(worker).client().await.with_context(|| {
        format!(
            "the logs are on worker {worker}, whose context is needed in the kubeconfig, with the right to get pods/log"
        )
    })
}

/// Where the pods of a Job are.
struct Place {
    /// None: on the manager.
    worker: Option<String>,
    cluster: Client,
    pods: BoxStream<'static, Event<Pod>>,
    outage: Outage,
}

impl Place {
    async fn open(
        target: &Target,
        manager: &Client,
        namespace: &str,
        job: &Job,
        worker: Option<String>,
    ) -> anyhow::Result<Self> {
        let cluster = match &worker {
            Some(worker) => on_worker(target, worker).await?,
            None => manager.clone(),
        };
        let pods = kubeio::watch(cluster.clone(), pods::of(namespace, job)).boxed();
        let outage = Outage::of(worker.as_ref().map_or("the cluster".to_owned(), |worker| format!("worker {worker}")));
        Ok(Self { worker, cluster, pods, outage })
    }

    /// The next pods that changed.
    async fn next_pods(&mut self) -> anyhow::Result<Vec<Pod>> {
        while let Some(event) = self.pods.next().await {
            let pods = match event {
                Event::Reset(pods) => pods,
                Event::Applied(pod) => vec![pod],
                Event::Interrupted(error) => {
                    self.outage.begin(error, Instant::now()).context("the Job's pods cannot be watched")?;
                    continue;
                }
                Event::Deleted(_) | Event::Resumed => Vec::new(),
            };
            self.outage.end();
            return Ok(pods);
        }
        bail!("the Job's pods cannot be watched any more")
    }
}

/// From wherever the Job is now to its end.
async fn follow(
    target: &Target,
    manager: Client,
    namespace: &str,
    job: Job,
    mut copier: Copier,
) -> anyhow::Result<ExitCode> {
    let name = job.metadata.name.clone().unwrap_or_default();
    let only_it = collection(path_of(namespace)).fields(format!("metadata.name={name}"));
    let mut jobs = pin!(kubeio::watch(manager.clone(), only_it));
    let mut place: Option<Place> = None;
    let (mut seen, mut told, mut outage) = (job, String::new(), Outage::of("the cluster"));
    let end = loop {
        let view = View::of(&seen, wall_clock());
        if view.why != told && !view.why.is_empty() && !view.phase.is_end() {
            eprintln!("{name} waits: {}", view.why);
        }
        told.clone_from(&view.why);
        // A dispatched Job has no pods before it has a place, nor while it moves to another one.
        let has_place = !is_dispatched(&seen) || (view.place.is_some() && view.phase != Phase::Waiting);
        let worker = view.place.filter(|_| is_dispatched(&seen));
        if has_place && place.as_ref().is_none_or(|place| place.worker != worker) {
            if let Some(worker) = &worker {
                eprintln!("{name} is on {worker}");
            }
            place = Some(Place::open(target, &manager, namespace, &seen, worker).await?);
        }
        if view.phase.is_end() {
            break view.phase;
        }
        tokio::select! {
            state = next_state(&mut jobs, &seen, &mut outage) => seen = state?,
            pods = next_pods(&mut place) => if let Some(Place { cluster, .. }) = &place { copier.follow(cluster, &pods?) },
        }
    };
    copier.end().await;
    if let Some(Place { cluster, worker, .. }) = place {
        copier.copy_all(&cluster, &list(&cluster, namespace, &seen, worker.as_deref()).await?).await;
    }
    Ok(match end {
        Phase::Failed => ExitCode::from(super::wait::FAILED),
        _ if copier.is_whole() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// The next pods that changed, once there is a place where pods can be.
async fn next_pods(place: &mut Option<Place>) -> anyhow::Result<Vec<Pod>> {
    match place {
        Some(place) => place.next_pods().await,
        None => std::future::pending().await,
    }
}

/// The next state of this Job. A cluster that does not answer is waited for.
async fn next_state(
    jobs: &mut (impl Stream<Item = Event<Job>> + Unpin),
    job: &Job,
    outage: &mut Outage,
) -> anyhow::Result<Job> {
    let (name, uid) = (job.metadata.name.clone().unwrap_or_default(), &job.metadata.uid);
    while let Some(event) = jobs.next().await {
        let found = match event {
            Event::Reset(jobs) => jobs.into_iter().find(|job| job.metadata.uid == *uid),
            Event::Applied(job) => Some(job).filter(|job| job.metadata.uid == *uid),
            Event::Deleted(_) => None,
            Event::Interrupted(error) => {
                let what = || format!("job {name} cannot be watched");
                outage.begin(error, Instant::now()).with_context(what)?;
                continue;
            }
            Event::Resumed => {
                outage.end();
                continue;
            }
        };
        outage.end();
        return found.with_context(|| format!("job {name} was deleted"));
    }
    bail!("job {name} cannot be watched any more")
}
