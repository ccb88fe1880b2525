//! `jobferry get`: Jobs, where they run and why they wait.

use std::process::ExitCode;

use anyhow::Context as _;
use jobferry_kubeio as kubeio;
use k8s_openapi::{api::batch::v1::Job, jiff::Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Scope, View, job_name, not_found, path_of};
use crate::{
    dispatcher::wall_clock,
    install::DEADLINE,
    table::{Table, age},
};

mod watch;

/// Flags of `jobferry get`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    scope: Scope,
    /// `jobs`, which is all there is to get, and names of Jobs; without names all are shown
    #[arg(value_name = "NAME", value_parser = job_name)]
    names: Vec<String>,
    /// Jobs of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Go on and print each change; with names, until those Jobs are gone
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

/// A Job and what is shown of it.
struct Shown {
    view: View,
    job: Job,
}

impl Shown {
    fn of(job: Job) -> Self {
        Self { view: View::of(&job, wall_clock()), job }
    }
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
        return watch::run(&args, client, path, &namespace).await;
    }
    let List { items } = kubeio::get(&client, &path, DEADLINE).await.with_context(|| args.cannot_list(&namespace))?;
    let wanted: Vec<Shown> = items.into_iter().filter(|job| args.wants(job)).map(Shown::of).collect();
    if wanted.is_empty() && args.names.is_empty() {
        eprintln!("no Jobs found in {}", args.place(&namespace));
    }
    match args.output {
        Output::Table | Output::Wide if wanted.is_empty() => {}
        Output::Table | Output::Wide => print!("{}", args.table(&wanted, wall_clock())),
        _ => print!("{}", args.text(&wanted)?),
    }
    match args.missing(&wanted) {
        Some(missing) => Err(not_found(missing, &namespace)),
        None => Ok(ExitCode::SUCCESS),
    }
}

impl Args {
    fn wants(&self, job: &Job) -> bool {
        self.names.is_empty() || job.metadata.name.as_ref().is_some_and(|name| self.names.contains(name))
    }

    /// A name that was asked for and is not there.
    fn missing(&self, there: &[Shown]) -> Option<&str> {
        let is_there = |name: &str| there.iter().any(|shown| shown.view.name == name);
        self.names.iter().map(String::as_str).find(|name| !is_there(name))
    }

    fn place(&self, namespace: &str) -> String {
        if self.all_namespaces { "any namespace".into() } else { format!("namespace {namespace}") }
    }

    fn cannot_list(&self, namespace: &str) -> String {
        format!("cannot list Jobs in {}", self.place(namespace))
    }

    fn table(&self, jobs: &[Shown], now: Timestamp) -> Table {
        let mut titles = vec!["NAME", "WORKER", "PHASE", "COMPLETIONS", "AGE", "WHY"];
        if self.all_namespaces {
            titles.insert(0, "NAMESPACE");
        }
        if self.output == Output::Wide {
            titles.extend(["MANAGED-BY", "UID"]);
        }
        let mut table = Table::with_titles(&titles);
        for Shown { view, job } in jobs {
            let or_dash = |text: Option<&String>| text.cloned().unwrap_or_else(|| "-".into());
            let created = job.metadata.creation_timestamp.as_ref();
            let mut cells = vec![
                self.roomy(view.name.clone(), 20),
                self.roomy(or_dash(view.place.as_ref()), 12),
                self.roomy(format!("{:?}", view.phase), 9),
                view.completions.clone(),
                created.map_or_else(|| "-".into(), |created| age(created.0, now)),
                if view.why.is_empty() { "-".into() } else { view.why.clone() },
            ];
            if self.all_namespaces {
                cells.insert(0, view.namespace.clone());
            }
            if self.output == Output::Wide {
                let managed_by = job.spec.as_ref().and_then(|spec| spec.managed_by.as_ref());
                cells.extend([or_dash(managed_by), or_dash(job.metadata.uid.as_ref())]);
            }
            table.add(cells);
        }
        table
    }

    /// A table that goes on leaves room for what may come.
    fn roomy(&self, cell: String, width: usize) -> String {
        if self.watch { format!("{cell:<width$}") } else { cell }
    }

    /// Every form but a table.
    fn text(&self, jobs: &[Shown]) -> anyhow::Result<String> {
        Ok(match self.output {
            Output::Name => jobs.iter().flat_map(|shown| ["job/", &shown.view.name, "\n"]).collect(),
            Output::Yaml => serde_saphyr::to_string(&listed(jobs))?,
            _ => serde_json::to_string_pretty(&listed(jobs))? + "\n",
        })
    }
}

/// Each field of the table is here too.
fn listed(jobs: &[Shown]) -> Value {
    let items: Vec<Value> = jobs.iter().map(|Shown { view, job }| json!({"view": view, "job": job})).collect();
    json!({"apiVersion": "jobferry.dev/v1alpha1", "kind": "JobViewList", "items": items})
}
