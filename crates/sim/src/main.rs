//! `jobferry-sim`: many seeds, or one again.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::{Parser, ValueEnum};
use jobferry_sim::{FaultSet, RunError, Settings, Summary, run};

/// Runs the dispatcher in simulated worlds where everything goes wrong, and checks its promises.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    start: u64,
    /// Which faults: `all`, `none`, or names separated by commas.
    #[arg(long, default_value = "all")]
    faults: FaultSet,
    /// Run one seed and print its whole event log.
    #[arg(long, value_name = "SEED")]
    replay: Option<u64>,
    /// Threads, each of which runs seeds of its own. Does not change what a seed does.
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    threads: usize,
    /// How to print the summary.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    /// For people.
    Text,
    /// For machines.
    Json,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match work(&arguments) {
        Ok(summary) if summary.violations.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::from(2)
        }
    }
}

fn work(arguments: &Arguments) -> Result<Summary, RunError> {
    #[allow(clippy::disallowed_methods, reason = "how long it takes is a matter of real time")]
    let started = std::time::Instant::now();
    let mut summary = match arguments.replay {
        Some(seed) => replay(seed, &arguments.faults)?,
        None => run_all(arguments)?,
    };
    summary.took(started.elapsed());
    let text = match arguments.output {
        Output::Text => summary.text(),
        Output::Json => serde_json::to_string_pretty(&summary).unwrap_or_default() + "\n",
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(summary)
}

fn replay(seed: u64, faults: &FaultSet) -> Result<Summary, RunError> {
    let settings = Settings { faults: faults.clone(), keep_lines: usize::MAX, ..Settings::default() };
    let outcome = run(seed, &settings)?;
    std::io::stderr().write_all(outcome.log.as_bytes())?;
    let mut summary = Summary { first_seed: seed, ..Summary::default() };
    summary.add(outcome);
    Ok(summary)
}

/// Threads take seeds one after the other.
fn run_all(arguments: &Arguments) -> Result<Summary, RunError> {
    let settings = Settings { faults: arguments.faults.clone(), ..Settings::default() };
    let next = AtomicU64::new(0);
    let summary = Mutex::new(Summary { first_seed: arguments.start, ..Summary::default() });
    let progress = Progress::to_terminal(arguments.seeds);
    let work = || -> Result<(), RunError> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= arguments.seeds {
                return Ok(());
            }
            let outcome = run(arguments.start + number, &settings)?;
            let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
            summary.add(outcome);
            progress.show(&summary);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..arguments.threads.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    progress.end();
    let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.violations.sort_by_key(|finding| finding.seed);
    Ok(summary)
}

/// A line on the terminal that says how far it is; nothing when stderr is no terminal.
struct Progress {
    seeds: u64,
    shown: bool,
}

impl Progress {
    fn to_terminal(seeds: u64) -> Self {
        Self { seeds, shown: std::io::stderr().is_terminal() }
    }

    fn show(&self, summary: &Summary) {
        if self.shown {
            let (done, all, jobs, bad) = (summary.seeds, self.seeds, summary.jobs, summary.violations.len());
            let _ = write!(std::io::stderr(), "\r{done}/{all} seeds, {jobs} jobs, {bad} violations");
        }
    }

    fn end(&self) {
        if self.shown {
            let _ = writeln!(std::io::stderr());
        }
    }
}
