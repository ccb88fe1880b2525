//! `jobferry job-controller`: Jobs that were delegated to us, run in the cluster where they were submitted. The cluster's
//! own controller runs all others at the same time.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use job_api::managed_by;
use jobferry_cluster::{JobOptions, Lease, run_jobs, system_clock};
use jobferry_kubeio as kubeio;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    delegation,
    dispatcher::{LOGGED, identity, log_to_stderr, stop_on_signal},
    fleet::random_seed,
    install::DEADLINE,
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
    if let Err(errors) = managed_by::validate(&args.managed_by).into_result() {
        bail!("--managed-by {}: {errors}", args.managed_by);
    }
    if [managed_by::RESERVED, jobferry_api::managed_by::DISPATCHER].contains(&args.managed_by.as_str()) {
        bail!("--managed-by {}: another controller answers to this name; choose your own", args.managed_by);
    }
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
        name: lease_name(&args.managed_by),
        identity: identity(),
    });
    let options = JobOptions { lease, ..JobOptions::delegated(&args.managed_by, system_clock(), random_seed()) };
    run_jobs(client, options, shutdown).await;
    Ok(ExitCode::SUCCESS)
}

/// One lease a value of managedBy: `job-controller-local.jobferry.dev` for `jobferry.dev/local`. What a name cannot
/// carry is escaped, so that no two values share a lease.
fn lease_name(managed_by: &str) -> String {
    let (domain, path) = managed_by.split_once('/').unwrap_or((managed_by, ""));
    let mut name = "job-controller-".to_owned();
    for byte in path.bytes() {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() {
            name.push(char::from(byte));
        } else {
            name.extend(["-", &format!("{byte:02x}")]);
        }
    }
    name + "." + domain
}

#[cfg(test)]
mod tests {
    use super::lease_name;

    #[test]
    fn every_value_of_managed_by_has_a_lease_of_its_own() {
        assert_eq!(lease_name("jobferry.dev/local"), "job-controller-local.jobferry.dev");
        assert_eq!(lease_name("jobferry.dev/Local.x"), "job-controller--4cocal-2ex.jobferry.dev");
        assert_ne!(lease_name("b.c/a"), lease_name("c/a.b"));
    }
}
