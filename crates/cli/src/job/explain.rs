//! `jobferry explain`: each worker with its verdict, by the dispatcher's own placement.
//!
//! ```text
//!   workload, Workers, policies ─┐
//!   refusals (what was told,     ├─► core's placement ─► Explanation ─► table or JSON
//!   Events of the workload) ─────┘
//! ```
//!
//! What the dispatcher alone knows (free create slots, when exactly a worker is asked again) is not in it.

mod explanation;
mod fleet;
mod refusals;
mod words;

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, ensure};
use jobferry_api::managed_by;
use jobferry_core::{custom::KindRef, refusal::Refusal};
use jobferry_kubeio as kubeio;
use kube::Client;
use serde_json::Value;

use super::{Named, Scope, path_of, read_of, sort_out};
use crate::{dispatcher::wall_clock, install::DEADLINE, lint, table::Table};
use explanation::{Explanation, Subject};
use fleet::Fleet;

/// Flags of `jobferry explain`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    scope: Scope,
    /// Name of a Job, or KIND/NAME
    #[arg(value_name = "NAME", required_unless_present = "filename")]
    name: Option<Named>,
    /// The kind, if it is not Job; also one that a WorkloadKind of this cluster brought in
    #[arg(short, long, value_name = "KIND", conflicts_with = "filename")]
    kind: Option<String>,
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

/// Explains.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (client, namespace) = args.scope.connect().await?;
    let (subject, refusals) = if let Some(file) = &args.filename {
        (in_file(&client, file, &namespace).await?, BTreeMap::new())
    } else {
        let (kind, names) = sort_out(&client, args.kind.as_deref(), args.name.as_slice()).await?;
        let name = names.first().with_context(|| format!("name a {}", kind.type_meta().1))?;
        submitted(&client, kind, &namespace, name).await?
    };
    let explanation = Explanation::of(&subject, Fleet::read(&client).await?, &refusals, wall_clock())?;
    match args.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&explanation)?),
        Output::Yaml => print!("{}", serde_saphyr::to_string(&explanation)?),
        Output::Table => print!("{explanation}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// A workload of the cluster, and who refused it.
async fn submitted(
    client: &Client,
    kind: KindRef,
    namespace: &str,
    name: &str,
) -> anyhow::Result<(Subject, BTreeMap<String, Refusal>)> {
    let object = read_of(client, &kind, namespace, name).await?;
    let refusals = refusals::read(client, &explanation::workload(&kind, &object, wall_clock())?).await;
    Ok((Subject::Object { kind, object }, refusals))
}

/// Each worker with its verdict on a Job that was submitted, as a table.
pub(crate) async fn verdicts(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Table> {
    let (subject, refusals) = submitted(client, KindRef::Job, namespace, name).await?;
    Ok(Explanation::of(&subject, Fleet::read(client).await?, &refusals, wall_clock())?.table())
}

/// A Job as the manager would store it, as far as placement looks at it, and the one that has its name already.
async fn in_file(client: &Client, file: &std::path::Path, namespace: &str) -> anyhow::Result<Subject> {
    let mut jobs = lint::jobs(file)?;
    ensure!(jobs.len() == 1, "{} holds {} Jobs; explain takes one at a time", file.display(), jobs.len());
    let mut job = jobs.remove(0);
    if job["metadata"]["namespace"].is_null() {
        job["metadata"]["namespace"] = namespace.into();
    }
    // It gets both when it is submitted; what the UID would decide is left open.
    job["metadata"]["uid"] = "".into();
    job["metadata"]["resourceVersion"] = "0".into();
    // `jobferry submit` would say so.
    if job["spec"]["managedBy"].is_null() {
        job["spec"]["managedBy"] = managed_by::DISPATCHER.into();
    }
    let namesake = match (job["metadata"]["name"].as_str(), job["metadata"]["namespace"].as_str()) {
        (Some(name), Some(namespace)) => existing(client, namespace, name).await?,
        _ => None,
    };
    if job["metadata"]["name"].is_null() {
        job["metadata"]["name"] = job["metadata"]["generateName"].clone();
    }
    Ok(Subject::File { job, namesake })
}

async fn existing(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Option<Value>> {
    match kubeio::get(client, &format!("{}/{name}", path_of(namespace)), DEADLINE).await {
        Ok(job) => Ok(Some(job)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error).with_context(|| format!("whether there is a job {name} cannot be read")),
    }
}

#[cfg(test)]
mod tests;
