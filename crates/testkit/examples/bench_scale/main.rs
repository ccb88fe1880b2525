//! `cargo xtask bench scale`: the dispatcher, as a process of its own, with many Jobs and many workers.
//!
//! ```text
//!   jobs      1,000 to 100,000 placed, unfinished Jobs: memory, start, what one more event costs
//!   workers   the same with 1 to 100 workers
//!   hung      one worker of five takes connections and never answers: what the others notice of it
//!   sustain   the highest rate that it keeps up with, and at which 99 of 100 Jobs have their mirror within a second
//! ```
//!
//! The clusters are embedded API servers in this program, over loopback TLS: a hundred real ones would not fit on a machine.
//! Nobody runs the mirrors; this program writes their statuses.

// A benchmark may stop at the first surprise; its table is what it is for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod dispatcher;
mod flow;
mod hung;
#[path = "../measure/mod.rs"]
#[allow(dead_code, reason = "each bench uses a part of it")]
mod measure;
mod mirrors;
mod report;
mod standing;
mod sustain;
mod world;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use report::Report;

#[derive(Parser)]
pub(crate) struct Arguments {
    /// How many placed Jobs, with ten workers.
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,100000")]
    jobs: Vec<usize>,
    /// How many workers, with as many Jobs as the second number above.
    #[arg(long, value_delimiter = ',', default_value = "1,10,100")]
    workers: Vec<usize>,
    /// Changes of mirrors over which the cost of one is measured.
    #[arg(long, default_value_t = 5_000)]
    events: usize,
    /// Count instructions too: the dispatcher is started once more under valgrind.
    #[arg(long)]
    instructions: bool,
    /// Seconds of each half of the run with a hung worker.
    #[arg(long, default_value_t = 30)]
    hung_seconds: u32,
    /// Seconds for which the highest rate must hold.
    #[arg(long, default_value_t = 600)]
    sustain_seconds: u32,
    /// Jobs a second to begin the search for the highest rate with.
    #[arg(long, default_value_t = 100.0)]
    sustain_from: f64,
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',')]
    part: Vec<Part>,
    /// The binary to measure.
    #[arg(long, env = "JOBFERRY_BINARY")]
    jobferry: PathBuf,
    /// Where to put plots.
    #[arg(long)]
    plots: Option<PathBuf>,
    /// The form of the result.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Jobs,
    Workers,
    Hung,
    Sustain,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// Workers, where their number is not what is measured.
const SOME_WORKERS: usize = 10;
/// Workers, where many of them are wanted.
const MANY_WORKERS: usize = 100;

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let report = measure(&arguments).await;
    if let Some(directory) = &arguments.plots {
        report.plot(directory);
    }
    match arguments.output {
        Output::Table => println!("{report}"),
        Output::Json => println!("{:#}", report.json()),
    }
}

async fn measure(arguments: &Arguments) -> Report {
    let wanted = |part| arguments.part.is_empty() || arguments.part.contains(&part);
    let mut report = Report::default();
    if wanted(Part::Jobs) {
        for jobs in &arguments.jobs {
            let standing = standing::measure(arguments, *jobs, SOME_WORKERS).await;
            eprintln!("{standing}");
            report.by_jobs.push(standing);
        }
    }
    if wanted(Part::Workers) {
        let jobs = *arguments.jobs.get(1).or(arguments.jobs.first()).unwrap();
        for workers in &arguments.workers {
            let standing = standing::measure(arguments, jobs, *workers).await;
            eprintln!("{standing}");
            report.by_workers.push(standing);
        }
    }
    if wanted(Part::Hung) {
        report.hung = Some(hung::measure(arguments).await);
    }
    if wanted(Part::Sustain) {
        report.sustained = Some(sustain::measure(arguments, MANY_WORKERS).await);
    }
    report
}
