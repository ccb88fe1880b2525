//! `jobferry lint`: what an API server would say about manifests, and what a dispatcher's user should know.
//!
//! ```text
//! files ─► input (documents with lines) ─► check (job-api) + warnings ─► report (text or JSON)
//! ```

mod check;
mod input;
mod located;
mod report;
mod warnings;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail, ensure};
use clap::ValueEnum;
use report::Report;
use serde_json::Value;

use crate::server_version::ServerVersion;

#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 accepted, 1 an error was found (with --strict also a warning), 2 a file cannot be read."
)]
pub(crate) struct Args {
    /// Manifests of Jobs and CronJobs, YAML or JSON, many documents a file; - reads standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The API server whose rules apply: 1.32 to 1.37, also with a patch release
    #[arg(long, value_name = "VERSION", default_value = ServerVersion::DEFAULT)]
    server: ServerVersion,
    /// How to print the findings
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
    /// Exit with 1 also for warnings
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// One block a document
    Text,
    /// One JSON object
    Json,
}

/// The documents of a file, whatever they are.
pub(crate) fn documents(file: &Path) -> anyhow::Result<Vec<Value>> {
    let (documents, unreadable) = input::read(file);
    unreadable.map_or(Ok(()), |unreadable| Err(anyhow!(unreadable.to_text())))?;
    Ok(documents.iter().map(|document| document.content.to_value()).collect())
}

/// The Jobs of a file, if a server would take all of them. Warnings go to stderr.
pub(crate) fn jobs(file: &Path) -> anyhow::Result<Vec<Value>> {
    let (documents, unreadable) = input::read(file);
    if let Some(unreadable) = unreadable {
        bail!("{}", unreadable.to_text());
    }
    let mut jobs = Vec::new();
    for document in &documents {
        let judged = check::check(document, ServerVersion::default());
        let mut judged = judged.map_err(|unreadable| anyhow!(unreadable.to_text()))?;
        judged.defaults.clear();
        ensure!(judged.kind == "Job", "{} {} is not a Job; `kubectl create` takes it", judged.kind, judged.name);
        // Whoever submits by us need not say so in the manifest.
        judged.warnings.retain(|warning| warning.code != warnings::MANAGED_BY_MISSING);
        ensure!(judged.errors.is_empty(), "{}", judged.to_text().trim_end());
        if !judged.warnings.is_empty() {
            eprint!("{}", judged.to_text());
        }
        jobs.push(document.content.to_value());
    }
    Ok(jobs)
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let mut report = Report::default();
    for file in &args.files {
        let (documents, unreadable) = input::read(file);
        for document in &documents {
            match check::check(document, args.server) {
                Ok(judged) => report.documents.push(judged),
                Err(unreadable) => report.unreadable.push(unreadable),
            }
        }
        report.unreadable.extend(unreadable);
    }
    let text = match args.output {
        Output::Text => report.to_text(),
        Output::Json => report.to_json() + "\n",
    };
    // Whoever closes our output has seen enough; the verdict is the exit code.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    for unreadable in &report.unreadable {
        eprintln!("error: {}", unreadable.to_text());
    }
    let (documents, errors, warnings) = (report.documents.len(), report.errors(), report.warnings());
    eprintln!("Kubernetes {}: {documents} documents, {errors} errors, {warnings} warnings", args.server);
    match () {
        () if !report.unreadable.is_empty() => ExitCode::from(2),
        () if errors > 0 || (args.strict && warnings > 0) => ExitCode::from(1),
        () => ExitCode::SUCCESS,
    }
}
