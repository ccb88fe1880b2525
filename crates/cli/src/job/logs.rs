//! `jobferry logs`: the output of a Job's pods, wherever they run.
//!
//! The worker is found by a context of its name in the kubeconfig, as `jobferry up` writes it. A Job that is followed is
//! followed to every worker that it is placed on, one after the other.

mod copy;
mod pods;

use std::{pin::pin, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use futures::{Stream, StreamExt, stream::BoxStream};
use jobferry_kubeio::{self as kubeio, Event};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::Client;

use super::{Outage, Phase, Scope, View, collection, is_dispatched, job_name, path_of, read};
use crate::{dispatcher::wall_clock, target::Target};
use copy::Copier;

/// After the end of a Job its last lines may still be on their way.
const LAST_LINES: Duration = Duration::from_secs(5);

/// Flags of `jobferry logs`.
#[derive(clap::Args)]
#[command(after_help = "Exit codes with -f: 0 the Job is complete, 100 it failed, 1 an error.")]
pub(crate) struct Args {
    #[command(flatten)]
    scope: Scope,
    /// Name of the Job
    #[arg(value_name = "JOB", value_parser = job_name)]
    name: String,
    /// Go on until the Job has ended; waits for its placement and its pods
    #[arg(short, long)]
    follow: bool,
}

/// Prints the logs.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (manager, namespace) = args.scope.connect().await?;
    let name = &args.name;
    let job: Job = read(&manager, &namespace, name).await?;
    if args.follow {
        return follow(&args.scope.target, manager, &namespace, job).await;
    }
    let view = View::of(&job, wall_clock());
    let cluster = match view.place.as_deref().filter(|_| is_dispatched(&job)) {
        Some(worker) => on_worker(&args.scope.target, worker).await?,
        None if is_dispatched(&job) => bail!("job {name} has no logs yet, it waits: {}; -f waits along", view.why),
        None => manager,
    };
    let mut copier = Copier::new(&namespace, &job);
    if !copier.copy_all(&cluster, pods::list(&cluster, &namespace, &job).await?).await? {
        eprintln!(
            "job {name} has no pods with logs {}",
            if view.phase.is_end() { "any more" } else { "yet; -f waits" }
        );
    }
    Ok(ExitCode::SUCCESS)
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
        Ok(Self { worker, cluster, pods })
    }
}

/// From wherever the Job is now to its end.
async fn follow(target: &Target, manager: Client, namespace: &str, job: Job) -> anyhow::Result<ExitCode> {
    let name = job.metadata.name.clone().unwrap_or_default();
    let only_it = collection(path_of(namespace)).fields(format!("metadata.name={name}"));
    let mut jobs = pin!(kubeio::watch(manager.clone(), only_it));
    let mut copier = Copier::new(namespace, &job);
    let mut place: Option<Place> = None;
    let (mut seen, mut told, mut outage) = (job, String::new(), Outage::default());
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
            (cluster, pods) = next_pods(&mut place) => copier.follow(&cluster, &pods),
        }
    };
    // Whatever is not there by then will not come.
    let _ = tokio::time::timeout(LAST_LINES, copier.end()).await;
    if let Some(Place { cluster, .. }) = place {
        copier.copy_all(&cluster, pods::list(&cluster, namespace, &seen).await?).await?;
    }
    Ok(if end == Phase::Failed { ExitCode::from(super::wait::FAILED) } else { ExitCode::SUCCESS })
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
                outage.begin(&error);
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

/// The next pods that changed, and their cluster.
async fn next_pods(place: &mut Option<Place>) -> (Client, Vec<Pod>) {
    let Some(place) = place else { return std::future::pending().await };
    loop {
        match place.pods.next().await {
            Some(Event::Reset(pods)) => return (place.cluster.clone(), pods),
            Some(Event::Applied(pod)) => return (place.cluster.clone(), vec![pod]),
            Some(_) => {}
            None => return std::future::pending().await,
        }
    }
}
