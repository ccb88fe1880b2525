//! `jobferry version`: of this program, of the management cluster, and whether the two can work together.

use std::process::ExitCode;

use anyhow::Context as _;
use serde::Serialize;

use crate::{
    delegation,
    server_version::{self, ServerVersion},
    target::Target,
};

/// Flags of `jobferry version`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Of this program only; no cluster is asked
    #[arg(long)]
    client: bool,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs
    Json,
    /// The same as YAML
    Yaml,
}

#[derive(Serialize)]
struct Versions {
    client: Client,
    #[serde(skip_serializing_if = "Option::is_none")]
    manager: Option<Manager>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Client {
    version: &'static str,
    /// Whose rules `lint` and embedded clusters follow by default.
    kubernetes: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manager {
    version: String,
    /// Whether delegated Jobs are left to their controller; absent: it cannot be told.
    keeps_managed_by: Option<bool>,
}

/// Prints the versions. A cluster that does not answer is an error, after this program's own version is told.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = Client { version: env!("CARGO_PKG_VERSION"), kubernetes: ServerVersion::DEFAULT };
    let manager = if args.client { Ok(None) } else { manager(&args.target).await.map(Some) };
    let (manager, trouble) = match manager {
        Ok(manager) => (manager, None),
        Err(error) => (None, Some(error)),
    };
    let versions = Versions { client, manager };
    match args.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&versions)?),
        Output::Yaml => print!("{}", serde_saphyr::to_string(&versions)?),
        Output::Text => versions.print(),
    }
    trouble.map_or(Ok(ExitCode::SUCCESS), Err)
}

async fn manager(target: &Target) -> anyhow::Result<Manager> {
    let cluster = target.client().await?;
    let version = server_version::read(&cluster).await.context("the manager's version cannot be read")?;
    // Whoever may not create Jobs may still know the version.
    let keeps_managed_by = delegation::probe(&cluster).await.ok();
    Ok(Manager { version, keeps_managed_by })
}

impl Versions {
    fn print(&self) {
        println!("jobferry {} (rules of Kubernetes {})", self.client.version, self.client.kubernetes);
        if let Some(manager) = &self.manager {
            let kept = match manager.keeps_managed_by {
                Some(true) => "keeps spec.managedBy",
                Some(false) => "DROPS spec.managedBy: Jobs cannot be dispatched from it",
                None => "a Job cannot be created here, so whether it keeps spec.managedBy is not known",
            };
            println!("manager {}: {kept}", manager.version);
        }
    }
}
