//! `jobferry up`: a fleet without Kubernetes, kept running; kubectl works against every cluster of it.

use std::{
    collections::BTreeMap, fs, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::PathBuf, process::ExitCode,
};

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use crate::{
    dispatcher::{log_to_stderr, stop_on_signal},
    fleet::{Fleet, WorkerPlan},
};

/// Flags of `jobferry up`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many workers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
    workers: u16,
    /// Where the kubeconfig, and the pods' files and logs, are kept
    #[arg(long, value_name = "DIR", default_value = "jobferry-fleet")]
    dir: PathBuf,
}

/// Runs until Ctrl-C or SIGTERM.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    log_to_stderr(false, "warn");
    fs::create_dir_all(&args.dir).with_context(|| format!("directory {}", args.dir.display()))?;
    let shutdown = CancellationToken::new();
    tokio::spawn(stop_on_signal(shutdown.clone()));
    let plan = |number| WorkerPlan { name: format!("worker-{number}"), labels: BTreeMap::new() };
    let plans: Vec<_> = (1..=args.workers).map(plan).collect();
    let fleet = Fleet::start(&args.dir, &plans).await?;
    let kubeconfig = args.dir.join("kubeconfig");
    let mut file = fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&kubeconfig)?;
    file.write_all(fleet.kubeconfig()?.as_bytes())?;
    println!("export KUBECONFIG={}", kubeconfig.canonicalize()?.display());
    println!("kubectl get workers");
    println!("kubectl --context worker-1 get jobs");
    println!("ready: a manager and {} workers; Ctrl-C stops them", args.workers);
    shutdown.cancelled().await;
    fleet.stop().await;
    Ok(ExitCode::SUCCESS)
}
