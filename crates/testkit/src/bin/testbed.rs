//! `testbed up`: real clusters in the foreground, for people. `cargo xtask testbed up` builds the binaries and calls it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

use std::path::PathBuf;

use anyhow::Context;
use clap::{Parser, Subcommand};
use jobferry_testkit::{PodRunner, RealCluster, Testbed, User};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Real Kubernetes control planes on loopback.
#[derive(Parser)]
#[command(name = "testbed")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs clusters until Ctrl-C or SIGTERM. stdout lists one kubeconfig path a line once all are ready.
    Up {
        /// How many clusters.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
        clusters: u16,
        /// Where their files go: DIR/cluster-1, DIR/cluster-2, ... Emptied first if an earlier run made them.
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        /// Leaves pods alone. By default a scripted node "runs" them, so that Jobs finish.
        #[arg(long)]
        no_runner: bool,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // The client calls every unanswered probe of a starting server an error.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,kube_client=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match Arguments::parse().command {
        Command::Up { clusters, dir, no_runner } => up(clusters, dir, !no_runner).await,
    }
}

async fn up(count: u16, directory: PathBuf, with_runner: bool) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    let testbed = Testbed::from_environment()?;

    let serve = async {
        eprintln!("Starting {count} real cluster(s) in {}", directory.display());
        let names: Vec<String> = (1..=count).map(|number| format!("cluster-{number}")).collect();
        let places: Vec<PathBuf> = names.iter().map(|name| directory.join(name)).collect();
        let starts = names.iter().zip(&places).map(|(name, place)| RealCluster::start(&testbed, name, place));
        let clusters = futures::future::try_join_all(starts).await?;
        let mut runners = Vec::new();
        for cluster in &clusters {
            if with_runner {
                let config = cluster.config(User::PodRunner).await?;
                runners.push(PodRunner::start(config).context("starting the pod runner")?);
            }
            println!("{}", cluster.kubeconfig_path(User::Admin).display());
        }
        eprintln!("Ready. kubectl is {}; Ctrl-C ends everything", testbed.kubectl().display());
        std::future::pending::<anyhow::Result<()>>().await
    };
    tokio::select! {
        outcome = serve => outcome,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}
