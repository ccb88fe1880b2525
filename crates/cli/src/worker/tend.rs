//! `jobferry worker cordon`, `uncordon` and `forget`.

use anyhow::{Context as _, bail};
use jobferry_api::{SYSTEM_NAMESPACE, Worker, finalizers};
use jobferry_kubeio::{self as kubeio, Patch};
use kube::Client;
use serde_json::{Value, json};

use super::{WORKERS, placed::unfinished_on};
use crate::{install::DEADLINE, target::Target};

/// Flags of `jobferry worker cordon` and `uncordon`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Name of the worker
    name: String,
}

/// Flags of `jobferry worker forget`.
#[derive(clap::Args)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    target: Target,
    /// Name of the worker
    name: String,
    /// Also when unfinished workloads are placed on it; they are treated as those of a lost worker
    #[arg(long)]
    abandon: bool,
}

/// Closes a worker for new workloads, or opens it.
pub(super) async fn cordon(args: Args, cordoned: bool) -> anyhow::Result<()> {
    let manager = args.target.client().await?;
    let worker = read(&manager, &args.name).await?;
    let word = if cordoned { "cordoned" } else { "uncordoned" };
    if worker.spec.cordoned == cordoned {
        println!("worker/{} already {word}", args.name);
        return Ok(());
    }
    patch(&manager, &args.name, &json!({"spec": {"cordoned": cordoned}})).await?;
    println!("worker/{} {word}", args.name);
    Ok(())
}

/// Removes a worker. Its finalizer, which would wait for its workloads, is taken off.
pub(super) async fn forget(args: ForgetArgs) -> anyhow::Result<()> {
    let (name, manager) = (&args.name, args.target.client().await?);
    let worker = read(&manager, name).await?;
    let unfinished = unfinished_on(&manager, name).await?;
    if unfinished > 0 && !args.abandon {
        bail!(
            "{unfinished} unfinished workloads are placed on worker {name}; cordon it and wait, or give them up with \
             --abandon: whatever runs there goes on unseen"
        );
    }
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": worker.metadata.uid},
    });
    let deleted = kubeio::delete(&manager, &path(name), options.to_string().into_bytes(), DEADLINE).await;
    deleted.with_context(|| format!("cannot delete Worker {name}"))?;
    let held = worker.metadata.finalizers.unwrap_or_default();
    if held.iter().any(|finalizer| finalizer == finalizers::PLACEMENTS) {
        let left: Vec<_> = held.into_iter().filter(|finalizer| finalizer != finalizers::PLACEMENTS).collect();
        let metadata = json!({"metadata": {"uid": worker.metadata.uid, "finalizers": left}});
        match patch(&manager, name, &metadata).await {
            // The dispatcher was faster.
            Err(error) if is_gone(&error) => {}
            outcome => outcome?,
        }
    }
    println!("worker/{name} forgotten");
    let secret = worker.spec.kubeconfig_secret;
    eprintln!("its credentials are left: kubectl delete secret {secret} -n {SYSTEM_NAMESPACE}");
    Ok(())
}

pub(super) fn is_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref::<kubeio::CallError>().is_some_and(kubeio::CallError::is_not_found)
}

pub(super) async fn read(manager: &Client, name: &str) -> anyhow::Result<Worker> {
    match kubeio::get(manager, &path(name), DEADLINE).await {
        Err(error) if error.is_not_found() => Err(error)
            .with_context(|| format!("there is no worker {name} (`jobferry worker list` shows those that there are)")),
        outcome => outcome.with_context(|| format!("cannot read Worker {name}")),
    }
}

pub(super) async fn patch(manager: &Client, name: &str, change: &Value) -> anyhow::Result<()> {
    let body = change.to_string().into_bytes();
    let patched = kubeio::patch(manager, &path(name), Patch::Merge, body, DEADLINE).await;
    patched.with_context(|| format!("cannot change Worker {name}")).map(drop)
}

pub(super) fn path(name: &str) -> String {
    format!("{WORKERS}/{name}")
}
