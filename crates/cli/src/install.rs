//! `jobferry install`: what a cluster needs before anything works: CRDs, a namespace, and a ServiceAccount with narrow
//! rights.

use std::{process::ExitCode, time::Duration};

use anyhow::Context as _;
use jobferry_kubeio::{self as kubeio, Patch};
use kube::Client;
use serde_json::{Value, json};

use crate::{manifests, target::Target};

/// Each request must be answered within this time.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Flags of `jobferry install`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// What the cluster is to be
    #[arg(value_enum, default_value_t = Role::Manager)]
    role: Role,
    /// Print the manifests instead of applying them
    #[arg(long)]
    print: bool,
}

/// What a cluster is to us.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Role {
    /// Users submit here; the dispatcher's own rights
    Manager,
    /// Mirrors run here; nothing is installed but a ServiceAccount and its rights
    Worker,
}

/// Applies or prints.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let manifest = match args.role {
        Role::Manager => manifests::MANAGER,
        Role::Worker => manifests::WORKER,
    };
    if args.print {
        if matches!(args.role, Role::Manager) {
            println!("{}---", manifests::custom_resource_definitions()?);
        }
        print!("{manifest}");
        return Ok(ExitCode::SUCCESS);
    }
    let cluster = args.target.client().await?;
    for object in manifests::objects(manifest)? {
        apply(&cluster, &manifests::collection(&object)?, &object).await?;
        let (kind, name) = (object["kind"].as_str(), object["metadata"]["name"].as_str());
        println!("{}/{} applied", kind.unwrap_or_default().to_lowercase(), name.unwrap_or_default());
    }
    if matches!(args.role, Role::Manager) {
        install(&cluster).await?;
        println!("customresourcedefinitions applied");
    }
    Ok(ExitCode::SUCCESS)
}

/// Creates or updates the CRDs and the namespace, and waits until the API server serves the CRDs.
pub(crate) async fn install(manager: &Client) -> anyhow::Result<()> {
    for definition in jobferry_api::custom_resource_definitions() {
        let definition = serde_json::to_value(definition)?;
        apply(manager, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    }
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": jobferry_api::SYSTEM_NAMESPACE},
    });
    apply(manager, "/api/v1/namespaces", &namespace).await?;
    wait_until_served(manager).await
}

/// Creates the object, or merges it into the one of that name.
pub(crate) async fn apply(client: &Client, collection: &str, object: &Value) -> anyhow::Result<()> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let body = object.to_string().into_bytes();
    let created = match kubeio::create(client, collection, body.clone(), DEADLINE).await {
        Err(error) if error.is_already_exists() => {
            kubeio::patch(client, &format!("{collection}/{name}"), Patch::Merge, body, DEADLINE).await
        }
        outcome => outcome,
    };
    created.with_context(|| format!("cannot write {kind} {name}")).map(drop)
}

async fn wait_until_served(manager: &Client) -> anyhow::Result<()> {
    for resource in ["workers", "dispatchpolicies"] {
        let path = format!("/apis/jobferry.dev/v1alpha1/{resource}");
        let mut tries = 0;
        while let Err(error) = kubeio::get::<Value>(manager, &path, DEADLINE).await {
            tries += 1;
            if tries == 50 {
                return Err(error).with_context(|| format!("the API server does not serve {resource}"));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    Ok(())
}
