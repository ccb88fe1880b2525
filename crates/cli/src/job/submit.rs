//! `jobferry submit`: Jobs from a file to the dispatcher.

use std::{collections::BTreeSet, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, bail, ensure};
use jobferry_api::{Span, managed_by};
use jobferry_kubeio as kubeio;
use k8s_openapi::api::batch::v1::Job;
use serde_json::Value;

use super::{Scope, path_of, wait};
use crate::{install::DEADLINE, lint};

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
    let mut names = BTreeSet::new();
    for job in &jobs {
        let path = format!("{}?fieldValidation=Strict", path_of(&namespace));
        let shown = job["metadata"]["name"].as_str().or(job["metadata"]["generateName"].as_str()).unwrap_or_default();
        let created = kubeio::create(&client, &path, job.to_string().into_bytes(), DEADLINE).await;
        let created = created.with_context(|| format!("cannot create job {shown} in namespace {namespace}"))?;
        let created: Job = serde_json::from_slice(&created)?;
        let name = created.metadata.name.unwrap_or_default();
        println!("job/{name} submitted");
        let kept = created.spec.and_then(|spec| spec.managed_by);
        ensure!(
            kept.as_deref() == Some(managed_by::DISPATCHER),
            "this cluster dropped spec.managedBy of job {name} and runs it itself: Kubernetes 1.32 or newer is needed"
        );
        names.insert(name);
    }
    if args.wait {
        return wait::until_ended(client, &namespace, names, args.timeout.map(|span| span.0)).await;
    }
    Ok(ExitCode::SUCCESS)
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
