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

use anyhow::ensure;
pub(crate) use connected::wait_until_connected;
pub(crate) use preflight::{Need, missing};
pub(crate) use rights::needed;

use jobferry_api::{Worker, managed_by};

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

/// A Worker's name is the value of a label, and the name of a Secret.
pub(crate) fn check_name(name: &str) -> anyhow::Result<()> {
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let framed = !name.starts_with('-') && !name.ends_with('-') && (1..=63).contains(&name.len());
    ensure!(plain && framed, "`{name}` cannot be the name of a worker: at most 63 of a-z, 0-9 and -, for example eu-1");
    Ok(())
}

/// What join made, and leave takes away, is the first dispatcher's: another one's Worker has an account of its own making.
fn check_ours(worker: &Worker) -> anyhow::Result<()> {
    let (name, dispatcher) = (worker.metadata.name.as_deref().unwrap_or_default(), worker.spec.dispatcher());
    ensure!(
        dispatcher == managed_by::DISPATCHER,
        "worker {name} is used by the dispatcher of {dispatcher}, and was not made by join: change its Secret yourself, or \
         remove it with `kubectl delete worker {name}` while that dispatcher runs"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn a_name_must_do_as_a_label_value_and_as_the_name_of_a_secret() {
        for (name, good) in [("eu-1", true), ("EU", false), ("eu_1", false), ("-eu", false), ("", false)] {
            assert_eq!(check_name(name).is_ok(), good, "{name}");
        }
        assert!(check_name(&"a".repeat(64)).is_err());
    }
}
