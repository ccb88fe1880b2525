//! `jobferry worker join`: from a bare cluster to a connected Worker, by one command.
//!
//! ```text
//!   look      versions, rights, is it joined already, can it be reached          nothing is changed
//!   worker    ServiceAccount, narrow rights, a token that ends with a Secret     by the admin's kubeconfig
//!   manager   Secret with server, CA and that token; the Worker                  nothing of the admin's
//! ```

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, bail, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use jobferry_api::{KUBECONFIG_KEY, SYSTEM_NAMESPACE, Worker, labels};
use jobferry_core::token;
use jobferry_kubeio as kubeio;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    WORKERS,
    preflight::{self, Need},
    rights::Rights,
    wait_until_connected,
    way::Way,
};
use crate::{
    install::{self, DEADLINE},
    manifests,
    target::Target,
};

/// Flags of `jobferry worker join`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Name of the worker (at most 63 characters: it is used as a label value)
    name: String,
    /// Kubeconfig of an administrator of the worker cluster; nothing of it is kept but address and CA
    #[arg(long, value_name = "FILE")]
    worker_kubeconfig: Option<PathBuf>,
    /// Context of that kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    worker_context: Option<String>,
    /// Address at which the dispatcher reaches the worker [default: that of the kubeconfig]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Labels for placement, for example region=eu,gpu=a100
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// Namespaces that may take workloads, with rights in these only [default: all]
    #[arg(long = "namespace", value_delimiter = ',', value_name = "NAME")]
    namespaces: Vec<String>,
    /// Make those namespaces that the worker does not have
    #[arg(long, requires = "namespaces")]
    create_namespaces: bool,
    /// Make new credentials for a worker that is joined already, or add namespaces to it
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
    check_name(&args.name)?;
    let labels = parse_labels(&args.labels)?;
    let manager = args.target.client().await?;
    let manager_version = preflight::version(&manager, "management").await?;
    preflight::check_manager_version(&manager_version)?;
    let origin = preflight::identity(&manager, "management").await?;
    if args.print == Some(Side::Worker) {
        let rights = Rights { origin: &origin, namespaces: &args.namespaces };
        print!("{}", manifests::yaml(&rights.objects())?);
        return Ok(());
    }
    let path = args.worker_kubeconfig.clone().context("--worker-kubeconfig FILE is needed: an administrator's")?;
    let way = Way::read(&path, args.worker_context.as_deref(), args.server.as_deref())?;
    let admin = Target { kubeconfig: Some(path), context: args.worker_context.clone() };
    let worker = admin.client().await?;
    let worker_version = preflight::version(&worker, "worker").await?;
    let identity = preflight::identity(&worker, "worker").await?;
    ensure!(identity != origin, "this is the management cluster itself; it cannot be its own worker");
    let registered = joined(&manager).await?;
    let installed = registered.is_some();
    let known = check_joined(&registered.unwrap_or_default(), &args.name, &identity, args.renew)?;
    let namespaces = all_namespaces(known.as_ref(), &args.namespaces)?;
    preflight::reach(&way).await?;
    check_tokens(&worker).await?;
    let joining = Joining { args: &args, way, origin, namespaces, labels, manager, installed, worker };
    if args.print == Some(Side::Manager) {
        let token = joining.token().await?;
        print!("{}", manifests::yaml(&joining.on_manager(&token))?);
        return Ok(());
    }
    eprintln!("management cluster {manager_version}, worker {worker_version} at {}", joining.way.server);
    let to_make = joining.to_make().await?;
    let mut done = Vec::new();
    if let Err(error) = joining.make(to_make, &mut done).await {
        return Err(if done.is_empty() { error } else { half_way(error, &args, &done) });
    }
    println!("worker/{} {}", args.name, if args.renew { "renewed" } else { "joined" });
    if args.wait > 0 {
        let connected = wait_until_connected(&joining.manager, &args.name, args.wait).await;
        connected.with_context(|| not_in_use(&args.name, &joining.way))?;
        eprintln!("the dispatcher is connected to {}", args.name);
    }
    Ok(())
}

/// All that is known before anything is made.
struct Joining<'a> {
    args: &'a Args,
    way: Way,
    origin: String,
    namespaces: Vec<String>,
    labels: Value,
    manager: Client,
    /// The manager has our CRDs.
    installed: bool,
    worker: Client,
}

impl Joining<'_> {
    fn rights(&self) -> Rights<'_> {
        Rights { origin: &self.origin, namespaces: &self.namespaces }
    }

    /// The objects to make on the worker, once it is sure that all can be made, there and on the manager.
    async fn to_make(&self) -> anyhow::Result<Vec<Value>> {
        let mut objects = self.rights().objects();
        let mut missing = Vec::new();
        for namespace in &self.namespaces {
            if namespace != SYSTEM_NAMESPACE && !exists(&self.worker, namespace).await? {
                missing.push(namespace.clone());
            }
        }
        if !missing.is_empty() && !self.args.create_namespaces {
            bail!("the worker has no namespace {}; make it there, or add --create-namespaces", missing.join(", "));
        }
        if exists(&self.worker, SYSTEM_NAMESPACE).await? {
            objects.remove(0);
        }
        let namespace = |name: &String| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        objects.splice(0..0, missing.iter().map(namespace));
        let account = Need::new("create", "", "serviceaccounts/token", SYSTEM_NAMESPACE);
        let needs = [Need::to_write(&objects)?, vec![account]].concat();
        preflight::check_rights(&self.worker, "worker", &needs).await?;
        preflight::check_rights(&self.manager, "manager", &Need::to_write(&self.on_manager(""))?).await?;
        Ok(objects)
    }

    /// Makes everything, and says so line by line.
    async fn make(&self, to_make: Vec<Value>, done: &mut Vec<String>) -> anyhow::Result<()> {
        let mut say = |line: String| {
            eprintln!("{line}");
            done.push(line);
        };
        self.install().await?;
        for object in to_make {
            install::apply(&self.worker, &manifests::collection(&object)?, &object).await?;
            say(format!("on the worker: {} applied", manifests::name(&object)));
        }
        let token = self.token().await?;
        let ends = token::read(&token).map(|claims| format!(" until {}", claims.expires)).unwrap_or_default();
        eprintln!("on the worker: a token issued{ends}; the dispatcher renews it");
        for object in self.on_manager(&token) {
            install::apply(&self.manager, &manifests::collection(&object)?, &object).await?;
            say(format!("on the manager: {} applied", manifests::name(&object)));
        }
        Ok(())
    }

    /// What the manager must have comes first: without it nothing is made on the worker either. Whoever may not change CRDs
    /// may still use those that are there.
    async fn install(&self) -> anyhow::Result<()> {
        let is_forbidden = |error: &anyhow::Error| {
            let refusal = error.downcast_ref::<kubeio::CallError>().and_then(kubeio::CallError::refusal);
            refusal.is_some_and(|refusal| refusal.code == 403)
        };
        match install::install(&self.manager).await {
            Err(error) if self.installed && is_forbidden(&error) => {
                eprintln!("on the manager: the CRDs stay as they are, you may not change them");
                Ok(())
            }
            outcome => outcome,
        }
    }

    async fn token(&self) -> anyhow::Result<String> {
        let account = self.rights().account();
        let issued = jobferry_dispatcher::request_token(&self.worker, &account, token::USUAL_LIFE).await;
        issued.with_context(|| {
            format!("the worker issues no token for serviceaccount/{} in namespace {SYSTEM_NAMESPACE}", account.name)
        })
    }

    fn on_manager(&self, token: &str) -> [Value; 2] {
        let (name, namespaces) = (&self.args.name, &self.namespaces);
        let kubeconfig = BASE64_STANDARD.encode(self.way.kubeconfig(token).to_string());
        let marks = json!({labels::WORKER: name, "app.kubernetes.io/managed-by": "jobferry"});
        let mut spec = json!({"kubeconfigSecret": name});
        if !namespaces.is_empty() {
            spec["namespaces"] = json!(namespaces);
        }
        [
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": marks},
                "data": {KUBECONFIG_KEY: kubeconfig},
            }),
            json!({
                "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker",
                "metadata": {"name": name, "labels": self.labels}, "spec": spec,
            }),
        ]
    }
}

/// A Worker's name is the value of a label, and the name of a Secret.
fn check_name(name: &str) -> anyhow::Result<()> {
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let framed = !name.starts_with('-') && !name.ends_with('-') && (1..=63).contains(&name.len());
    ensure!(plain && framed, "`{name}` cannot be the name of a worker: at most 63 of a-z, 0-9 and -, for example eu-1");
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

/// The Workers that there are; `None` where nothing is installed yet.
async fn joined(manager: &Client) -> anyhow::Result<Option<Vec<Worker>>> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Worker>,
    }
    let mut tries = 0;
    loop {
        let error = match kubeio::get::<List>(manager, WORKERS, DEADLINE).await {
            Ok(list) => return Ok(Some(list.items)),
            Err(error) => error,
        };
        match error.refusal().map(|refusal| refusal.code) {
            Some(404) => return Ok(None),
            // A dispatcher that starts beside us has just installed it.
            Some(429 | 503) if tries < 20 => tries += 1,
            _ => return Err(error).context("cannot list the Workers of the management cluster"),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The Worker of that name, which must be there to be renewed and must not be there to be joined.
fn check_joined(workers: &[Worker], name: &str, identity: &str, renew: bool) -> anyhow::Result<Option<Worker>> {
    let identity_of = |worker: &Worker| worker.status.as_ref().and_then(|status| status.identity.clone());
    let named = |worker: &&Worker| worker.metadata.name.as_deref() == Some(name);
    match (workers.iter().find(named), renew) {
        (Some(known), _) if identity_of(known).is_some_and(|known| known != identity) => bail!(
            "worker {name} is joined already, and is another cluster; choose another name, or remove it with \
             `jobferry worker leave {name}`"
        ),
        (Some(_), false) => {
            bail!("worker {name} is joined already, and is this cluster; --renew makes new credentials for it")
        }
        (None, true) => bail!("there is no worker {name} to renew; leave --renew out to join it"),
        (Some(known), true) => Ok(Some(known.clone())),
        (None, false) => match workers.iter().find(|worker| identity_of(worker).as_deref() == Some(identity)) {
            Some(other) => {
                let other = other.metadata.name.as_deref().unwrap_or_default();
                bail!("this cluster is joined already, as worker {other}")
            }
            None => Ok(None),
        },
    }
}

/// The namespaces that a worker is confined to: those that it has, and those that are added. Empty: all.
fn all_namespaces(known: Option<&Worker>, added: &[String]) -> anyhow::Result<Vec<String>> {
    let Some(known) = known else { return Ok(added.to_vec()) };
    match &known.spec.namespaces {
        // Its rights must not shrink under what is placed there.
        None if !added.is_empty() => bail!(
            "worker {0} takes workloads of all namespaces and cannot be confined while it is joined; remove it with \
             `jobferry worker leave {0}`, then join it with --namespace",
            known.metadata.name.as_deref().unwrap_or_default()
        ),
        None => Ok(Vec::new()),
        Some(held) => Ok(held.iter().chain(added.iter().filter(|name| !held.contains(name))).cloned().collect()),
    }
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

async fn exists(client: &Client, namespace: &str) -> anyhow::Result<bool> {
    match kubeio::get::<Value>(client, &format!("/api/v1/namespaces/{namespace}"), DEADLINE).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot read namespace {namespace} of the worker")),
    }
}

fn not_in_use(name: &str, way: &Way) -> String {
    let hint = if way.is_loopback() {
        format!(
            "; only this machine reaches {}: is the dispatcher elsewhere, join with --renew --server URL",
            way.server
        )
    } else {
        String::new()
    };
    format!(
        "it is joined, but not in use; `jobferry worker describe {name}` says more, `jobferry worker leave {name}` undoes it{hint}"
    )
}

fn half_way(error: anyhow::Error, args: &Args, done: &[String]) -> anyhow::Error {
    let file = args.worker_kubeconfig.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let leave = format!("jobferry worker leave {} --worker-kubeconfig {file}", args.name);
    error.context(format!(
        "stopped half way, after {} steps (the last: {}); the same command goes on from here, `{leave}` undoes them",
        done.len(),
        done.last().map(String::as_str).unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(name: &str, identity: Option<&str>) -> Worker {
        let status = json!({"identity": identity});
        let worker = json!({
            "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker", "metadata": {"name": name},
            "spec": {"kubeconfigSecret": name}, "status": status,
        });
        serde_json::from_value(worker).unwrap()
    }

    #[test]
    fn a_cluster_is_joined_once_and_a_name_given_once() {
        let there = [worker("eu-1", Some("a")), worker("new", None)];
        for (name, identity, renew, expected) in [
            ("eu-2", "b", false, Ok(false)),
            ("eu-1", "a", true, Ok(true)),
            ("new", "c", true, Ok(true)),
            ("eu-1", "a", false, Err("is this cluster; --renew")),
            ("new", "c", false, Err("is joined already")),
            ("eu-1", "b", false, Err("is another cluster")),
            ("eu-1", "b", true, Err("is another cluster")),
            ("eu-2", "a", false, Err("joined already, as worker eu-1")),
            ("eu-2", "b", true, Err("no worker eu-2 to renew")),
        ] {
            let found = check_joined(&there, name, identity, renew).map(|known| known.is_some());
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{name} {identity} {renew}"),
                (Err(found), Err(words)) => assert!(found.to_string().contains(words), "{name} {identity}: {found}"),
                (found, expected) => panic!("{name} {identity} {renew}: {found:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn namespaces_are_added_and_never_taken_away() {
        let joined_with = |namespaces: Option<&[&str]>| {
            let mut worker = worker("eu-1", Some("a"));
            worker.spec.namespaces = namespaces.map(|names| names.iter().map(ToString::to_string).collect());
            worker
        };
        let added = |known: Option<&Worker>, added: &[&str]| {
            all_namespaces(known, &added.iter().map(ToString::to_string).collect::<Vec<_>>()).ok()
        };
        let names = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());
        let (confined, everywhere) = (joined_with(Some(&["ml", "web"])), joined_with(None));
        assert_eq!(added(None, &["ml"]), names(&["ml"]));
        assert_eq!(added(Some(&confined), &["hr", "ml"]), names(&["ml", "web", "hr"]));
        assert_eq!(added(Some(&confined), &[]), names(&["ml", "web"]));
        assert_eq!(added(Some(&everywhere), &[]), names(&[]));
        assert_eq!(added(Some(&everywhere), &["ml"]), None, "what runs elsewhere would be out of reach");
    }

    #[test]
    fn a_name_must_do_as_a_label_value_and_as_the_name_of_a_secret() {
        for (name, good) in [("eu-1", true), ("EU", false), ("eu_1", false), ("-eu", false), ("", false)] {
            assert_eq!(check_name(name).is_ok(), good, "{name}");
        }
        assert!(check_name(&"a".repeat(64)).is_err());
    }
}
