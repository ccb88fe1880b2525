//! `jobferry submit`: Jobs from a file to the dispatcher.

use std::{collections::BTreeSet, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, bail, ensure};
use jobferry_api::{Span, managed_by};
use jobferry_kubeio as kubeio;
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use serde_json::Value;

use super::{Scope, path_of, wait};
use crate::{delegation, install::DEADLINE, lint, trouble};

/// Flags of `jobferry submit`.
#[derive(clap::Args)]
#[command(after_help = "Exit codes with --wait: 0 all complete, 100 one failed, 101 not finished in time, 1 an error.")]
pub(crate) struct Args {
    #[command(flatten)]
    scope: Scope,
    /// Manifests of Jobs, YAML or JSON; - reads standard input
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,
    /// Follow the Jobs to their end
    #[arg(long)]
    wait: bool,
    /// How long to follow them, for example 90s or 1h30m [default: for ever]
    #[arg(long, value_name = "TIME", requires = "wait")]
    timeout: Option<Span>,
}

/// Submits.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut jobs = lint::jobs(&args.filename)?;
    for job in &mut jobs {
        delegate(job)?;
    }
    let (client, own_namespace) = args.scope.connect().await?;
    let namespaces: BTreeSet<&str> = jobs.iter().filter_map(|job| job["metadata"]["namespace"].as_str()).collect();
    ensure!(namespaces.len() <= 1, "the Jobs are in several namespaces; submit them one namespace at a time");
    let namespace = namespaces.into_iter().next().unwrap_or(&own_namespace).to_owned();
    ensure!(
        args.scope.namespace.as_ref().is_none_or(|named| *named == namespace),
        "{} says namespace {namespace}, but -n says {own_namespace}; leave one of them out",
        args.filename.display()
    );
    // First all of them without consequences: none is submitted if one is refused, or if the cluster would run them itself.
    for job in &jobs {
        let stored = create(&client, &namespace, job, "&dryRun=All").await?;
        ensure!(delegation::is_kept(&stored), "{}; {}", delegation::DROPPED, delegation::MEND);
    }
    check_manager(&client).await?;
    let mut names = BTreeSet::new();
    for job in &jobs {
        let name = create(&client, &namespace, job, "").await?.metadata.name.unwrap_or_default();
        println!("job/{name} submitted");
        names.insert(name);
    }
    if args.wait {
        return wait::until_ended(client, &namespace, names, args.timeout.map(|span| span.0)).await;
    }
    Ok(ExitCode::SUCCESS)
}

async fn create(client: &Client, namespace: &str, job: &Value, options: &str) -> anyhow::Result<Job> {
    let shown = job["metadata"]["name"].as_str().or(job["metadata"]["generateName"].as_str()).unwrap_or_default();
    let path = format!("{}?fieldValidation=Strict{options}", path_of(namespace));
    match kubeio::create(client, &path, job.to_string().into_bytes(), DEADLINE).await {
        Ok(answer) => Ok(serde_json::from_slice(&answer)?),
        Err(error) if error.is_already_exists() => bail!(
            "job {shown} exists already in namespace {namespace}; delete it first, or submit under metadata.generateName"
        ),
        Err(error) => Err(error).with_context(|| format!("job {shown} cannot be created in namespace {namespace}")),
    }
}

/// On a cluster that does not know our resources nobody would take the Job: perhaps it is a worker.
async fn check_manager(client: &Client) -> anyhow::Result<()> {
    match kubeio::get::<Value>(client, "/apis/jobferry.dev/v1alpha1", DEADLINE).await {
        Err(error) if error.refusal().is_some_and(|refusal| refusal.code == 404) => {
            bail!("no dispatcher works for this cluster, so nothing was submitted; {}", trouble::NOT_A_MANAGER)
        }
        _ => Ok(()),
    }
}

/// Gives the Job to the dispatcher, unless it says that somebody else is to run it.
fn delegate(job: &mut Value) -> anyhow::Result<()> {
    let name = job["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    match job["spec"]["managedBy"].as_str() {
        None | Some(managed_by::DISPATCHER) => job["spec"]["managedBy"] = managed_by::DISPATCHER.into(),
        Some(other) => bail!("job {name}: spec.managedBy is {other}; `kubectl create` submits it as it is"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_job_is_given_to_the_dispatcher_unless_it_is_somebody_elses() {
        let mut plain = json!({"spec": {}});
        delegate(&mut plain).unwrap();
        assert_eq!(plain["spec"]["managedBy"], managed_by::DISPATCHER);
        let mut other = json!({"metadata": {"name": "a"}, "spec": {"managedBy": "example.com/other"}});
        assert!(
            delegate(&mut other).unwrap_err().to_string().starts_with("job a: spec.managedBy is example.com/other")
        );
    }
}
