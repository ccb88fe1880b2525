//! `jobferry job-controller`: Jobs that were delegated to us, run in the cluster where they were submitted. The cluster's
//! own controller runs all others at the same time.

use std::process::ExitCode;

use anyhow::Context as _;
use jobferry_api::managed_by;
use jobferry_cluster::{JobOptions, Lease, run_jobs, system_clock};
use jobferry_kubeio as kubeio;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    delegation,
    dispatcher::{LOGGED, identity, log_to_stderr, stop_on_signal},
    fleet::random_seed,
    install::DEADLINE,
    own_name,
    target::Target,
};

/// Flags of `jobferry job-controller`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Jobs with this `spec.managedBy` are ours; run one controller a value
    #[arg(long, value_name = "NAME", default_value = managed_by::LOCAL)]
    managed_by: String,
    /// Work without leader election; for a single controller only
    #[arg(long)]
    no_lease: bool,
    /// The namespace of the lease
    #[arg(long, value_name = "NAME", default_value = "kube-system", conflicts_with = "no_lease")]
    lease_namespace: String,
}

/// Runs until Ctrl-C or SIGTERM.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    log_to_stderr(false, LOGGED);
    own_name::check(&args.managed_by, &[managed_by::DISPATCHER, managed_by::CANARY, managed_by::MULTIKUEUE])?;
    let client = args.target.client().await?;
    delegation::check_version(&client).await?;
    // What is wrong from the first moment is told at once; what comes later is waited out.
    let jobs = kubeio::get::<Value>(&client, "/apis/batch/v1/jobs?limit=1", DEADLINE).await;
    jobs.context("cannot list the Jobs of the cluster")?;
    let shutdown = CancellationToken::new();
    tokio::spawn(stop_on_signal(shutdown.clone()));
    tracing::info!(managed_by = args.managed_by, "job controller starts");
    let lease = (!args.no_lease).then(|| Lease {
        namespace: args.lease_namespace,
        name: own_name::lease("job-controller", &args.managed_by),
        identity: identity(),
    });
    let options = JobOptions { lease, ..JobOptions::delegated(&args.managed_by, system_clock(), random_seed()) };
    run_jobs(client, options, shutdown).await;
    Ok(ExitCode::SUCCESS)
}
