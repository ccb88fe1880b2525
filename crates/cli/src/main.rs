//! `jobferry`: ferries Kubernetes Jobs to other clusters and brings their status back.
//!
//! stdout is data, stderr is talk. Each subcommand is a module with `Args` and `run`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program talks to people")]

mod called_as;
mod complete;
mod conformance;
mod crds;
mod delegation;
mod demo;
mod dispatcher;
mod doctor;
mod fleet;
mod install;
mod job;
mod job_controller;
mod kinds;
mod label;
mod lint;
mod manifests;
mod own_name;
#[cfg(test)]
mod reference;
mod server_version;
mod table;
mod target;
mod trouble;
mod up;
mod version;
mod worker;

use std::process::ExitCode;

use called_as::CalledAs;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// Ferries Kubernetes Jobs to other clusters and brings their status back.
#[derive(Parser)]
#[command(name = "jobferry", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// See it work: a management cluster and three workers in this process, six telling Jobs
    Demo,
    /// Run a fleet without Kubernetes, for kubectl to play with
    Up(up::Args),
    /// Say how the fleet of `jobferry up` is
    Status(up::Place),
    /// Stop the fleet of `jobferry up`
    Down(up::Place),
    /// Jobs, where they run and why they wait
    Get(job::get::Args),
    /// Each worker with its verdict on a Job, and what would change it
    Explain(job::explain::Args),
    /// Give Jobs from a file to the dispatcher
    Submit(job::submit::Args),
    /// Wait until Jobs have ended
    Wait(job::wait::Args),
    /// The output of a Job's pods, wherever they run
    Logs(job::logs::Args),
    /// Look for what is wrong, and say how to mend it
    Doctor(doctor::Args),
    /// Run the dispatcher for a management cluster
    Dispatcher(dispatcher::Args),
    /// Run Jobs of a cluster by our own Job controller
    JobController(job_controller::Args),
    /// Prepare a cluster: CRDs, namespace, a ServiceAccount with narrow rights
    Install(install::Args),
    /// Add, list, close and remove worker clusters
    #[command(subcommand)]
    Worker(worker::Command),
    /// Kinds of workloads: what is known of them, and what would become of an object
    #[command(subcommand)]
    Kinds(kinds::Command),
    /// Check manifests of Jobs and CronJobs as an API server would, and for what does not travel
    Lint(lint::Args),
    /// For authors of external Job controllers: which status writes would a server refuse?
    #[command(subcommand)]
    Conformance(conformance::Command),
    /// Say which version this is, which the management cluster is, and whether they fit
    Version(version::Args),
    /// Print the custom resource definitions that a management cluster needs
    Crds,
    /// Print a script that completes commands and flags in a shell
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    // The node starts this program again as the reaper of its containers.
    if jobferry_node::enter_if_asked() {
        return ExitCode::SUCCESS;
    }
    leave_quietly_when_nobody_reads();
    let words: Vec<String> = std::env::args().collect();
    let called_as = CalledAs::from_program(words.first().map_or("", String::as_str));
    if called_as == CalledAs::Completer {
        let words = words.get(1..).unwrap_or_default();
        let names = |named| in_runtime(async { Ok(complete::ask(named, words).await) }).unwrap_or_default();
        print!("{}", complete::complete(&Cli::command(), words, names));
        return ExitCode::SUCCESS;
    }
    let matches = Cli::command().name(called_as.file()).bin_name(called_as.shown()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let outcome = match cli.command {
        Command::Demo => in_runtime(demo::run()),
        Command::Up(args) => in_runtime(up::run(args)),
        Command::Status(place) => in_runtime(up::status(place)),
        Command::Down(place) => in_runtime(up::down(place)),
        Command::Get(args) => in_runtime(job::get::run(args)),
        Command::Explain(args) => in_runtime(job::explain::run(args)),
        Command::Submit(args) => in_runtime(job::submit::run(args)),
        Command::Wait(args) => in_runtime(job::wait::run(args)),
        Command::Logs(args) => in_runtime(job::logs::run(args)),
        Command::Doctor(args) => in_runtime(doctor::run(args)),
        Command::Dispatcher(args) => in_runtime(dispatcher::run(args)),
        Command::JobController(args) => in_runtime(job_controller::run(args)),
        Command::Install(args) => in_runtime(install::run(args)),
        Command::Worker(command) => in_runtime(worker::run(command)),
        Command::Kinds(command) => kinds::run(command),
        Command::Lint(args) => Ok(lint::run(&args)),
        Command::Conformance(command) => Ok(conformance::run(&command)),
        Command::Version(args) => in_runtime(version::run(args)),
        Command::Crds => crds::run(),
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), called_as.file(), &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {}", trouble::line(&error));
        ExitCode::FAILURE
    })
}

/// `jobferry ... | head` ends when head does. Printing to a closed pipe panics; that is no fault worth a message.
fn leave_quietly_when_nobody_reads() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.payload().downcast_ref::<String>();
        if text.is_some_and(|text| text.contains("Broken pipe")) {
            std::process::exit(0);
        }
        report(info);
    }));
}

fn in_runtime<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(command)
}
