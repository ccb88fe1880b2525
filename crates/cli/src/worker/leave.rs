//! `jobferry worker leave`: the way back from `join`, once nothing of ours runs there any more.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use jobferry_api::{SYSTEM_NAMESPACE, Span, Worker};
use jobferry_core::ownership::origin;
use jobferry_kubeio as kubeio;
use kube::Client;
use serde_json::{Value, json};

use super::{
    admin::Admin,
    join::workers,
    placed::unfinished_on,
    preflight::{self, Whose},
    rights::Rights,
    tend,
};
use crate::{
    install::{DEADLINE, delete},
    target::Target,
};

/// Between two looks at what is still placed there: each lists all workloads.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The dispatcher takes its finalizer off within seconds, and within a minute if the worker does not answer.
const GONE_WITHIN: Duration = Duration::from_secs(90);
/// What join makes on a worker, bindings before what they bind.
const MADE: [&str; 6] = [
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/api/v1/secrets",
    "/api/v1/serviceaccounts",
];

/// Flags of `jobferry worker leave`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Name of the worker
    name: String,
    #[command(flatten)]
    admin: Admin,
    /// The dispatcher that the worker was joined for, if its Worker is gone already [default: jobferry.dev/dispatcher]
    #[arg(long, value_name = "NAME")]
    managed_by: Option<String>,
    /// How long to wait for the workloads that are placed there, for example 1h [default: not at all]
    #[arg(long, value_name = "TIME")]
    wait: Option<Span>,
}

/// Removes the worker and what join made for it.
pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let (name, manager) = (&args.name, args.target.client().await?);
    let identity = preflight::identity(&manager, Whose::Manager).await?;
    let registered = match tend::read(&manager, name).await {
        Ok(worker) => Some(worker),
        Err(error) if tend::is_gone(&error) && args.admin.is_named() => None,
        Err(error) => return Err(error),
    };
    let dispatcher = super::dispatcher_of(registered.as_ref(), args.managed_by.as_deref())?;
    let origin = origin(&identity, &dispatcher);
    let rights = Rights { origin: &origin, namespaces: &[], kinds: &[] };
    let cluster = match args.admin.target() {
        None => None,
        Some(admin) => {
            let cluster = admin.client().await?;
            let found = preflight::identity(&cluster, Whose::Worker).await?;
            check_same(registered.as_ref(), &found, name)?;
            let others = workers(&manager).await?.unwrap_or_default();
            check_unused(&others, name, &dispatcher, &found)?;
            Some(cluster)
        }
    };
    if let Some(worker) = &registered {
        remove_worker(&manager, worker, args.wait.map(|span| span.0)).await?;
    }
    match cluster {
        Some(cluster) => clear(&cluster, &rights).await?,
        None => eprintln!(
            "on the worker is left what join made; with an administrator's rights there: kubectl delete \
             clusterrolebindings,rolebindings,clusterroles,roles,secrets,serviceaccounts -A -l {}",
            rights.selector()
        ),
    }
    println!("worker/{name} left");
    Ok(())
}

/// The kubeconfig must lead to the cluster that is to be left.
fn check_same(registered: Option<&Worker>, found: &str, name: &str) -> anyhow::Result<()> {
    let known = registered.and_then(|worker| worker.status.as_ref()?.identity.as_deref());
    ensure!(
        known.is_none_or(|known| known == found),
        "--worker-kubeconfig leads to another cluster than worker {name}"
    );
    Ok(())
}

/// What is taken away there is one dispatcher's, whatever its Workers are called: no other one of them may need it.
fn check_unused(workers: &[Worker], name: &str, dispatcher: &str, identity: &str) -> anyhow::Result<()> {
    let is_there = |worker: &&Worker| {
        let known = worker.status.as_ref().and_then(|status| status.identity.as_deref());
        worker.spec.dispatcher() == dispatcher && known == Some(identity)
    };
    let mut others = workers.iter().filter(is_there).filter_map(|worker| worker.metadata.name.as_deref());
    match others.find(|other| *other != name) {
        Some(other) => bail!(
            "the cluster is still joined as worker {other} of the dispatcher of {dispatcher}, and what join made there is that \
             one's; if {name} was joined for another dispatcher, name it with --managed-by"
        ),
        None => Ok(()),
    }
}

/// Cordons, waits for what is placed there, and takes the Worker and its Secret away.
async fn remove_worker(manager: &Client, worker: &Worker, wait: Option<Duration>) -> anyhow::Result<()> {
    let name = worker.metadata.name.as_deref().unwrap_or_default();
    if !worker.spec.cordoned {
        tend::patch(manager, name, &json!({"spec": {"cordoned": true}})).await?;
        eprintln!("worker/{name} cordoned");
    }
    let settled = tokio::time::timeout(wait.unwrap_or_default(), until_settled(manager, name)).await;
    let unfinished = match settled {
        Ok(settled) => settled.map(|()| 0)?,
        Err(_) => unfinished_on(manager, name).await?,
    };
    if unfinished > 0 {
        bail!(
            "{unfinished} unfinished workloads are placed on worker {name}; it is cordoned, so none is added. Run this again \
             with --wait 1h, or give them up with `jobferry worker forget {name} --abandon`"
        );
    }
    delete(manager, &tend::path(name), worker.metadata.uid.as_deref()).await?;
    until_gone(manager, name).await?;
    eprintln!("on the manager: worker/{name} removed");
    let secret = &worker.spec.kubeconfig_secret;
    delete(manager, &format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets/{secret}"), None).await?;
    eprintln!("on the manager: secret/{secret} in namespace {SYSTEM_NAMESPACE} removed");
    Ok(())
}

async fn until_settled(manager: &Client, name: &str) -> anyhow::Result<()> {
    loop {
        let unfinished = unfinished_on(manager, name).await?;
        if unfinished == 0 {
            return Ok(());
        }
        eprintln!("{unfinished} unfinished workloads are placed there; waiting");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn until_gone(manager: &Client, name: &str) -> anyhow::Result<()> {
    let gone = async {
        while tend::read(manager, name).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let waited = tokio::time::timeout(GONE_WITHIN, gone).await;
    waited.ok().with_context(|| {
        format!(
            "no dispatcher lets go of worker {name}: none is running, or mirrors there are still being removed; if neither will \
             change, `jobferry worker forget {name}`"
        )
    })
}

/// Removes what join made on the worker, and nothing else. The namespace stays: others may be in it.
async fn clear(cluster: &Client, rights: &Rights<'_>) -> anyhow::Result<()> {
    let selector = rights.selector().replace('/', "%2F").replace('=', "%3D");
    for collection in MADE {
        let list: Result<Value, _> =
            kubeio::get(cluster, &format!("{collection}?labelSelector={selector}"), DEADLINE).await;
        let list = list.with_context(|| format!("cannot list {collection} of the worker"))?;
        for object in list["items"].as_array().into_iter().flatten() {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let (group, plural) = collection.rsplit_once('/').unwrap_or_default();
            let (path, place) = match text("namespace") {
                "" => (format!("{collection}/{}", text("name")), String::new()),
                namespace => (
                    format!("{group}/namespaces/{namespace}/{plural}/{}", text("name")),
                    format!(" in namespace {namespace}"),
                ),
            };
            delete(cluster, &path, Some(text("uid"))).await?;
            eprintln!("on the worker: {}/{}{place} removed", plural.trim_end_matches('s'), text("name"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_worker_of_the_same_dispatcher_needs_is_not_taken_away() {
        let worker = |name: &str, managed_by: Option<&str>| -> Worker {
            serde_json::from_value(json!({
                "metadata": {"name": name}, "spec": {"kubeconfigSecret": name, "managedBy": managed_by},
                "status": {"identity": "cluster-1"},
            }))
            .unwrap()
        };
        let workers = [worker("eu-1", None), worker("team-eu-1", Some("example.com/team"))];
        for (leaving, dispatcher, cluster, may) in [
            ("team-eu-1", "example.com/team", "cluster-1", true),
            ("eu-1", "jobferry.dev/dispatcher", "cluster-1", true),
            ("gone", "jobferry.dev/dispatcher", "cluster-1", false),
            ("gone", "example.com/team", "cluster-1", false),
            ("gone", "example.com/other", "cluster-1", true),
            ("gone", "jobferry.dev/dispatcher", "cluster-2", true),
        ] {
            assert_eq!(
                check_unused(&workers, leaving, dispatcher, cluster).is_ok(),
                may,
                "{leaving} {dispatcher} {cluster}"
            );
        }
    }
}
