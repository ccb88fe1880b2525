//! `jobferry worker`: which clusters run the mirrors.

mod admin;
mod connected;
mod join;
mod leave;
mod preflight;
mod rights;
mod show;
mod tend;
mod way;

use std::process::ExitCode;

pub(crate) use connected::wait_until_connected;
pub(crate) use preflight::{Need, missing};
pub(crate) use rights::needed;

use crate::target::Target;

/// Where the API server keeps Workers.
pub(crate) const WORKERS: &str = "/apis/jobferry.dev/v1alpha1/workers";

/// Subcommands of `jobferry worker`.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Make a cluster a worker: an account with narrow rights there, a credential that renews itself here
    Join(join::Args),
    /// List the workers and how they are
    List(show::ListArgs),
    /// Show all that is known of one worker
    Describe(show::DescribeArgs),
    /// Place no new workloads on a worker; running ones stay
    Cordon(tend::Args),
    /// Place workloads on a worker again
    Uncordon(tend::Args),
    /// Remove a worker on which nothing runs any more, and what join made for it
    Leave(leave::Args),
    /// Remove a worker, also one that does not answer any more
    Forget(tend::ForgetArgs),
}

/// Prints all workers of a cluster as a table.
pub(crate) async fn show(target: Target) -> anyhow::Result<()> {
    show::list(show::ListArgs::table(target)).await
}

/// Runs a subcommand.
pub(crate) async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Join(args) => join::run(args).await?,
        Command::List(args) => show::list(args).await?,
        Command::Describe(args) => show::describe(args).await?,
        Command::Cordon(args) => tend::cordon(args, true).await?,
        Command::Uncordon(args) => tend::cordon(args, false).await?,
        Command::Leave(args) => leave::run(args).await?,
        Command::Forget(args) => tend::forget(args).await?,
    }
    Ok(ExitCode::SUCCESS)
}
