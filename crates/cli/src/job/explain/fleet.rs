//! What placement looks at, read from the manager.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use jobferry_api::{
    DispatchPolicy, Worker,
    conditions::{ACCEPTED, CONNECTED},
    managed_by,
};
use jobferry_core::{
    placement::{KindLink, Link, WorkerView},
    policy::{Policies, Policy},
};
use jobferry_kubeio as kubeio;
use k8s_openapi::{api::core::v1::Namespace, jiff::Timestamp};
use kube::{Client, Resource};
use serde::{Deserialize, de::DeserializeOwned};

use crate::install::DEADLINE;

/// Workers and who may use them.
pub(super) struct Fleet {
    pub(super) workers: BTreeMap<String, WorkerView>,
    pub(super) policies: Policies,
}

impl Fleet {
    pub(super) async fn read(client: &Client) -> anyhow::Result<Self> {
        let ours = |plural: &str| format!("/apis/jobferry.dev/v1alpha1/{plural}");
        let workers: Vec<Worker> = list(client, "Workers", &ours("workers")).await?;
        let policies: Vec<DispatchPolicy> = list(client, "DispatchPolicies", &ours("dispatchpolicies")).await?;
        let namespaces: Vec<Namespace> = list(client, "namespaces", "/api/v1/namespaces").await?;
        Ok(Self {
            // Those of other dispatchers are no choice of ours.
            workers: (workers.iter().filter(|worker| worker.spec.dispatcher() == managed_by::DISPATCHER))
                .map(|worker| (name_of(worker), view(worker)))
                .collect(),
            policies: Policies {
                policies: policies.iter().map(|policy| (name_of(policy), Policy::read(&policy.spec))).collect(),
                namespaces: namespaces
                    .into_iter()
                    .map(|namespace| (name_of(&namespace), namespace.metadata.labels.unwrap_or_default()))
                    .collect(),
            },
        })
    }
}

async fn list<T: DeserializeOwned>(client: &Client, what: &str, path: &str) -> anyhow::Result<Vec<T>> {
    #[derive(Deserialize)]
    struct List<T> {
        items: Vec<T>,
    }
    let list: List<T> = kubeio::get(client, path, DEADLINE).await.with_context(|| format!("cannot list {what}"))?;
    Ok(list.items)
}

fn name_of(object: &impl Resource) -> String {
    object.meta().name.clone().unwrap_or_default()
}

/// A worker as its object describes it.
pub(super) fn view(worker: &Worker) -> WorkerView {
    let status = worker.status.clone().unwrap_or_default();
    let condition = |type_: &str| status.conditions.iter().find(|condition| condition.type_ == type_);
    let holds = |type_: &str| condition(type_).is_some_and(|condition| condition.status == "True");
    let link = match (status.identity, condition(ACCEPTED)) {
        (_, Some(accepted)) if accepted.status != "True" => Link::Unfit { why: accepted.message.clone() },
        (Some(identity), _) if holds(CONNECTED) => Link::Live { identity },
        (_, None) => Link::Connecting,
        _ => Link::Away { since: Timestamp::UNIX_EPOCH, noticed: Duration::ZERO },
    };
    let minor = status.version.as_deref().and_then(|version| version.split('.').nth(1)?.parse().ok());
    let missing = status.missing_kinds.into_iter().map(|kind| (kind.name, KindLink::Missing { why: kind.why }));
    WorkerView {
        kinds: missing.collect(),
        labels: worker.metadata.labels.clone().unwrap_or_default(),
        cordoned: worker.spec.cordoned,
        leaving: worker.metadata.deletion_timestamp.is_some(),
        namespaces: worker.spec.namespaces.clone().map(|namespaces| namespaces.into_iter().collect()),
        minor,
        link,
        unfinished: status.unfinished.and_then(|count| u32::try_from(count).ok()).unwrap_or_default(),
        // What else placement looks at only the dispatcher knows.
        ..WorkerView::default()
    }
}
