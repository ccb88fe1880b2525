//! `jobferry worker join`: from the kubeconfig of a cluster to a connected Worker.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use jobferry_api::{KUBECONFIG_KEY, SYSTEM_NAMESPACE, Worker};
use jobferry_kubeio as kubeio;
use kube::{Client, config::Kubeconfig};
use serde_json::{Value, json};

use super::WORKERS;
use crate::{
    install::{self, DEADLINE},
    target::Target,
};

/// Flags of `jobferry worker join`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Name of the worker (at most 63 characters: it is used as a label value)
    name: String,
    /// Kubeconfig of the worker cluster
    #[arg(long, value_name = "FILE")]
    worker_kubeconfig: PathBuf,
    /// Context of that kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    worker_context: Option<String>,
    /// Labels for placement, for example region=eu,gpu=a100
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// How long to wait for the dispatcher to connect; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
}

/// Registers the cluster.
pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let labels = parse_labels(&args.labels)?;
    let manager = args.target.client().await?;
    let worker_target =
        Target { kubeconfig: Some(args.worker_kubeconfig.clone()), context: args.worker_context.clone() };
    let worker = worker_target.client().await?;
    let worker_identity = identity(&worker).await.context("the worker cluster does not answer")?;
    let manager_identity = identity(&manager).await.context("the management cluster does not answer")?;
    if worker_identity == manager_identity {
        bail!("{} is the management cluster itself; it cannot be its own worker", args.worker_kubeconfig.display());
    }
    let kubeconfig = inline_kubeconfig(&args)?;
    install::install(&manager).await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": args.name, "namespace": SYSTEM_NAMESPACE},
        "data": {KUBECONFIG_KEY: BASE64_STANDARD.encode(kubeconfig)},
    });
    install::apply(&manager, &format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets"), &secret).await?;
    eprintln!("secret/{} written in namespace {SYSTEM_NAMESPACE}", args.name);
    let worker = json!({
        "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker", "metadata": {"name": args.name, "labels": labels},
        "spec": {"kubeconfigSecret": args.name},
    });
    install::apply(&manager, WORKERS, &worker).await?;
    println!("worker/{} joined", args.name);
    if args.wait > 0 {
        wait_until_connected(&manager, &args.name, args.wait).await?;
        eprintln!("the dispatcher is connected to {}", args.name);
    }
    Ok(())
}

fn parse_labels(labels: &[String]) -> anyhow::Result<Value> {
    let mut map = serde_json::Map::new();
    for label in labels {
        let (key, value) = label.split_once('=').with_context(|| format!("--labels {label}: write KEY=VALUE"))?;
        map.insert(key.trim().into(), value.trim().into());
    }
    Ok(Value::Object(map))
}

async fn identity(client: &Client) -> anyhow::Result<String> {
    let namespace: Value = kubeio::get(client, "/api/v1/namespaces/kube-system", DEADLINE).await?;
    namespace["metadata"]["uid"].as_str().map(Into::into).context("its kube-system namespace has no UID")
}

/// The chosen context alone, with everything inline: the dispatcher accepts neither files nor programs.
fn inline_kubeconfig(args: &Args) -> anyhow::Result<String> {
    let path = &args.worker_kubeconfig;
    let kubeconfig = Kubeconfig::read_from(path)?;
    let context_name = args.worker_context.clone().or_else(|| kubeconfig.current_context.clone());
    let context_name = context_name.context("the worker's kubeconfig has no current context; name one")?;
    let context = kubeconfig.contexts.iter().find(|entry| entry.name == context_name);
    let context = context.and_then(|entry| entry.context.as_ref());
    let context = context.with_context(|| format!("{} has no context {context_name}", path.display()))?;
    let cluster = kubeconfig.clusters.iter().find(|entry| entry.name == context.cluster);
    let user = kubeconfig.auth_infos.iter().find(|entry| Some(&entry.name) == context.user.as_ref());
    let (Some(cluster), Some(user)) =
        (cluster.and_then(|entry| entry.cluster.as_ref()), user.and_then(|entry| entry.auth_info.as_ref()))
    else {
        bail!("{}: the cluster or user of context {context_name} is missing", path.display());
    };
    let mut cluster = serde_json::to_value(cluster)?;
    inline(&mut cluster, "certificate-authority")?;
    let mut user = serde_json::to_value(user)?;
    inline(&mut user, "client-certificate")?;
    inline(&mut user, "client-key")?;
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "worker",
        "clusters": [{"name": "worker", "cluster": cluster}],
        "users": [{"name": "worker", "user": user}],
        "contexts": [{"name": "worker", "context": {"cluster": "worker", "user": "worker"}}],
    });
    jobferry_core::kubeconfig::read(&document).with_context(|| {
        format!(
            "the dispatcher would refuse {}; give it a kubeconfig with a token or client certificate",
            path.display()
        )
    })?;
    Ok(document.to_string())
}

/// Replaces a file path by the file's content.
fn inline(entry: &mut Value, field: &str) -> anyhow::Result<()> {
    let Some(path) = entry.get(field).and_then(Value::as_str).map(PathBuf::from) else { return Ok(()) };
    let data = std::fs::read(&path).with_context(|| format!("{field}: {}", path.display()))?;
    if let Some(entry) = entry.as_object_mut() {
        entry.remove(field);
        entry.insert(format!("{field}-data"), BASE64_STANDARD.encode(data).into());
    }
    Ok(())
}

/// Waits until the dispatcher is connected to the worker.
pub(crate) async fn wait_until_connected(manager: &Client, name: &str, seconds: u64) -> anyhow::Result<()> {
    let path = format!("{WORKERS}/{name}");
    let mut last = "the dispatcher has not looked at it yet; is it running?".to_owned();
    let connected = async {
        loop {
            if let Ok(worker) = kubeio::get::<Worker>(manager, &path, DEADLINE).await {
                let conditions = worker.status.unwrap_or_default().conditions;
                match conditions.iter().find(|condition| condition.type_ == jobferry_api::conditions::CONNECTED) {
                    Some(condition) if condition.status == "True" => return,
                    Some(condition) => last.clone_from(&condition.message),
                    None => {}
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(seconds), connected).await.is_err() {
        bail!("worker {name} is not connected after {seconds} s: {last}");
    }
    Ok(())
}
