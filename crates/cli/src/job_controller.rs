//! `jobferry job-controller`: Jobs that were delegated to us, run in the cluster where they were submitted. The cluster's
//! own controller runs all others at the same time.

use std::process::ExitCode;

use anyhow::bail;
use job_api::managed_by;
use jobferry_cluster::{JobOptions, run_jobs, system_clock};
use tokio_util::sync::CancellationToken;

use crate::{
    dispatcher::{log_to_stderr, stop_on_signal},
    fleet::random_seed,
    target::Target,
};

/// Flags of `jobferry job-controller`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Jobs with this `spec.managedBy` are ours; run one controller a value
    #[arg(long, value_name = "NAME", default_value = jobferry_api::managed_by::LOCAL)]
    managed_by: String,
}

/// Runs until Ctrl-C or SIGTERM.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    log_to_stderr(false, "info");
    if let Err(errors) = managed_by::validate(&args.managed_by).into_result() {
        bail!("--managed-by {}: {errors}", args.managed_by);
    }
    if [managed_by::RESERVED, jobferry_api::managed_by::DISPATCHER].contains(&args.managed_by.as_str()) {
        bail!("--managed-by {}: another controller answers to this name; choose your own", args.managed_by);
    }
    let client = args.target.client().await?;
    let shutdown = CancellationToken::new();
    tokio::spawn(stop_on_signal(shutdown.clone()));
    tracing::info!(managed_by = args.managed_by, "job controller starts");
    run_jobs(client, JobOptions::delegated(&args.managed_by, system_clock(), random_seed()), shutdown).await;
    Ok(ExitCode::SUCCESS)
}
