//! `jobferry explain`: each worker with its verdict, by the dispatcher's own placement.
//!
//! ```text
//!   Job, Workers, policies ─┐
//!   refusals (condition,    ├─► core's placement ─► Explanation ─► table or JSON
//!   Events of the Job) ─────┘
//! ```
//!
//! What the dispatcher alone knows (free create slots, when exactly a worker is asked again) is not in it.

mod fleet;
mod refusals;

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, ensure};
use jobferry_api::{annotations, managed_by};
use jobferry_core::{
    placement::{Choice, Verdict, choose},
    refusal::Refusal,
    workload::Workload,
};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde::Serialize;
use serde_json::Value;

use super::{Phase, Scope, View, job_name, read};
use crate::{dispatcher::wall_clock, lint, table::Table};
use fleet::Fleet;

/// Flags of `jobferry explain`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    scope: Scope,
    /// Name of a Job
    #[arg(value_name = "JOB", required_unless_present = "filename", value_parser = job_name)]
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
    /// The same as YAML
    Yaml,
}

/// What is printed. Every field of the table is in the JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    name: String,
    /// Where it is, if it was submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<View>,
    /// Who runs it, if it is not the dispatcher.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_dispatched: Option<String>,
    /// Where it would go, or go next.
    chosen: Option<String>,
    /// Why there.
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<&'static str>,
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
    #[serde(skip_serializing_if = "String::is_empty")]
    unblock: String,
    /// How much its policy prefers it.
    weight: i32,
    unfinished: u32,
}

/// Explains.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (client, namespace) = args.scope.connect().await?;
    let job = match (&args.filename, &args.name) {
        (Some(file), _) => not_submitted(file, &namespace)?,
        (None, name) => read(&client, &namespace, name.as_deref().context("name a Job, or a file with -f")?).await?,
    };
    let refusals = refusals::read(&client, &job).await;
    let explanation = explain(&job, &Fleet::read(&client).await?, &refusals, wall_clock())?;
    match args.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&explanation)?),
        Output::Yaml => print!("{}", serde_saphyr::to_string(&explanation)?),
        Output::Table => show(&explanation),
    }
    Ok(ExitCode::SUCCESS)
}

/// Each worker with its verdict on a Job that was submitted, as a table.
pub(crate) async fn verdicts(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Table> {
    let job = read(client, namespace, name).await?;
    let refusals = refusals::read(client, &job).await;
    Ok(table(&explain(&job, &Fleet::read(client).await?, &refusals, wall_clock())?))
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
    // `jobferry submit` would say so.
    if job["spec"]["managedBy"].is_null() {
        job["spec"]["managedBy"] = managed_by::DISPATCHER.into();
    }
    Ok(job)
}

fn explain(
    job: &Value,
    fleet: &Fleet,
    refusals: &BTreeMap<String, Refusal>,
    now: Timestamp,
) -> anyhow::Result<Explanation> {
    let workload: Workload = serde_json::from_value(job.clone()).context("this is not a Job")?;
    let submitted = job["metadata"]["creationTimestamp"].is_string();
    let view = if submitted { Some(View::of(&serde_json::from_value(job.clone())?, now)) } else { None };
    let mut explanation = Explanation {
        name: workload.name.clone(),
        now: view,
        not_dispatched: who_else(job),
        chosen: None,
        because: None,
        unplaceable: None,
        workers: Vec::new(),
    };
    let policy = fleet.policies.of(&workload).cloned().unwrap_or_default();
    let choice = Choice {
        workload: &workload,
        workers: &fleet.workers,
        policies: &fleet.policies,
        refusals,
        now: Duration::ZERO,
    };
    match choose(choice) {
        Err(error) => explanation.unplaceable = Some(error.to_string()),
        Ok(decision) => {
            let line = |(name, verdict): (&String, &Verdict)| {
                let worker = fleet.workers.get(name);
                Line {
                    worker: name.clone(),
                    fits: *verdict == Verdict::Fits,
                    verdict: verdict.to_string(),
                    unblock: unblock(verdict, name),
                    weight: worker.map(|worker| policy.weight(&worker.labels)).unwrap_or_default(),
                    unfinished: worker.map(|worker| worker.unfinished).unwrap_or_default(),
                }
            };
            explanation.workers = decision.verdicts.iter().map(line).collect();
            explanation.chosen = decision.chosen.map(|chosen| chosen.worker);
            explanation.because = explanation.chosen.as_ref().and_then(|name| because(name, &explanation.workers));
        }
    }
    Ok(explanation)
}

/// Whoever runs a Job that is not ours to place.
fn who_else(job: &Value) -> Option<String> {
    match job["spec"]["managedBy"].as_str() {
        Some(managed_by::DISPATCHER) => None,
        None | Some(job_api::managed_by::RESERVED) => Some("the cluster's own Job controller runs it here".into()),
        Some(managed_by::LOCAL) => {
            Some("`jobferry job-controller` runs it here (managedBy: jobferry.dev/local)".into())
        }
        Some(other) => Some(format!("another controller has it (managedBy: {other})")),
    }
}

/// What decided between the workers that fit, in the order in which it is asked.
fn because(chosen: &str, lines: &[Line]) -> Option<&'static str> {
    let chosen = lines.iter().find(|line| line.worker == chosen)?;
    let rivals: Vec<&Line> = lines.iter().filter(|line| line.fits && line.worker != chosen.worker).collect();
    let equals: Vec<&&Line> = rivals.iter().filter(|line| line.weight == chosen.weight).collect();
    Some(if rivals.is_empty() {
        "it is the only one that fits"
    } else if equals.is_empty() {
        "its policy prefers it"
    } else if equals.iter().all(|line| line.unfinished > chosen.unfinished) {
        "it has the fewest unfinished Jobs"
    } else {
        "others are as good, and the Job's UID decides"
    })
}

fn unblock(verdict: &Verdict, worker: &str) -> String {
    match verdict {
        Verdict::Fits | Verdict::NoFreeSlot => String::new(),
        Verdict::Cordoned => format!("jobferry worker uncordon {worker}"),
        Verdict::NotConnected | Verdict::Struggling | Verdict::Unfit => format!("jobferry worker describe {worker}"),
        Verdict::NotNamed => format!("name {worker} in the Job's {}", annotations::WORKERS),
        Verdict::SelectorMismatch => format!("change the Job's {}, or label {worker}", annotations::WORKER_SELECTOR),
        Verdict::NotInPolicy => format!("change the DispatchPolicy, or label {worker}"),
        Verdict::NamespaceNotTaken => format!("jobferry worker join {worker} --renew --namespace ..., with this one"),
        Verdict::TooOld { .. } => format!("upgrade {worker}, or leave the field out"),
        Verdict::Refused { .. } => format!("clear the way on {worker}; it is asked again by itself"),
    }
}

fn show(explanation: &Explanation) {
    let name = &explanation.name;
    match &explanation.now {
        Some(view) if view.phase == Phase::Waiting => println!("{name} waits: {}", view.why),
        Some(view) => {
            let place = view.place.as_deref().unwrap_or("no worker");
            let why = if view.why.is_empty() { String::new() } else { format!(" ({})", view.why) };
            println!("{name} is {:?} on {place}, {} done{why}", view.phase, view.completions);
        }
        None => println!("{name} was not submitted yet"),
    }
    let would = match &explanation.not_dispatched {
        Some(who) => {
            println!("it is not dispatched: {who}");
            "with managedBy: jobferry.dev/dispatcher a Job like this"
        }
        None => "a Job like this",
    };
    match (&explanation.unplaceable, &explanation.chosen) {
        (Some(why), _) => println!("{would} cannot be placed: {why}"),
        (None, Some(worker)) => {
            let because = explanation.because.map(|because| format!(": {because}")).unwrap_or_default();
            println!("{would} would now go to {worker}{because}");
        }
        (None, None) if explanation.workers.is_empty() => {
            println!("there are no workers; add one with `jobferry worker join`");
        }
        (None, None) => println!("{would} would now go nowhere: no worker fits"),
    }
    if !explanation.workers.is_empty() {
        print!("\n{}", table(explanation));
    }
}

fn table(explanation: &Explanation) -> Table {
    let mut table = Table::new(["WORKER", "VERDICT", "WEIGHT", "UNFINISHED", "TO-UNBLOCK"]);
    for line in &explanation.workers {
        let unblock = if line.unblock.is_empty() { "-" } else { &line.unblock };
        let (weight, unfinished) = (line.weight.to_string(), line.unfinished.to_string());
        table.row([line.worker.clone(), line.verdict.clone(), weight, unfinished, unblock.to_owned()]);
    }
    table
}

#[cfg(test)]
mod tests;
