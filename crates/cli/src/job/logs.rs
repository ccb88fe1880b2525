//! `jobferry logs`: the output of a Job's pods, wherever they run.
//!
//! The worker is found by a context of its name in the kubeconfig, as `jobferry up` writes it.

use std::{collections::BTreeSet, pin::pin, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use bytes::BytesMut;
use futures::{Stream, StreamExt};
use http::Request;
use http_body_util::BodyExt;
use jobferry_api::labels;
use jobferry_kubeio::{self as kubeio, Collection, Event};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Client, client::Body};
use tokio::task::JoinSet;

use super::{Phase, Scope, View, collection, is_dispatched, path_of, read};
use crate::{install::DEADLINE, target::Target};

/// After the end of a Job its last lines may still be on their way.
const LAST_LINES: Duration = Duration::from_secs(5);

/// Flags of `jobferry logs`.
#[derive(clap::Args)]
#[command(after_help = "Exit codes with -f: 0 the Job is complete, 100 it failed, 1 an error.")]
pub(crate) struct Args {
    #[command(flatten)]
    scope: Scope,
    /// Name of the Job
    #[arg(value_name = "JOB")]
    name: String,
    /// Go on until the Job has ended; waits for its placement and its pods
    #[arg(short, long)]
    follow: bool,
}

/// Prints the logs.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (manager, namespace) = args.scope.connect().await?;
    let name = args.name.trim_start_matches("job/");
    let job = read(&manager, &namespace, name).await?;
    if !args.follow {
        let view = View::of(&job);
        let cluster = match view.place.as_deref().filter(|_| is_dispatched(&job)) {
            Some(worker) => on_worker(&args.scope.target, worker).await?,
            None if is_dispatched(&job) => bail!("job {name} has no logs yet, it waits: {}; -f waits along", view.why),
            None => manager,
        };
        print_all(&cluster, &namespace, &job).await?;
        return Ok(ExitCode::SUCCESS);
    }
    follow(&args, manager, &namespace, job).await
}

async fn on_worker(target: &Target, worker: &str) -> anyhow::Result<Client> {
    target.in_context(worker).client().await.with_context(|| {
        format!("the logs are on worker {worker}; the kubeconfig needs a context of that name, with `get pods/log`")
    })
}

/// The pods of exactly this Job: an earlier one of its name may have left some.
fn pods_of(namespace: &str, job: &Job) -> Collection<Pod> {
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let label = if is_dispatched(job) { labels::ORIGIN_UID } else { "batch.kubernetes.io/controller-uid" };
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let pods = Collection::new(path, |pod: &Pod| pod.metadata.resource_version.as_deref().unwrap_or_default());
    pods.labels(format!("{label}={uid}"))
}

/// What is there, pod by pod in the order of their creation.
async fn print_all(cluster: &Client, namespace: &str, job: &Job) -> anyhow::Result<()> {
    let mut events = pin!(kubeio::watch(cluster.clone(), pods_of(namespace, job)));
    let mut pods = match events.next().await {
        Some(Event::Reset(pods)) => pods,
        Some(Event::Interrupted(error)) => return Err(error).context("cannot list the pods"),
        _ => Vec::new(),
    };
    pods.retain(has_started);
    pods.sort_by(|a, b| a.metadata.creation_timestamp.cmp(&b.metadata.creation_timestamp));
    let prefixed = pods.len() > 1;
    for pod in &pods {
        print_log(cluster, namespace, &name_of(pod), prefixed, false).await?;
    }
    Ok(())
}

/// From wherever the Job is now to its end.
async fn follow(args: &Args, manager: Client, namespace: &str, job: Job) -> anyhow::Result<ExitCode> {
    let name = job.metadata.name.clone().unwrap_or_default();
    let many = |count: Option<i32>| count.is_some_and(|count| count > 1);
    let prefixed = job.spec.as_ref().is_some_and(|spec| many(spec.completions) || many(spec.parallelism));
    let mut jobs = pin!(kubeio::watch(manager.clone(), collection(path_of(namespace))));
    let mut seen = job;
    let mut told = String::new();
    // A dispatched Job has no pods before it has a place.
    let cluster = loop {
        let view = View::of(&seen);
        match view.place {
            _ if !is_dispatched(&seen) => break manager,
            Some(worker) => break on_worker(&args.scope.target, &worker).await?,
            None if view.phase.is_end() => return Ok(exit_code(view.phase)),
            None if view.why != told => eprintln!("{name} waits: {}", view.why),
            None => {}
        }
        told = view.why;
        seen = next_state(&mut jobs, &name).await?;
    };
    let mut pods = pin!(kubeio::watch(cluster.clone(), pods_of(namespace, &seen)));
    let (mut followed, mut logs) = (BTreeSet::new(), JoinSet::new());
    let end = loop {
        let phase = View::of(&seen).phase;
        if phase.is_end() {
            break phase;
        }
        tokio::select! {
            state = next_state(&mut jobs, &name) => seen = state?,
            event = pods.next() => {
                let pods = match event {
                    Some(Event::Reset(pods)) => pods,
                    Some(Event::Applied(pod)) => vec![pod],
                    _ => Vec::new(),
                };
                for pod in pods.iter().filter(|pod| has_started(pod)) {
                    let (cluster, namespace, pod) = (cluster.clone(), namespace.to_owned(), name_of(pod));
                    if followed.insert(pod.clone()) {
                        logs.spawn(async move { print_log(&cluster, &namespace, &pod, prefixed, true).await });
                    }
                }
            }
        }
    };
    let all_copied = async { while logs.join_next().await.is_some() {} };
    // Whatever is not there by then will not come.
    let _ = tokio::time::timeout(LAST_LINES, all_copied).await;
    if followed.is_empty() {
        print_all(&cluster, namespace, &seen).await?;
    }
    Ok(exit_code(end))
}

fn exit_code(end: Phase) -> ExitCode {
    if end == Phase::Failed { ExitCode::from(super::wait::FAILED) } else { ExitCode::SUCCESS }
}

/// The next state of this Job. A cluster that does not answer is waited for.
async fn next_state(jobs: &mut (impl Stream<Item = Event<Job>> + Unpin), name: &str) -> anyhow::Result<Job> {
    let is_it = |job: &Job| job.metadata.name.as_deref() == Some(name);
    while let Some(event) = jobs.next().await {
        let changed = match event {
            Event::Reset(jobs) => jobs,
            Event::Applied(job) => vec![job],
            Event::Deleted(job) if is_it(&job) => bail!("job {name} was deleted"),
            _ => Vec::new(),
        };
        if let Some(job) = changed.into_iter().find(is_it) {
            return Ok(job);
        }
    }
    bail!("job {name} cannot be watched any more")
}

fn name_of(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

/// Whether there is a log to read.
fn has_started(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase.is_some_and(|phase| phase != "Pending")
}

/// Prints a pod's log line by line as it comes.
async fn print_log(cluster: &Client, namespace: &str, pod: &str, prefixed: bool, follow: bool) -> anyhow::Result<()> {
    let what = || format!("the log of pod {pod}");
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/log?follow={follow}");
    let request = Request::get(path).body(Body::empty())?;
    let answer = tokio::time::timeout(DEADLINE, cluster.send(request)).await.with_context(what)?.with_context(what)?;
    if !answer.status().is_success() {
        bail!("{}: the cluster answers {}", what(), answer.status());
    }
    let prefix = if prefixed { format!("{pod}: ") } else { String::new() };
    let mut body = pin!(answer.into_body().into_data_stream());
    let mut rest = BytesMut::new();
    while let Some(chunk) = body.next().await {
        rest.extend_from_slice(&chunk.with_context(what)?);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = rest.split_to(end + 1);
            println!("{prefix}{}", String::from_utf8_lossy(&line[..end]));
        }
    }
    if !rest.is_empty() {
        println!("{prefix}{}", String::from_utf8_lossy(&rest));
    }
    Ok(())
}
