//! `jobferry worker`: which clusters run the mirrors.

mod admin;
mod connected;
mod join;
mod leave;
mod placed;
mod preflight;
mod rights;
mod show;
mod tend;
mod way;

use std::process::ExitCode;

use anyhow::{bail, ensure};
pub(crate) use connected::wait_until_connected;
pub(crate) use preflight::{Need, missing};
pub(crate) use rights::needed;

use jobferry_api::{Worker, managed_by};

use crate::{own_name, target::Target};

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

/// The dispatcher that uses a worker, by the value of managedBy that it answers to: the one that a Worker names which is
/// there, or else the one that is named here. What join makes and leave takes away is that dispatcher's only.
fn dispatcher_of(registered: Option<&Worker>, named: Option<&str>) -> anyhow::Result<String> {
    let Some(worker) = registered else {
        let name = named.unwrap_or(managed_by::DISPATCHER);
        own_name::check_dispatcher(name)?;
        return Ok(name.to_owned());
    };
    let dispatcher = worker.spec.dispatcher();
    if let Some(other) = named.filter(|named| *named != dispatcher) {
        bail!(
            "worker {} is used by the dispatcher of {dispatcher} and cannot be given to that of {other}; join the cluster a \
             second time, by another name",
            worker.metadata.name.as_deref().unwrap_or_default()
        );
    }
    Ok(dispatcher.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_name_must_do_as_a_label_value_and_as_the_name_of_a_secret() {
        for (name, good) in [("eu-1", true), ("EU", false), ("eu_1", false), ("-eu", false), ("", false)] {
            assert_eq!(check_name(name).is_ok(), good, "{name}");
        }
        assert!(check_name(&"a".repeat(64)).is_err());
    }

    #[test]
    fn a_worker_stays_with_its_dispatcher() {
        let of = |managed_by: Option<&str>| -> Worker {
            let spec = json!({"kubeconfigSecret": "eu-1", "managedBy": managed_by});
            let worker = json!({"apiVersion": "v1", "kind": "Worker", "metadata": {"name": "eu-1"}, "spec": spec});
            serde_json::from_value(worker).unwrap()
        };
        let (first, other) = (managed_by::DISPATCHER, "example.com/other");
        for (registered, named, expected) in [
            (None, None, Ok(first)),
            (None, Some(other), Ok(other)),
            (None, Some(managed_by::MULTIKUEUE), Err("another controller answers to this name")),
            (Some(of(None)), None, Ok(first)),
            (Some(of(Some(other))), None, Ok(other)),
            (Some(of(Some(other))), Some(other), Ok(other)),
            (Some(of(None)), Some(other), Err("eu-1 is used by the dispatcher of jobferry.dev/dispatcher")),
        ] {
            match (dispatcher_of(registered.as_ref(), named), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(words)) => assert!(found.to_string().contains(words), "{found}"),
                (found, expected) => panic!("{named:?}: {found:?} instead of {expected:?}"),
            }
        }
    }
}
