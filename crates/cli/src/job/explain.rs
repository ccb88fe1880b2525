//! `jobferry explain`: each worker with its verdict, by the dispatcher's own placement.
//!
//! What the dispatcher remembers and nobody else can see (which workers refused this Job lately, free create slots) is
//! not in it; what it told about that stands in the condition `Placed`.

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, ensure};
use jobferry_api::{
    DispatchPolicy, Worker,
    conditions::{ACCEPTED, CONNECTED},
};
use jobferry_core::{
    placement::{Choice, Link, Verdict, WorkerView, choose},
    policy::{Policies, Policy},
    workload::Workload,
};
use jobferry_kubeio as kubeio;
use k8s_openapi::{api::core::v1::Namespace, jiff::Timestamp};
use kube::{Client, Resource};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Phase, Scope, View, path_of};
use crate::{install::DEADLINE, lint, table::Table};

/// Flags of `jobferry explain`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    scope: Scope,
    /// Name of a Job
    #[arg(value_name = "JOB", required_unless_present = "filename")]
    name: Option<String>,
    /// A manifest that was not submitted yet: where would it go?
    #[arg(short, long, value_name = "FILE", conflicts_with = "name")]
    filename: Option<PathBuf>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Output {
    /// For people
    Table,
    /// For programs
    Json,
}

/// What is printed. Every field of the table is in the JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    name: String,
    /// Where it is, if it was submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<View>,
    /// Where it would go, or go next.
    chosen: Option<String>,
    /// Why none can be chosen at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    unplaceable: Option<String>,
    workers: Vec<Line>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    worker: String,
    fits: bool,
    verdict: String,
    /// What would change the verdict.
    #[serde(skip_serializing_if = "str::is_empty")]
    unblock: &'static str,
    /// How much its policy prefers it.
    weight: i32,
    unfinished: u32,
}

/// Explains.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (client, namespace) = args.scope.connect().await?;
    let job = match (&args.filename, &args.name) {
        (Some(file), _) => not_submitted(file, &namespace)?,
        (None, name) => {
            let name = name.as_deref().context("name a Job, or a file with -f")?;
            let path = format!("{}/{name}", path_of(&namespace));
            let read: Result<Value, _> = kubeio::get(&client, &path, DEADLINE).await;
            read.with_context(|| format!("job {name} in namespace {namespace}"))?
        }
    };
    let explanation = explain(&job, &Fleet::read(&client).await?)?;
    match args.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&explanation)?),
        Output::Table => show(&explanation),
    }
    Ok(ExitCode::SUCCESS)
}

/// A Job as the manager would store it, as far as placement looks at it.
fn not_submitted(file: &std::path::Path, namespace: &str) -> anyhow::Result<Value> {
    let mut jobs = lint::jobs(file)?;
    ensure!(jobs.len() == 1, "{} holds {} Jobs; explain takes one at a time", file.display(), jobs.len());
    let mut job = jobs.remove(0);
    if job["metadata"]["namespace"].is_null() {
        job["metadata"]["namespace"] = namespace.into();
    }
    job["metadata"]["uid"] = "not-submitted".into();
    job["metadata"]["resourceVersion"] = "0".into();
    if job["metadata"]["name"].is_null() {
        job["metadata"]["name"] = job["metadata"]["generateName"].clone();
    }
    Ok(job)
}

/// What placement looks at, read from the manager.
struct Fleet {
    workers: BTreeMap<String, WorkerView>,
    policies: Policies,
}

impl Fleet {
    async fn read(client: &Client) -> anyhow::Result<Self> {
        let workers: Vec<Worker> = list(client, "/apis/jobferry.dev/v1alpha1/workers").await?;
        let policies: Vec<DispatchPolicy> = list(client, "/apis/jobferry.dev/v1alpha1/dispatchpolicies").await?;
        let namespaces: Vec<Namespace> = list(client, "/api/v1/namespaces").await?;
        Ok(Self {
            workers: workers.iter().map(|worker| (name_of(worker), view(worker))).collect(),
            policies: Policies {
                policies: policies.iter().map(|policy| (name_of(policy), Policy::read(&policy.spec))).collect(),
                namespaces: namespaces
                    .into_iter()
                    .map(|namespace| (name_of(&namespace), namespace.metadata.labels.unwrap_or_default()))
                    .collect(),
            },
        })
    }
}

async fn list<T: DeserializeOwned>(client: &Client, path: &str) -> anyhow::Result<Vec<T>> {
    #[derive(Deserialize)]
    struct List<T> {
        items: Vec<T>,
    }
    let list: List<T> = kubeio::get(client, path, DEADLINE).await.with_context(|| format!("cannot list {path}"))?;
    Ok(list.items)
}

fn name_of(object: &impl Resource) -> String {
    object.meta().name.clone().unwrap_or_default()
}

/// A worker as its object describes it.
fn view(worker: &Worker) -> WorkerView {
    let status = worker.status.clone().unwrap_or_default();
    let condition = |type_: &str| status.conditions.iter().find(|condition| condition.type_ == type_);
    let holds = |type_: &str| condition(type_).is_some_and(|condition| condition.status == "True");
    let link = match (status.identity, condition(ACCEPTED)) {
        (_, Some(accepted)) if accepted.status != "True" => Link::Unfit { why: accepted.message.clone() },
        (Some(identity), _) if holds(CONNECTED) => Link::Live { identity },
        (_, None) => Link::Connecting,
        _ => Link::Away { since: Timestamp::UNIX_EPOCH, noticed: Duration::ZERO },
    };
    let minor = status.version.as_deref().and_then(|version| version.split('.').nth(1)?.parse().ok());
    WorkerView {
        labels: worker.metadata.labels.clone().unwrap_or_default(),
        cordoned: worker.spec.cordoned,
        minor,
        link,
        unacknowledged: 0,
        unfinished: status.unfinished.and_then(|count| u32::try_from(count).ok()).unwrap_or_default(),
    }
}

fn explain(job: &Value, fleet: &Fleet) -> anyhow::Result<Explanation> {
    let workload: Workload = serde_json::from_value(job.clone()).context("this is not a Job")?;
    let submitted = job["metadata"]["creationTimestamp"].is_string();
    let now = if submitted { Some(View::of(&serde_json::from_value(job.clone())?)) } else { None };
    let choice = Choice {
        workload: &workload,
        workers: &fleet.workers,
        policies: &fleet.policies,
        refusals: &BTreeMap::new(),
        now: Duration::ZERO,
    };
    let policy = fleet.policies.of(&workload).cloned().unwrap_or_default();
    let line = |(name, verdict): (&String, &Verdict)| {
        let worker = fleet.workers.get(name);
        Line {
            worker: name.clone(),
            fits: *verdict == Verdict::Fits,
            verdict: verdict.to_string(),
            unblock: unblock(verdict),
            weight: worker.map(|worker| policy.weight(&worker.labels)).unwrap_or_default(),
            unfinished: worker.map(|worker| worker.unfinished).unwrap_or_default(),
        }
    };
    let name = workload.name.clone();
    Ok(match choose(choice) {
        Ok(decision) => Explanation {
            name,
            now,
            workers: decision.verdicts.iter().map(line).collect(),
            chosen: decision.chosen.map(|chosen| chosen.worker),
            unplaceable: None,
        },
        Err(error) => {
            Explanation { name, now, chosen: None, unplaceable: Some(error.to_string()), workers: Vec::new() }
        }
    })
}

const fn unblock(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Fits | Verdict::NoFreeSlot => "",
        Verdict::Cordoned => "jobferry worker uncordon",
        Verdict::NotConnected | Verdict::Unfit => "jobferry worker describe",
        Verdict::NotNamed => "annotation jobferry.dev/workers of the Job",
        Verdict::SelectorMismatch => "annotation jobferry.dev/worker-selector of the Job, or labels of the Worker",
        Verdict::NotInPolicy => "the DispatchPolicy, or labels of the Worker",
        Verdict::TooOld { .. } => "upgrade the worker, or leave the field out",
        Verdict::Refused { .. } => "what the worker says; it is asked again by itself",
    }
}

fn show(explanation: &Explanation) {
    let name = &explanation.name;
    match &explanation.now {
        Some(view) if view.phase == Phase::Waiting => println!("{name} waits: {}", view.why),
        Some(view) => {
            let place = view.place.as_deref().unwrap_or("-");
            println!("{name} is {:?} on {place}, {} done {}", view.phase, view.completions, view.why);
        }
        None => println!("{name} was not submitted yet"),
    }
    match (&explanation.unplaceable, &explanation.chosen) {
        (Some(why), _) => println!("it cannot be placed: {why}"),
        (None, Some(worker)) => println!("a Job like this would now go to {worker}"),
        (None, None) if explanation.workers.is_empty() => {
            println!("there are no workers; add one with `jobferry worker join`");
        }
        (None, None) => println!("no worker would take a Job like this now"),
    }
    if !explanation.workers.is_empty() {
        let mut table = Table::new(["WORKER", "VERDICT", "WEIGHT", "UNFINISHED", "TO-UNBLOCK"]);
        for line in &explanation.workers {
            let unblock = if line.unblock.is_empty() { "-" } else { line.unblock };
            let (weight, unfinished) = (line.weight.to_string(), line.unfinished.to_string());
            table.row([line.worker.clone(), line.verdict.clone(), weight, unfinished, unblock.into()]);
        }
        print!("\n{table}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fleet() -> Fleet {
        let worker = |name: &str, region: &str, cordoned: bool| {
            let worker = json!({
                "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker",
                "metadata": {"name": name, "labels": {"region": region}},
                "spec": {"kubeconfigSecret": name, "cordoned": cordoned},
                "status": {"identity": name, "version": "v1.35.8", "unfinished": 3, "conditions": [
                    {"type": "Connected", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            });
            (name.to_owned(), view(&serde_json::from_value(worker).unwrap()))
        };
        let workers = [worker("eu-1", "eu", false), worker("eu-2", "eu", true), worker("us-1", "us", false)].into();
        Fleet { workers, policies: Policies::default() }
    }

    fn job(annotations: &Value) -> Value {
        json!({"metadata": {"name": "a", "namespace": "ml", "uid": "u", "resourceVersion": "0", "annotations": annotations},
               "spec": {"managedBy": "jobferry.dev/dispatcher", "template": {}}})
    }

    #[test]
    fn each_worker_has_a_verdict_and_what_would_change_it() {
        let explained = explain(&job(&json!({"jobferry.dev/worker-selector": "region=eu"})), &fleet()).unwrap();
        assert_eq!(explained.chosen.as_deref(), Some("eu-1"));
        let verdicts: Vec<_> =
            explained.workers.iter().map(|line| (line.worker.as_str(), line.verdict.as_str())).collect();
        assert_eq!(verdicts, [("eu-1", "fits"), ("eu-2", "cordoned"), ("us-1", "labels do not match the selector")]);
        assert_eq!(explained.workers[1].unblock, "jobferry worker uncordon");
    }

    #[test]
    fn a_job_that_cannot_be_placed_at_all_says_why() {
        let explained = explain(&job(&json!({"jobferry.dev/worker-selector": "a b"})), &fleet()).unwrap();
        assert!(explained.unplaceable.unwrap().starts_with("annotation jobferry.dev/worker-selector"));
    }
}
