//! `cargo xtask bench apiserver`: the embedded API server beside a real kube-apiserver with etcd, in one run.
//!
//! ```text
//!                        fsync                              no fsync
//!   embedded             durable store                      in memory
//!   kube-apiserver       etcd as it comes                   etcd --unsafe-no-fsync
//! ```
//!
//! Each server is a process of its own and answers the same bytes of the same client over loopback TLS. Rounds are
//! interleaved: what slows the machine down for a while slows all four. The real server runs without controllers,
//! audit log and anything else that it could do without.

// A benchmark may stop at the first surprise; its table is what it is for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod load;
mod report;
mod servers;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use jobferry_testkit::{Durability, Testbed};

use load::Load;
use report::{Measure, Report};
use servers::Server;

#[derive(Parser)]
struct Arguments {
    /// Jobs on each server in the end. They are created in equal parts, one a round.
    #[arg(long, default_value_t = 10_000)]
    jobs: usize,
    /// How often everything is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The form of the result.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

#[derive(Subcommand)]
enum Role {
    /// What the bench starts as its own child: the embedded server, until it is killed.
    #[command(hide = true)]
    Serve {
        kubeconfig: PathBuf,
        /// The file of a durable store. Without one the server is in memory.
        store: Option<PathBuf>,
    },
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    if let Some(Role::Serve { kubeconfig, store }) = arguments.role {
        return servers::serve(&kubeconfig, store.as_deref()).await;
    }
    let testbed = Testbed::from_environment().unwrap_or_else(|missing| panic!("{missing}"));
    let mut servers = Vec::new();
    for durability in [Durability::Fsync, Durability::None] {
        servers.push(Server::embedded(durability).await);
        servers.push(Server::kubernetes(&testbed, durability).await);
    }
    let report = measure(&servers, arguments.jobs, arguments.rounds).await;
    match arguments.output {
        Output::Table => println!("{report}"),
        Output::Json => println!("{:#}", report.json()),
    }
}

async fn measure(servers: &[Server], jobs: usize, rounds: usize) -> Report {
    let mut report = Report::new(jobs, rounds);
    let loads: Vec<Load> = servers.iter().map(|server| Load::new(server.client.clone())).collect();
    for load in &loads {
        load.prepare().await;
    }
    let part = jobs / rounds;
    for round in 0..rounds {
        eprintln!("round {} of {rounds}: create, update, get", round + 1);
        for (server, load) in servers.iter().zip(&loads) {
            let numbers = round * part..(round + 1) * part;
            report.note(server, Measure::Create, load.creates_per_second(numbers.clone()).await);
            report.note(server, Measure::StatusUpdate, load.status_updates_per_second(numbers.clone()).await);
            report.note(server, Measure::Get, load.gets_per_second(numbers).await);
        }
    }
    for server in servers {
        let memory = server.memory();
        report.note(server, Measure::Memory, memory.api_server_mebibytes);
        if let Some(mebibytes) = memory.etcd_mebibytes {
            report.note(server, Measure::MemoryOfEtcd, mebibytes);
        }
    }
    for round in 0..rounds {
        eprintln!("round {} of {rounds}: list, watch", round + 1);
        for (server, load) in servers.iter().zip(&loads) {
            report.note(server, Measure::List, load.list_milliseconds(part * rounds).await);
            report.note(server, Measure::WatchFanOut, load.watch_events_per_second().await);
        }
    }
    report
}
