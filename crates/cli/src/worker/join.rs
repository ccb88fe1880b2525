//! `jobferry worker join`: from a bare cluster to a connected Worker, by one command.
//!
//! ```text
//!   look      versions, rights, is it joined already, can it be reached          nothing is changed
//!   worker    ServiceAccount, narrow rights, a token that ends with a Secret     by the admin's kubeconfig
//!   manager   Secret with server, CA and that token; the Worker                  nothing of the admin's
//! ```

mod known;
mod make;
mod words;

pub(super) use known::workers;

use anyhow::{Context as _, ensure};
use jobferry_api::{SYSTEM_NAMESPACE, managed_by};
use jobferry_core::ownership::origin;
use jobferry_kubeio as kubeio;
use kube::Client;
use serde_json::{Value, json};

use super::{
    admin::Admin,
    preflight::{self, Whose},
    rights::Rights,
    wait_until_connected,
    way::Way,
};
use crate::{install::DEADLINE, kinds::rights::KindName, label::Label, manifests, target::Target};
use make::Joining;

/// Flags of `jobferry worker join`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Name of the worker (at most 63 characters: it is used as a label value)
    name: String,
    #[command(flatten)]
    admin: Admin,
    /// Address at which the dispatcher reaches the worker [default: that of the kubeconfig]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Labels for placement, for example region=eu,gpu=a100
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE")]
    labels: Vec<Label>,
    /// Namespaces that may take workloads, with rights in these only [default: all]
    #[arg(long = "namespace", value_delimiter = ',', value_name = "NAME")]
    namespaces: Vec<String>,
    /// Make those namespaces that the worker does not have
    #[arg(long, requires = "namespaces")]
    create_namespaces: bool,
    /// Kinds that may be mirrored beside Jobs, for example JobSet,RayJob: the dispatcher gets rights on them, with --renew in
    /// addition to those that it has
    #[arg(long = "kind", value_delimiter = ',', value_name = "KIND")]
    kinds: Vec<KindName>,
    /// With --renew, only the kinds that are named: the dispatcher loses its rights on others, and sight of their mirrors
    #[arg(long, requires_all = ["kinds", "renew"])]
    replace_kinds: bool,
    /// The dispatcher that is to use the worker, by the name of its own --managed-by [default: jobferry.dev/dispatcher, with
    /// --renew that of the worker]
    #[arg(long, value_name = "NAME")]
    managed_by: Option<String>,
    /// Make new credentials for a worker that is joined already, or add namespaces or kinds to it
    #[arg(long)]
    renew: bool,
    /// Print the manifests for one side instead of changing anything there
    #[arg(long, value_enum, value_name = "SIDE")]
    print: Option<Side>,
    /// How long to wait for the dispatcher to connect; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Side {
    /// ServiceAccount and rights; to be applied first
    Worker,
    /// Secret and Worker; asks the worker for a token, so the other side must be there. The Secret is a credential
    Manager,
}

/// Joins, or prints what would be made.
pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    super::check_name(&args.name)?;
    let manager = args.target.client().await?;
    let manager_version = preflight::version(&manager, Whose::Manager).await?;
    let managers_identity = preflight::identity(&manager, Whose::Manager).await?;
    let registered = known::workers(&manager).await?;
    let installed = registered.is_some();
    let registered = registered.unwrap_or_default();
    let known = registered.iter().find(|worker| worker.metadata.name.as_ref() == Some(&args.name));
    let dispatcher = super::dispatcher_of(known, args.managed_by.as_deref())?;
    ensure!(
        args.kinds.is_empty() || dispatcher == managed_by::DISPATCHER,
        "--kind: the dispatcher of {dispatcher} ferries Jobs only"
    );
    let origin = origin(&managers_identity, &dispatcher);
    if args.print == Some(Side::Worker) {
        return print_for_worker(&args, &origin, &known::namespaces(known, &args.namespaces)?);
    }
    let admin = args.admin.target().context("--worker-kubeconfig FILE is needed: an administrator's")?;
    let way = Way::read(&admin, args.server.as_deref())?;
    let worker = admin.client().await?;
    let worker_version = preflight::version(&worker, Whose::Worker).await?;
    let identity = preflight::identity(&worker, Whose::Worker).await?;
    ensure!(identity != managers_identity, "this is the management cluster itself; it cannot be its own worker");
    let known = known::check(&registered, &args.name, &dispatcher, &identity, args.renew)?;
    let namespaces = known::namespaces(known.as_ref(), &args.namespaces)?;
    preflight::reach(&way).await?;
    check_tokens(&worker).await?;
    let kinds =
        known::kinds(&worker, &Rights { origin: &origin, namespaces: &namespaces, kinds: &args.kinds }, &args).await?;
    let joining = Joining { args: &args, way, origin, dispatcher, namespaces, kinds, manager, installed, worker };
    if args.print == Some(Side::Manager) {
        let token = joining.token().await?;
        print!("{}", manifests::yaml(&joining.on_manager(&token))?);
        return Ok(());
    }
    eprintln!("management cluster {manager_version}, worker {worker_version} at {}", joining.way.server);
    joining.make().await?;
    println!("worker/{} {}", args.name, if args.renew { "renewed" } else { "joined" });
    if args.wait > 0 {
        let connected = wait_until_connected(&joining.manager, &args.name, args.wait).await;
        connected.with_context(|| words::not_in_use(&args.name, &joining.way))?;
        eprintln!("the dispatcher is connected to {}", args.name);
    }
    Ok(())
}

/// What the worker's side would get. Which of the namespaces are there already is not known: nobody has asked the worker.
fn print_for_worker(args: &Args, origin: &str, namespaces: &[String]) -> anyhow::Result<()> {
    let made = namespaces.iter().filter(|name| args.create_namespaces && *name != SYSTEM_NAMESPACE);
    let mut objects: Vec<Value> = made.map(|name| namespace(name)).collect();
    if args.renew && !args.kinds.is_empty() && !args.replace_kinds {
        eprintln!(
            "the worker was not asked which kinds it takes already: name all of them, these rights replace others"
        );
    }
    objects.extend(Rights { origin, namespaces, kinds: &args.kinds }.objects());
    print!("{}", manifests::yaml(&objects)?);
    Ok(())
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// An API server without TokenRequest has no credentials to give: better to know before anything is made.
async fn check_tokens(worker: &Client) -> anyhow::Result<()> {
    let resources: Value = kubeio::get(worker, "/api/v1", DEADLINE).await.context("the worker's API is not known")?;
    let names = resources["resources"].as_array().into_iter().flatten().map(|resource| &resource["name"]);
    let issues = names.into_iter().any(|name| name == "serviceaccounts/token");
    ensure!(
        issues,
        "the worker's API server issues no tokens for ServiceAccounts, as the embedded ones of `jobferry up`, which joins its \
         workers itself"
    );
    Ok(())
}
