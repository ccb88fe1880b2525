//! `jobferry-sim`: many seeds, or one again.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clap::{Parser, ValueEnum};
use jobferry_sim::model::SmallWorld;
use jobferry_sim::{FaultSet, Outcome, RunError, Settings, Summary, Violation, model, planted, run};

/// Runs the dispatcher in simulated worlds where everything goes wrong, and checks its promises.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many seeds to run; 100, unless --jobs says how long.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// Run seeds until so many Jobs were simulated; with --seeds, until one of both is reached.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    jobs: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    start: u64,
    /// Which faults: `all`, `none`, or names separated by commas.
    #[arg(long, default_value = "all")]
    faults: FaultSet,
    /// Make some of the workloads of another kind than Job.
    #[arg(long)]
    mixed: bool,
    /// Go through every interleaving of small worlds instead.
    #[arg(long, conflicts_with_all = ["seeds", "jobs", "start", "faults", "mixed", "planted", "replay", "output"])]
    exhaustive: bool,
    /// Only the small worlds with these words in their name.
    #[arg(long, value_name = "WORDS", requires = "exhaustive")]
    world: Option<String>,
    /// Look for every planted bug; print the table of what it took, and the shortest ways to those of the small worlds.
    #[arg(long, conflicts_with_all = ["seeds", "jobs", "start", "faults", "mixed", "replay", "output"])]
    planted: bool,
    /// Run one seed, and print its whole event log to stderr.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "jobs", "start"])]
    replay: Option<u64>,
    /// Threads, each of which runs seeds, or searches small worlds, of its own. Does not change what comes of them.
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
    if arguments.exhaustive {
        return exhaustive(arguments.world.as_deref().unwrap_or_default(), arguments.threads);
    }
    if arguments.planted {
        return planted();
    }
    match work(&arguments) {
        Ok(summary) if summary.violations == 0 => ExitCode::SUCCESS,
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
        Some(seed) => replay(seed, arguments)?,
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

/// How many seeds are run if nobody says.
const DEFAULT_SEEDS: u64 = 100;
/// The search for a planted bug ends after so many states: up to eight gigabytes.
const MOST_STATES: usize = 40_000_000;
/// So many searches at once, at most.
const SEARCHES: usize = 2;

/// Every small world with these words in its name; each thread goes through one at a time.
fn exhaustive(words: &str, threads: usize) -> ExitCode {
    let meant = |world: &SmallWorld| world.name.contains(&words.to_lowercase());
    let chosen: Vec<_> = model::SMALL_WORLDS.into_iter().filter(meant).collect();
    if chosen.is_empty() {
        let names = model::SMALL_WORLDS.map(|world| world.name).join("\n  ");
        let _ = writeln!(std::io::stderr(), "there is no small world with `{words}` in its name; they are:\n  {names}");
        return ExitCode::from(2);
    }
    let (next, broken) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        while let Some(world) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let report = model::explore(world.budget, None, world.most_states);
            broken.fetch_or(report.counterexample.is_some(), Ordering::Relaxed);
            let _ = std::io::stdout().write_all(told(world.name, &report).as_bytes());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, SEARCHES) {
            scope.spawn(work);
        }
    });
    if broken.into_inner() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn told(name: &str, report: &model::Report) -> String {
    let verdict = match (&report.counterexample, report.complete) {
        (Some(_), _) => "broken:",
        (None, true) => "all of them: no violation, no dead end",
        (None, false) => "the first of them: no violation",
    };
    let story = report.counterexample.as_ref().map(|found| format!("{found}\n")).unwrap_or_default();
    format!("{name:<48} {:>10} states, depth {:>3}, {verdict}\n{story}", report.states, report.depth)
}

/// Every planted bug, one after the other.
fn planted() -> ExitCode {
    match planted::table(MOST_STATES, &mut std::io::stdout()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::from(2)
        }
    }
}

fn settings(arguments: &Arguments) -> Settings {
    Settings { faults: arguments.faults.clone(), mixed: arguments.mixed, ..Settings::default() }
}

fn replay(seed: u64, arguments: &Arguments) -> Result<Summary, RunError> {
    let settings = Settings { keep_lines: usize::MAX, ..settings(arguments) };
    let outcome = run(seed, &settings)?;
    std::io::stderr().write_all(outcome.log.as_bytes())?;
    let mut summary = Summary { first_seed: seed, ..Summary::default() };
    summary.add(outcome);
    Ok(summary)
}

/// Threads take seeds one after the other; what came of them is counted in the order of the seeds, so that the same
/// arguments give the same summary however the threads get on.
fn run_all(arguments: &Arguments) -> Result<Summary, RunError> {
    let settings = settings(arguments);
    let goal = Goal::of(arguments);
    let next = AtomicU64::new(0);
    let results = Mutex::new(Results::new(arguments.start, goal));
    let progress = Progress::to_terminal(goal);
    let work = || -> Result<(), RunError> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if lock(&results).is_enough(number) {
                return Ok(());
            }
            let seed = arguments.start.saturating_add(number);
            let outcome = run(seed, &settings)?;
            // A long run need not be over before somebody looks into it.
            for (Violation { promise, what, .. }, _) in &outcome.violations {
                let _ = writeln!(std::io::stderr(), "seed {seed} breaks {promise}: {what}");
            }
            let mut results = lock(&results);
            results.add(number, outcome);
            progress.show(&results.summary);
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
    Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner).summary)
}

fn lock(results: &Mutex<Results>) -> MutexGuard<'_, Results> {
    results.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How much is to be run, at most.
#[derive(Debug, Clone, Copy)]
struct Goal {
    seeds: u64,
    jobs: u64,
}

impl Goal {
    fn of(arguments: &Arguments) -> Self {
        let seeds = if arguments.jobs.is_some() { u64::MAX } else { DEFAULT_SEEDS };
        Self { seeds: arguments.seeds.unwrap_or(seeds), jobs: arguments.jobs.unwrap_or(u64::MAX) }
    }

    /// How much of it is done, as a part of `whole`.
    fn done(self, summary: &Summary, whole: u64) -> u64 {
        let part = |done: u64, of: u64| done.saturating_mul(whole) / of;
        part(summary.seeds, self.seeds).max(part(summary.jobs, self.jobs)).min(whole)
    }
}

/// What came of the seeds so far.
struct Results {
    summary: Summary,
    goal: Goal,
    /// Those that wait for an earlier seed, by number.
    waiting: BTreeMap<u64, Outcome>,
}

impl Results {
    fn new(first_seed: u64, goal: Goal) -> Self {
        Self { summary: Summary { first_seed, ..Summary::default() }, goal, waiting: BTreeMap::new() }
    }

    fn is_enough(&self, number: u64) -> bool {
        number >= self.goal.seeds || self.summary.jobs >= self.goal.jobs
    }

    fn add(&mut self, number: u64, outcome: Outcome) {
        self.waiting.insert(number, outcome);
        while !self.is_enough(self.summary.seeds)
            && let Some(outcome) = self.waiting.remove(&self.summary.seeds)
        {
            self.summary.add(outcome);
        }
    }
}

/// How long the bar is.
const BAR: u64 = 20;

/// A line on the terminal that says how far it is; nothing when stderr is no terminal.
struct Progress {
    goal: Goal,
    shown: bool,
}

impl Progress {
    fn to_terminal(goal: Goal) -> Self {
        Self { goal, shown: std::io::stderr().is_terminal() }
    }

    fn show(&self, summary: &Summary) {
        if self.shown {
            let filled = usize::try_from(self.goal.done(summary, BAR)).unwrap_or(0);
            let (seeds, jobs, bad) = (summary.seeds, summary.jobs, summary.violations);
            let bar = format!("{:<20}", "#".repeat(filled));
            let _ = write!(std::io::stderr(), "\r[{bar}] {seeds} seeds, {jobs} jobs, {bad} violations");
        }
    }

    fn end(&self) {
        if self.shown {
            let _ = writeln!(std::io::stderr());
        }
    }
}
