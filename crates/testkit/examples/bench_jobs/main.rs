//! `cargo xtask bench jobs`: how many Jobs a second a cluster brings from their creation to Complete.
//!
//! ```text
//!   embedded      API server, Job controller, scheduler, node: one process
//!   kubernetes    kube-apiserver, etcd, kube-controller-manager; our scheduler and node beside them
//! ```
//!
//! The Jobs are the same, their pods are really run (by the same code, as processes), and they are created and watched
//! by the same client over loopback TLS. The clusters are measured one after the other, so that each has the whole machine;
//! rounds alternate, so that what slows the machine down for a while slows both.

// A benchmark may stop at the first surprise; its table is what it is for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod clusters;
mod load;
mod report;

use clap::{Parser, ValueEnum};
use clusters::Cluster;
use jobferry_testkit::Testbed;
use load::{Figures, Load};
use report::Report;

#[derive(Parser)]
struct Arguments {
    /// Jobs in a round.
    #[arg(long, default_value_t = 2_000)]
    jobs: usize,
    /// Rounds on each cluster, each on a fresh one.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Creations that are under way at the same time.
    #[arg(long, default_value_t = 16)]
    in_flight: usize,
    /// Only one of the clusters.
    #[arg(long, value_enum)]
    only: Option<Kind>,
    /// The form of the result.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Embedded,
    Kubernetes,
}

fn main() {
    // The node starts this program again as the reaper of its containers.
    if jobferry_node::enter_if_asked() {
        return;
    }
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let report = runtime.block_on(measure(&arguments));
    match arguments.output {
        Output::Table => println!("{report}"),
        Output::Json => println!("{:#}", report.json()),
    }
}

async fn measure(arguments: &Arguments) -> Report {
    let load = Load { jobs: arguments.jobs, in_flight: arguments.in_flight };
    let mut report = Report { jobs: load.jobs, embedded: Vec::new(), kubernetes: Vec::new() };
    for round in 1..=arguments.rounds {
        for kind in [Kind::Embedded, Kind::Kubernetes] {
            if arguments.only.is_some_and(|only| only != kind) {
                continue;
            }
            let figures = measure_one(kind, load).await;
            eprintln!("round {round}: {kind:?}: {:.1} Jobs/s", figures.jobs_per_second);
            match kind {
                Kind::Embedded => report.embedded.push(figures),
                Kind::Kubernetes => report.kubernetes.push(figures),
            }
        }
    }
    report
}

async fn measure_one(kind: Kind, load: Load) -> Figures {
    let cluster = match kind {
        Kind::Embedded => Cluster::embedded().await,
        Kind::Kubernetes => {
            let testbed = Testbed::from_environment().unwrap_or_else(|missing| panic!("{missing}"));
            Cluster::kubernetes(&testbed).await
        }
    };
    let figures = load::run(&cluster.client, load).await;
    cluster.stop().await;
    figures
}
