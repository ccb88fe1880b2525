//! `cargo xtask bench dispatch`: Jobs a second through one management cluster and its workers, all of them real.
//!
//! ```text
//!   floor      a bare client: placement PATCH, mirror POST, two status PATCHes, driven by watches, and no thought at all
//!   jobferry   the shipped binary, `jobferry dispatcher`
//!   kueue      with `--opponent kueue`: MultiKueue, unmodified, as it ships and as fast as its settings allow
//! ```
//!
//! Each is a process of its own between the same clusters, with the same Jobs, created and watched by the same client;
//! only who ferries them differs. Every round starts fresh clusters, and rounds alternate, so that what slows the machine
//! down for a while slows all of them.
//!
//! Workers are either *inert* (nobody runs the mirrors; their statuses are written by this program, so that only
//! dispatching is measured) or *running* (kube-controller-manager runs them; their pods end at once).

// A benchmark may stop at the first surprise; its table is what it is for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod contender;
mod fleet;
mod floor;
mod load;
#[path = "../measure/mod.rs"]
#[allow(dead_code, reason = "each bench uses a part of it")]
mod measure;
mod report;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use contender::Contender;
use fleet::{Fleet, Mode};
use jobferry_testkit::Testbed;
use load::Load;
use report::{Report, Round};

#[derive(Parser)]
struct Arguments {
    /// Jobs in a round.
    #[arg(long, default_value_t = 2_000)]
    jobs: usize,
    /// Worker clusters.
    #[arg(long, default_value_t = 3)]
    workers: usize,
    /// Rounds of each contender in each mode.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Creations that are under way at the same time.
    #[arg(long, default_value_t = 32)]
    in_flight: usize,
    /// Jobs created one after the other, for the latency on idle clusters. Each takes 2 s where it really runs, so there
    /// are fewer of them in that mode.
    #[arg(long, default_value_t = 200)]
    singles: usize,
    /// Only one of the modes.
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Only one of the contenders.
    #[arg(long, value_enum)]
    only: Option<Contender>,
    /// Who else is measured, where Jobs really run.
    #[arg(long, value_enum)]
    opponent: Option<Opponent>,
    /// Its Jobs in a round: it takes almost a second for each.
    #[arg(long, default_value_t = 120)]
    opponent_jobs: usize,
    /// Its rounds, for the same reason.
    #[arg(long, default_value_t = 1)]
    opponent_rounds: usize,
    /// The binary to measure.
    #[arg(long, env = "JOBFERRY_BINARY")]
    jobferry: PathBuf,
    /// The form of the result.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Opponent {
    Kueue,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// What this program is started as by itself.
#[derive(Parser)]
struct Child {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// The bare client.
    Floor(floor::Arguments),
}

/// Running Jobs one after the other is slow: kube-controller-manager takes a second for each.
const RUNNING_SINGLES: usize = 30;

#[tokio::main]
async fn main() {
    if std::env::args().nth(1).as_deref() == Some(floor::ROLE) {
        let Role::Floor(arguments) = Child::parse().role;
        return floor::run(arguments).await;
    }
    let arguments = Arguments::parse();
    let report = measure(&arguments).await;
    match arguments.output {
        Output::Table => println!("{report}"),
        Output::Json => println!("{:#}", report.json()),
    }
}

async fn measure(arguments: &Arguments) -> Report {
    let mut report = Report { jobs: arguments.jobs, workers: arguments.workers, rounds: Vec::new() };
    for mode in [Mode::Inert, Mode::Running] {
        if arguments.mode.is_some_and(|only| only != mode) {
            continue;
        }
        for number in 1..=arguments.rounds {
            for contender in Contender::ALL {
                if !arguments.wants(contender, mode, number) {
                    continue;
                }
                let round = measure_one(arguments, mode, contender, number == 1).await;
                eprintln!("round {number}: {round}");
                report.rounds.push(round);
            }
        }
    }
    report
}

impl Arguments {
    fn wants(&self, contender: Contender, mode: Mode, round: usize) -> bool {
        if contender.is_kueue() && (self.opponent.is_none() || mode == Mode::Inert || round > self.opponent_rounds) {
            return false;
        }
        self.only.is_none_or(|only| only == contender)
    }
}

async fn measure_one(arguments: &Arguments, mode: Mode, contender: Contender, first: bool) -> Round {
    let testbed = Testbed::from_environment().unwrap_or_else(|missing| panic!("{missing}"));
    let fleet = Fleet::start(&testbed, mode, arguments.workers).await;
    let mut process = contender.start(&fleet, &arguments.jobferry).await;
    let load = Load::start(&fleet, contender).await;
    let singles = match (first, mode) {
        (false, _) => 0,
        (true, Mode::Inert) => arguments.singles,
        (true, Mode::Running) => arguments.singles.min(RUNNING_SINGLES),
    };
    let idle = async {
        load.warm_up(arguments.workers).await;
        load.one_by_one(singles).await
    };
    let singles = process.watched(idle).await;
    let marks = fleet.audit_marks();
    let (own_before, servers_before) = (process.cpu(), fleet.cpu());
    let jobs = if contender.is_kueue() { arguments.opponent_jobs } else { arguments.jobs };
    let burst = process.watched(load.burst(jobs, arguments.in_flight)).await;
    Round {
        mode,
        contender,
        jobs,
        burst,
        singles,
        own_cpu: process.cpu().saturating_sub(own_before),
        servers_cpu: fleet.cpu() - servers_before,
        writes: fleet.writes_since(&marks, contender),
        peak_memory: process.peak_memory(),
    }
}
