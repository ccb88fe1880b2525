//! Which workers there are already, and what that means for one that joins.

use std::time::Duration;

use anyhow::{Context as _, bail};
use jobferry_api::Worker;
use jobferry_kubeio as kubeio;
use kube::Client;
use serde::Deserialize;

use super::Args;
use crate::{
    install::DEADLINE,
    kinds::rights::{self, KindName},
    trouble::OfWorker,
    worker::{WORKERS, rights::Rights},
};

/// The Workers that there are; `None` where nothing is installed yet.
pub(in crate::worker) async fn workers(manager: &Client) -> anyhow::Result<Option<Vec<Worker>>> {
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
/// Every dispatcher may have the same cluster once.
pub(super) fn check(
    workers: &[Worker],
    name: &str,
    dispatcher: &str,
    identity: &str,
    renew: bool,
) -> anyhow::Result<Option<Worker>> {
    let identity_of = |worker: &Worker| worker.status.as_ref().and_then(|status| status.identity.clone());
    let ours = || workers.iter().filter(|worker| worker.spec.dispatcher() == dispatcher);
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
        (None, false) => match ours().find(|worker| identity_of(worker).as_deref() == Some(identity)) {
            Some(other) => {
                let other = other.metadata.name.as_deref().unwrap_or_default();
                bail!(
                    "this cluster is joined already, as worker {other}; to give it another name, remove it first with \
                     `jobferry worker leave {other}`"
                )
            }
            None => Ok(None),
        },
    }
}

/// The namespaces that a worker is confined to: those that it has, and those that are added. Empty: all.
pub(super) fn namespaces(known: Option<&Worker>, added: &[String]) -> anyhow::Result<Vec<String>> {
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

/// The kinds that a worker takes beside Jobs: those that are named, and those that it takes already in any of its places.
/// If neither kinds nor places are added, what there is stays as it is.
pub(super) async fn kinds(worker: &Client, named: &Rights<'_>, args: &Args) -> anyhow::Result<Vec<KindName>> {
    let mut kinds = Vec::new();
    let adds = !args.kinds.is_empty() || !args.namespaces.is_empty();
    if args.renew && !args.replace_kinds && adds {
        for place in named.places() {
            let allowed = rights::allowed_by(worker, &named.role_for_kinds(), place).await;
            let words = "cannot read which kinds the worker takes already (name all, with --replace-kinds)";
            let allowed = allowed.context(OfWorker(words.into()))?;
            kinds = rights::added(kinds, &allowed);
        }
    }
    Ok(rights::added(kinds, named.kinds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobferry_api::managed_by;
    use serde_json::json;

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
            let found = check(&there, name, managed_by::DISPATCHER, identity, renew).map(|known| known.is_some());
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{name} {identity} {renew}"),
                (Err(found), Err(words)) => assert!(found.to_string().contains(words), "{name} {identity}: {found}"),
                (found, expected) => panic!("{name} {identity} {renew}: {found:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn two_dispatchers_may_have_the_same_cluster() {
        let mut there = [worker("eu-1", Some("a"))];
        assert!(check(&there, "other-eu-1", "example.com/other", "a", false).is_ok());
        there[0].spec.managed_by = Some("example.com/other".into());
        assert!(check(&there, "other-eu-2", "example.com/other", "a", false).is_err());
    }

    #[test]
    fn namespaces_are_added_and_never_taken_away() {
        let joined_with = |names: Option<&[&str]>| {
            let mut worker = worker("eu-1", Some("a"));
            worker.spec.namespaces = names.map(|names| names.iter().map(ToString::to_string).collect());
            worker
        };
        let added = |known: Option<&Worker>, added: &[&str]| {
            namespaces(known, &added.iter().map(ToString::to_string).collect::<Vec<_>>()).ok()
        };
        let names = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());
        let (confined, everywhere) = (joined_with(Some(&["ml", "web"])), joined_with(None));
        assert_eq!(added(None, &["ml"]), names(&["ml"]));
        assert_eq!(added(Some(&confined), &["hr", "ml"]), names(&["ml", "web", "hr"]));
        assert_eq!(added(Some(&confined), &[]), names(&["ml", "web"]));
        assert_eq!(added(Some(&everywhere), &[]), names(&[]));
        assert_eq!(added(Some(&everywhere), &["ml"]), None, "what runs elsewhere would be out of reach");
    }
}
