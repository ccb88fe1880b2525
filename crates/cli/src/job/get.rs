//! `jobferry get`: Jobs, where they run and why they wait.

use std::{pin::pin, process::ExitCode};

use anyhow::Context as _;
use futures::StreamExt;
use jobferry_kubeio::{self as kubeio, Event};
use k8s_openapi::{api::batch::v1::Job, jiff::Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Scope, View, collection, path_of};
use crate::{
    dispatcher::wall_clock,
    install::DEADLINE,
    table::{Table, age},
};

/// Flags of `jobferry get`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    scope: Scope,
    /// `jobs`, which is all there is to get, and names of Jobs; without names all are shown
    #[arg(value_name = "[jobs] NAME")]
    names: Vec<String>,
    /// Jobs of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Go on and print each change
    #[arg(short, long)]
    watch: bool,
    /// How to print them
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Output {
    /// Columns, for people
    Table,
    /// More columns
    Wide,
    /// Views and Jobs, for programs
    Json,
    /// The same as YAML
    Yaml,
    /// Names, for other commands
    Name,
}

/// Prints the Jobs.
pub(crate) async fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Job>,
    }
    if args.names.first().is_some_and(|word| ["job", "jobs"].contains(&word.as_str())) {
        args.names.remove(0);
    }
    let (client, namespace) = args.scope.connect().await?;
    let path = if args.all_namespaces { "/apis/batch/v1/jobs".into() } else { path_of(&namespace) };
    if args.watch {
        return watch(&args, client, path).await;
    }
    let List { items } = kubeio::get(&client, &path, DEADLINE).await.context("cannot list Jobs")?;
    let wanted: Vec<Job> = items.into_iter().filter(|job| is_wanted(&args, job)).collect();
    let found = |name: &String| wanted.iter().any(|job| job.metadata.name.as_ref() == Some(name));
    if wanted.is_empty() && args.names.is_empty() {
        eprintln!("no Jobs found");
    }
    print(&args, &wanted)?;
    match args.names.iter().find(|name| !found(name)) {
        Some(missing) => anyhow::bail!("job {missing} not found in namespace {namespace}"),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn is_wanted(args: &Args, job: &Job) -> bool {
    args.names.is_empty() || job.metadata.name.as_ref().is_some_and(|name| args.names.contains(name))
}

async fn watch(args: &Args, client: kube::Client, path: String) -> anyhow::Result<ExitCode> {
    let mut events = pin!(kubeio::watch(client, collection(path)));
    while let Some(event) = events.next().await {
        let changed = match event {
            Event::Reset(jobs) => jobs,
            Event::Applied(job) => vec![job],
            Event::Interrupted(error) => {
                eprintln!("the cluster does not answer, trying again: {error}");
                continue;
            }
            Event::Deleted(_) | Event::Resumed => continue,
        };
        let wanted: Vec<Job> = changed.into_iter().filter(|job| is_wanted(args, job)).collect();
        print(args, &wanted)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(args: &Args, jobs: &[Job]) -> anyhow::Result<()> {
    match args.output {
        Output::Name => jobs.iter().for_each(|job| println!("job/{}", View::of(job).name)),
        Output::Json => println!("{}", serde_json::to_string_pretty(&listed(jobs))?),
        Output::Yaml => print!("{}", serde_saphyr::to_string(&listed(jobs))?),
        Output::Table | Output::Wide if !jobs.is_empty() => print!("{}", table(args, jobs, wall_clock())),
        Output::Table | Output::Wide => {}
    }
    Ok(())
}

/// Each field of the table is here too.
fn listed(jobs: &[Job]) -> Value {
    let items: Vec<Value> = jobs.iter().map(|job| json!({"view": View::of(job), "job": job})).collect();
    json!({"apiVersion": "jobferry.dev/v1alpha1", "kind": "JobViewList", "items": items})
}

fn table(args: &Args, jobs: &[Job], now: Timestamp) -> Table {
    let mut titles = vec!["NAME", "WORKER", "PHASE", "COMPLETIONS", "AGE"];
    if args.all_namespaces {
        titles.insert(0, "NAMESPACE");
    }
    titles.push("WHY");
    if args.output == Output::Wide {
        titles.extend(["MANAGED-BY", "UID"]);
    }
    let mut table = Table::with_titles(&titles);
    for job in jobs {
        let view = View::of(job);
        let created = job.metadata.creation_timestamp.as_ref();
        let mut cells = vec![
            view.name,
            view.place.unwrap_or_else(|| "-".into()),
            format!("{:?}", view.phase),
            view.completions,
            created.map_or_else(|| "-".into(), |created| age(created.0, now)),
            view.why,
        ];
        if args.all_namespaces {
            cells.insert(0, view.namespace);
        }
        if args.output == Output::Wide {
            let managed_by = job.spec.as_ref().and_then(|spec| spec.managed_by.clone());
            cells.extend([managed_by.unwrap_or_else(|| "-".into()), job.metadata.uid.clone().unwrap_or_default()]);
        }
        table.add(cells);
    }
    table
}
