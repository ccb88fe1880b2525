//! `jobferry doctor`: what is wrong with an installation, and the command that mends it.
//!
//! How a worker is and when its credentials end the dispatcher has written into the status of its Worker. Whoever may read the
//! worker's Secret also goes the dispatcher's way to it, and sees its clock and the rights that the dispatcher has there.

mod clock;
mod kinds;
mod manager;
mod visit;
mod worker;

use std::{collections::BTreeSet, process::ExitCode};

use futures::{StreamExt, stream};
use jobferry_api::Worker;
use jobferry_kubeio::{self as kubeio, CallError};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde::{Deserialize, Serialize};

use crate::{dispatcher::wall_clock, install::DEADLINE, table::Table, target::Target, trouble, worker::WORKERS};

/// A worker is asked a dozen questions at once; a large fleet is not to notice.
const VISITED_AT_ONCE: usize = 8;

/// Flags of `jobferry doctor`.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 nothing is wrong, 1 something is. What could not be looked at (?) is not wrong.")]
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
    result: Judgement,
    says: String,
    /// The command or the step that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Judgement {
    Ok,
    Wrong,
    /// It could not be looked at, which need not be wrong.
    Unknown,
}

impl Finding {
    fn good(what: impl Into<String>, says: impl Into<String>) -> Self {
        Self { what: what.into(), result: Judgement::Ok, says: says.into(), mend: None }
    }

    fn bad(what: impl Into<String>, says: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { what: what.into(), result: Judgement::Wrong, says: says.into(), mend: Some(mend.into()) }
    }

    fn unknown(what: impl Into<String>, says: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { what: what.into(), result: Judgement::Unknown, says: says.into(), mend: Some(mend.into()) }
    }

    /// Something that must be there could not be looked at.
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
    let wrong = findings.iter().any(|finding| finding.result == Judgement::Wrong);
    Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn table(findings: &[Finding]) -> Table {
    let mut table = Table::new(["CHECK", "RESULT", "SAYS", "TO-MEND"]);
    for finding in findings {
        let result = match finding.result {
            Judgement::Ok => "ok",
            Judgement::Wrong => "WRONG",
            Judgement::Unknown => "?",
        };
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
    let workers = kubeio::get::<Workers>(client, WORKERS, DEADLINE).await;
    match workers {
        Err(error) if error.refusal().is_some_and(|refusal| refusal.code == 404) => {
            // Perhaps a worker: nobody should start a dispatcher for it just because there is none.
            findings.retain(|finding| finding.what != manager::DISPATCHER);
            findings.push(Finding::bad("jobferry", "is not installed here", trouble::NOT_A_MANAGER));
        }
        Err(error) => {
            findings.push(Finding::refused("workers", &error, "ask for the right to list workers.jobferry.dev"));
        }
        Ok(Workers { items }) if items.is_empty() => {
            let mend = "jobferry worker join NAME --worker-kubeconfig FILE";
            findings.push(Finding::bad("workers", "there are none", mend));
        }
        Ok(Workers { items }) => {
            let others: BTreeSet<&str> = items.iter().filter_map(|worker| worker.spec.other_dispatcher()).collect();
            for name in others {
                findings.push(manager::dispatcher(client, name, now).await);
            }
            let visits = items.iter().map(|worker| visit::examine(client, worker));
            let seen: Vec<_> = stream::iter(visits).buffered(VISITED_AT_ONCE).collect().await;
            for (worker, seen) in items.iter().zip(seen) {
                findings.extend(worker::judge(worker, now).into_iter().chain(seen));
            }
        }
    }
    findings
}
