//! What is placed on a worker and has not ended, of every kind that the manager has.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use jobferry_api::WorkloadKind;
use jobferry_core::{
    custom::{self, KindRef},
    kind::{Kind, Table},
    record::Record,
    workload::Workload,
};
use jobferry_kubeio::{self as kubeio, Collection, Event};
use kube::Client;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{dispatcher::wall_clock, install::DEADLINE};

const WORKLOAD_KINDS: &str = "/apis/jobferry.dev/v1alpha1/workloadkinds";

/// A hundred thousand objects, page by page.
const LIST_DEADLINE: Duration = Duration::from_secs(120);

/// How many unfinished workloads are placed on the worker now. The count in its status is for people and some seconds old.
pub(super) async fn unfinished_on(manager: &Client, name: &str) -> anyhow::Result<usize> {
    let is_there = |workload: &Workload| {
        // A Job may be another dispatcher's, and stays whose it is; an object of another kind may have been taken back.
        let is_dispatched = workload.custom.is_none() || workload.is_ours();
        let is_placed = matches!(&workload.record, Record::Placed(at) if at.worker == name);
        is_dispatched && is_placed && !workload.is_finished()
    };
    let jobs = list(manager, &KindRef::Job, |job: &Workload| &job.resource_version).await?;
    let mut unfinished = jobs.into_iter().filter(is_there).count();
    for kind in other_kinds(manager).await? {
        let kind_ref = KindRef::Custom(Arc::clone(&kind));
        let objects = list(manager, &kind_ref, version_of).await?;
        // Of what cannot be read nobody knows whether it is placed: the dispatcher does not count it either.
        let read = objects.iter().filter_map(|object| custom::read_workload(&kind, object, wall_clock()).ok());
        unfinished += read.filter(is_there).count();
    }
    Ok(unfinished)
}

fn version_of(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

/// The kinds beside Job that are known and that the manager has, whoever brought them in.
async fn other_kinds(manager: &Client) -> anyhow::Result<Vec<Arc<Kind>>> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<WorkloadKind>,
    }
    let mut known = Table::built_in()?;
    let users = match kubeio::get(manager, WORKLOAD_KINDS, DEADLINE).await {
        // A manager that was installed before there were any.
        Err(error) if error.is_not_found() => Vec::new(),
        listed => listed.map(|list: List| list.items).context("cannot list WorkloadKinds")?,
    };
    for kind in &users {
        // Of a kind whose rules make no sense nothing is dispatched.
        let _ = known.add(kind);
    }
    let served = served(manager).await?;
    let others = known.iter().map(|(_, kind)| kind).filter(|kind| kind.group != "batch");
    Ok(others.filter(|kind| served.contains(&kind.api_version())).cloned().map(Arc::new).collect())
}

/// The groups and versions that the manager has.
async fn served(manager: &Client) -> anyhow::Result<BTreeSet<String>> {
    let groups: Value = kubeio::get(manager, "/apis", DEADLINE).await.context("cannot read which kinds there are")?;
    let groups = groups["groups"].as_array().into_iter().flatten();
    let versions = groups.flat_map(|group| group["versions"].as_array().into_iter().flatten());
    Ok(versions.filter_map(|version| version["groupVersion"].as_str()).map(str::to_owned).collect())
}

async fn list<T: DeserializeOwned + Send + 'static>(
    manager: &Client,
    kind: &KindRef,
    version: fn(&T) -> &str,
) -> anyhow::Result<Vec<T>> {
    let (root, plural) = kind.resource();
    let mut watcher = kubeio::Watcher::new(manager.clone(), Collection::new(format!("{root}/{plural}"), version));
    let what = format!("{}s", kind.type_meta().1);
    let listed = tokio::time::timeout(LIST_DEADLINE, watcher.next()).await;
    match listed.with_context(|| format!("the {what} could not be listed"))? {
        Event::Reset(objects) => Ok(objects),
        // Others of its group are there, and this one is not.
        Event::Interrupted(error) if error.is_not_found() && *kind != KindRef::Job => Ok(Vec::new()),
        Event::Interrupted(error) => Err(error).with_context(|| format!("cannot list the {what}")),
        Event::Applied(_) | Event::Deleted(_) | Event::Resumed => bail!("the API server did not list the {what}"),
    }
}
