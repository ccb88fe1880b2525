//! `jobferry doctor`: what is wrong with an installation, and the command that mends it.
//!
//! Everything is asked of the management cluster; what it cannot know itself (how a worker is, when its credentials end)
//! the dispatcher writes into the status of Workers.

mod manager;
mod worker;

use std::process::ExitCode;

use jobferry_api::Worker;
use jobferry_kubeio::{self as kubeio, CallError};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde::{Deserialize, Serialize};

use crate::{dispatcher::wall_clock, install::DEADLINE, table::Table, target::Target, trouble};

/// Flags of `jobferry doctor`.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 nothing is wrong, 1 something is.")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// How to print the findings
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

/// One thing that was looked at.
#[derive(Debug, PartialEq, Serialize)]
struct Finding {
    what: String,
    good: bool,
    says: String,
    /// The command or the step that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

impl Finding {
    fn good(what: impl Into<String>, says: impl Into<String>) -> Self {
        Self { what: what.into(), good: true, says: says.into(), mend: None }
    }

    fn bad(what: impl Into<String>, says: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { what: what.into(), good: false, says: says.into(), mend: Some(mend.into()) }
    }
}

impl Finding {
    /// Something could not be looked at.
    fn refused(what: &str, error: &CallError, otherwise: &str) -> Self {
        Self::bad(what, error.to_string(), trouble::next_step(error).unwrap_or(otherwise))
    }
}

/// Looks at everything that can be seen from the management cluster.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = args.target.client().await?;
    let findings = examine(&client, wall_clock()).await;
    match args.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&findings)?),
        Output::Yaml => print!("{}", serde_saphyr::to_string(&findings)?),
        Output::Table => print!("{}", table(&findings)),
    }
    Ok(if findings.iter().all(|finding| finding.good) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn table(findings: &[Finding]) -> Table {
    let mut table = Table::new(["CHECK", "RESULT", "SAYS", "TO-MEND"]);
    for finding in findings {
        let result = if finding.good { "ok" } else { "WRONG" };
        let mend = finding.mend.clone().unwrap_or_else(|| "-".into());
        table.row([finding.what.clone(), result.into(), finding.says.clone(), mend]);
    }
    table
}

async fn examine(client: &Client, now: Timestamp) -> Vec<Finding> {
    #[derive(Deserialize)]
    struct Workers {
        items: Vec<Worker>,
    }
    let mut findings = match manager::examine(client, now).await {
        Ok(findings) => findings,
        Err(unreachable) => return vec![unreachable],
    };
    match kubeio::get::<Workers>(client, "/apis/jobferry.dev/v1alpha1/workers", DEADLINE).await {
        Err(error) => {
            findings.push(Finding::refused("workers", &error, "ask for the right to list workers.jobferry.dev"));
        }
        Ok(Workers { items }) if items.is_empty() => {
            let mend = "jobferry worker join NAME --worker-kubeconfig FILE";
            findings.push(Finding::bad("workers", "there are none", mend));
        }
        Ok(Workers { items }) => findings.extend(items.iter().flat_map(|one| worker::judge(one, now))),
    }
    findings
}
