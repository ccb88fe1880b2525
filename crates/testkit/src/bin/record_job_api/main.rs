//! `cargo xtask record`: asks a real API server thousands of random questions about Jobs and writes its answers down,
//! one JSON object a line, for `cargo test -p job-api` to agree with.
//!
//! | file | a line |
//! | --- | --- |
//! | `transitions.jsonl.gz` | `spec`, `oldStatus`, `newStatus`, and `errors` in the server's order |
//! | `manifests.jsonl.gz` | `op` (create, update, status), `old` as stored, `new` as sent, and `errors` or the `stored` result |

#![allow(clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

mod dice;
mod manifests;
mod server;
mod tables;
mod transitions;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Parser;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{StreamExt, TryStreamExt, stream};
use jobferry_testkit::{Component, RealCluster, Testbed};
use serde_json::{Value, json};

use dice::{Dice, put};
use server::{Answer, Server};

/// Enough to keep two cores busy.
const IN_FLIGHT: usize = 16;

#[derive(Parser)]
#[command(name = "record-job-api", about = "Records what a real API server says about random Jobs")]
struct Arguments {
    /// Where the files go, in a directory called after the version of the server.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The same seed asks the same questions.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many status transitions.
    #[arg(long, default_value_t = 6000)]
    transitions: u64,
    /// How many creates; as many updates, and a quarter as many writes to /status with metadata.
    #[arg(long, default_value_t = 3000)]
    manifests: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let cluster = RealCluster::start_scratch(&Testbed::from_environment()?, "record").await?;
    // Nobody but us may touch the Jobs.
    cluster.stop(Component::ControllerManager).await?;
    let server = Server::of(&cluster).await?;
    let directory = arguments.out.join(server.version().await?);
    std::fs::create_dir_all(&directory)?;
    let seed = arguments.seed;

    let questions = (0..arguments.transitions).map(|number| ask_transition(&server, seed, number));
    record(&directory.join("transitions.jsonl.gz"), questions).await?;
    let questions = (0..arguments.manifests).map(|number| ask_manifests(&server, seed, number));
    record(&directory.join("manifests.jsonl.gz"), questions).await
}

/// Answers in the order of the questions, so that two recordings can be compared.
async fn record<F>(file: &Path, questions: impl Iterator<Item = F>) -> Result<()>
where
    F: Future<Output = Result<Vec<Value>>>,
{
    let answers: Vec<Vec<Value>> = stream::iter(questions).buffered(IN_FLIGHT).try_collect().await?;
    let writer = File::create(file).with_context(|| format!("writing {}", file.display()))?;
    let mut writer = GzEncoder::new(writer, Compression::best());
    let lines: Vec<Value> = answers.into_iter().flatten().collect();
    let accepted = lines.iter().filter(|line| line["errors"].as_array().is_none_or(Vec::is_empty)).count();
    for line in &lines {
        writeln!(writer, "{line}")?;
    }
    writer.finish()?;
    eprintln!("{}: {} answers, {accepted} of them accepted", file.display(), lines.len());
    Ok(())
}

async fn ask_transition(server: &Server, seed: u64, number: u64) -> Result<Vec<Value>> {
    let question = transitions::generate(&mut Dice::new(seed, number));
    let name = format!("transition-{number}");
    let metadata = json!({"name": name, "namespace": "default", "uid": format!("uid-{number}"),
        "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1});
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": question.spec});
    put(&mut job, "/status", question.old.clone());
    server.store(&name, &job).await?;
    put(&mut job, "/status", question.new.clone());
    let errors = match server.update_status(&name, &job).await? {
        Answer::Accepted(_) => json!([]),
        Answer::Refused(errors) => errors,
        Answer::Unfit => return Ok(Vec::new()),
    };
    let mut spec = question.spec;
    for dull in ["template", "selector", "manualSelector"] {
        put(&mut spec, dull, Value::Null);
    }
    Ok(vec![json!({"spec": spec, "oldStatus": question.old, "newStatus": question.new, "errors": errors})])
}

/// A create, then an update of what it stored, and sometimes a write to its status.
async fn ask_manifests(server: &Server, seed: u64, number: u64) -> Result<Vec<Value>> {
    // Another range of streams than that of the transitions.
    let dice = &mut Dice::new(seed, (1 << 32) + number);
    let new = manifests::create(dice, number);
    let answer = server.create(&new).await?;
    let mut lines = Vec::from_iter(line("create", None, &new, &answer));
    let stored = match answer {
        Answer::Accepted(stored) => Answer::Accepted(stored),
        _ => server.create(&manifests::plain(&format!("plain-{number}"))).await?,
    };
    if let Answer::Accepted(mut stored) = stored {
        manifests::age(dice, &mut stored);
        lines.extend(ask_update(server, dice, stored).await?);
    }
    Ok(lines)
}

async fn ask_update(server: &Server, dice: &mut Dice, mut old: Value) -> Result<Vec<Value>> {
    let Some(name) = old["metadata"]["name"].as_str().map(str::to_owned) else { return Ok(Vec::new()) };
    put(&mut old, "/metadata/creationTimestamp", json!("2026-01-01T00:00:00Z"));
    if old["status"].is_null() {
        put(&mut old, "/status", json!({}));
    }
    let mut lines = Vec::new();
    for (op, is_asked) in [("update", true), ("status", dice.percent(25))] {
        if !is_asked {
            continue;
        }
        server.store(&name, &old).await?;
        let new = if op == "update" { manifests::edit(dice, &old) } else { manifests::edit_status(dice, &old) };
        let answer =
            if op == "update" { server.update(&name, &new).await? } else { server.update_status(&name, &new).await? };
        lines.extend(line(op, Some(&old), &new, &answer));
    }
    Ok(lines)
}

fn line(op: &str, old: Option<&Value>, new: &Value, answer: &Answer) -> Option<Value> {
    let mut line = json!({"op": op, "new": new});
    if let Some(old) = old {
        put(&mut line, "old", old.clone());
    }
    match answer {
        Answer::Accepted(stored) => put(&mut line, "stored", stored.clone()),
        Answer::Refused(errors) => put(&mut line, "errors", errors.clone()),
        Answer::Unfit => return None,
    }
    Some(line)
}
