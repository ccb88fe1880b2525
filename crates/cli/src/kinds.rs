//! `jobferry kinds`: what the dispatcher knows of each kind of workload, and what it would do with an object.

mod describe;
pub(crate) mod guard;
pub(crate) mod rights;
mod trial;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, ensure};
use jobferry_api::{OperatorOnManager, WorkloadKind};
use jobferry_core::kind::{Kind, Source, Table};
use serde_json::Value;

use crate::{lint, table};

/// Subcommands of `jobferry kinds`.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List the kinds that are built in, and those of your files
    List(Files),
    /// Show the rules of one kind
    Describe(describe::Args),
    /// Try objects out: what a worker would get, whether they have ended, which edits would be forwarded
    Try(trial::Args),
}

/// Files with kinds.
#[derive(clap::Args)]
pub(crate) struct Files {
    /// Manifests of WorkloadKinds, YAML or JSON; - reads standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<PathBuf>,
}

/// Runs a subcommand.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::List(files) => list(&files)?,
        Command::Describe(args) => describe::run(&args)?,
        Command::Try(args) => return trial::run(&args),
    }
    Ok(ExitCode::SUCCESS)
}

fn list(files: &Files) -> anyhow::Result<()> {
    let (known, others) = read(&files.filename)?;
    ensure!(others.is_empty(), "{} is not a WorkloadKind; `jobferry kinds try` takes it", called(&others[0]));
    let mut rows = table::Table::new(["KIND", "VERSION", "ENDS", "OPERATOR-ON-MANAGER", "HANDED-OVER-BY"]);
    for (source, kind) in known.iter() {
        let mark = if source == Source::User { " *" } else { "" };
        rows.row([
            format!("{}{mark}", kind.kind),
            kind.api_version(),
            if kind.ends() { "yes" } else { "never" }.to_owned(),
            operator(kind),
            kind.how_to_delegate(),
        ]);
    }
    print!("{rows}");
    if known.iter().any(|(source, _)| source == Source::User) {
        eprintln!("* not built in: create it on the manager as a WorkloadKind");
    }
    Ok(())
}

/// Whether the kind's own operator may run on the manager.
fn operator(kind: &Kind) -> String {
    match (kind.operator_on_manager, &kind.operator_on_manager_since) {
        (OperatorOnManager::Forbidden, _) => "must not run".to_owned(),
        (OperatorOnManager::Allowed, Some(since)) => format!("may run from {since}"),
        (OperatorOnManager::Allowed, None) => "may run".to_owned(),
    }
}

/// The built-in kinds with those of these files, and everything else that is in them.
fn read(files: &[PathBuf]) -> anyhow::Result<(Table, Vec<Value>)> {
    let mut known = Table::built_in()?;
    let mut others = Vec::new();
    for file in files {
        for document in lint::documents(file)? {
            if document["kind"] != "WorkloadKind" {
                others.push(document);
                continue;
            }
            let name = called(&document);
            let kind: WorkloadKind = serde_path_to_error::deserialize(document).with_context(|| name.clone())?;
            known.add(&kind)?;
        }
    }
    Ok((known, others))
}

/// An object as people speak of it: `JobSet flow`.
fn called(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
}
