//! `jobferry install`: what a management cluster needs: CRDs, a namespace, a ServiceAccount with narrow rights, and the
//! dispatcher itself as a Deployment.

use std::{process::ExitCode, time::Duration};

use anyhow::Context as _;
use jobferry_kubeio::{self as kubeio, Patch};
use kube::Client;
use serde_json::{Value, json};

use crate::{
    delegation,
    kinds::{
        guard,
        rights::{self, KindName},
    },
    manifests,
    target::Target,
};

/// Each request must be answered within this time.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Flags of `jobferry install`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Image that holds this program, from where your cluster pulls
    #[arg(long, default_value_t = default_image())]
    image: String,
    /// Kinds to dispatch beside Jobs, for example JobSet,RayJob, in addition to those of an earlier install: the dispatcher
    /// gets rights on them, and admission policies guard what their own admission does not
    #[arg(long = "kind", value_delimiter = ',', value_name = "KIND")]
    kinds: Vec<KindName>,
    /// Only the kinds that are named: the dispatcher loses its rights on others, and sight of what runs of them
    #[arg(long, requires = "kinds")]
    replace_kinds: bool,
    /// No Deployment: the dispatcher runs elsewhere
    #[arg(long)]
    no_deployment: bool,
    /// Print the manifests instead of applying them
    #[arg(long)]
    print: bool,
}

/// No registry is ours to choose.
fn default_image() -> String {
    concat!("jobferry:", env!("CARGO_PKG_VERSION")).to_owned()
}

/// Applies or prints.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.print {
        print!("{}---\n{}", manifests::custom_resource_definitions()?, manifest(&args, &args.kinds, true)?);
        return Ok(ExitCode::SUCCESS);
    }
    let manager = args.target.client().await?;
    delegation::check_version(&manager).await?;
    // An embedded cluster has none: better to know before anything is applied.
    anyhow::ensure!(
        args.no_deployment || serves(&manager, "apps/v1").await,
        "this cluster runs no Deployments; with --no-deployment it gets the rest, and the dispatcher runs elsewhere"
    );
    install(&manager).await?;
    println!("customresourcedefinitions applied");
    let kinds = all_kinds(&manager, &args).await?;
    let guarded = kinds.is_empty() || serves(&manager, "admissionregistration.k8s.io/v1").await;
    let manifest = manifest(&args, &kinds, guarded)?;
    if !guarded {
        eprintln!("this cluster has no admission policies: nothing keeps users from changing managedBy of these kinds");
    }
    apply_all(&manager, &manifest, |name| println!("{name} applied")).await?;
    if args.replace_kinds && guarded {
        for policy in guard::left_over(&kinds)? {
            let name = policy["metadata"]["name"].as_str().unwrap_or_default();
            if delete(&manager, &format!("{}/{name}", manifests::collection(&policy)?), None).await? {
                println!("{} removed", manifests::name(&policy));
            }
        }
    }
    if !kinds.is_empty() {
        eprintln!("dispatched beside Jobs: {}", rights::words(&kinds));
    }
    Ok(ExitCode::SUCCESS)
}

/// The kinds that are named, and those that were before: a later release may want other rights on them.
async fn all_kinds(manager: &Client, args: &Args) -> anyhow::Result<Vec<KindName>> {
    if args.replace_kinds {
        return Ok(args.kinds.clone());
    }
    let allowed = rights::allowed_on_manager(manager).await;
    let allowed = allowed.context("cannot read which kinds are dispatched already (name all, with --replace-kinds)")?;
    Ok(rights::added(allowed, &args.kinds))
}

/// What a dispatcher needs that runs anywhere: the CRDs, and an account with narrow rights for the day it moves in.
pub(crate) async fn install_with_rights(manager: &Client) -> anyhow::Result<()> {
    install(manager).await?;
    tracing::info!("customresourcedefinitions applied");
    apply_all(manager, manifests::MANAGER, |name| tracing::info!("{name} applied")).await
}

async fn apply_all(manager: &Client, manifest: &str, say: impl Fn(&str)) -> anyhow::Result<()> {
    for object in manifests::objects(manifest)? {
        apply(manager, &manifests::collection(&object)?, &object).await?;
        say(&manifests::name(&object));
    }
    Ok(())
}

/// Whether the cluster has this group and version. What it does not answer clearly shows when it is written to.
async fn serves(manager: &Client, group_version: &str) -> bool {
    let answer = kubeio::get::<Value>(manager, &format!("/apis/{group_version}"), DEADLINE).await;
    !answer.is_err_and(|error| error.refusal().is_some_and(|refusal| refusal.code == 404))
}

/// Rights, what guards the kinds, and, unless it is not wanted, the Deployment.
fn manifest(args: &Args, kinds: &[KindName], guarded: bool) -> anyhow::Result<String> {
    let mut for_kinds = rights::on_manager(kinds);
    if guarded {
        for_kinds.extend(guard::policies(kinds));
    }
    let rights = format!("{}{}", manifests::MANAGER, manifests::yaml(&for_kinds)?);
    if args.no_deployment {
        return Ok(rights);
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "./:@_-".contains(c);
    anyhow::ensure!(!args.image.is_empty() && args.image.chars().all(plain), "--image {}: no such image", args.image);
    let deployment = manifests::DEPLOYMENT.replace("image: IMAGE", &format!("image: {}", args.image));
    Ok(format!("{rights}---\n{deployment}"))
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

/// Deletes an object, if it is there: whether it was.
pub(crate) async fn delete(client: &Client, path: &str, uid: Option<&str>) -> anyhow::Result<bool> {
    let preconditions = uid.map(|uid| json!({"uid": uid}));
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
    match kubeio::delete(client, path, options.to_string().into_bytes(), DEADLINE).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot delete {path}")),
    }
}

async fn wait_until_served(manager: &Client) -> anyhow::Result<()> {
    for definition in jobferry_api::custom_resource_definitions() {
        let resource = definition.spec.names.plural;
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
