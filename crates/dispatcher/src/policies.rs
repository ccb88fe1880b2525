//! Follows the `DispatchPolicy` objects and the labels of namespaces, which choose among them.

use std::sync::Arc;

use futures::StreamExt;
use jobferry_api::DispatchPolicy;
use jobferry_core::policy::Policy;
use jobferry_kubeio::{self as kubeio, Collection, Event};
use serde::Deserialize;

use crate::{Shared, index::Labels, paths};

pub(crate) async fn follow_policies(shared: Arc<Shared>) {
    let name = |policy: &DispatchPolicy| policy.metadata.name.clone().unwrap_or_default();
    let policies = Collection::new(paths::POLICIES, version_of).seed(shared.options.seed);
    let mut events = std::pin::pin!(kubeio::watch(shared.manager.clone(), policies));
    while let Some(event) = events.next().await {
        let touched = match event {
            Event::Reset(all) => {
                let read = all.iter().map(|policy| (name(policy), Policy::read(&policy.spec))).collect();
                shared.index.reset_policies(read)
            }
            Event::Applied(policy) => shared.index.change_policy(&name(&policy), Some(Policy::read(&policy.spec))),
            Event::Deleted(policy) => shared.index.change_policy(&name(&policy), None),
            Event::Interrupted(error) => {
                tracing::warn!(%error, "DispatchPolicies cannot be watched; are the CRDs installed? Trying again");
                Vec::new()
            }
            Event::Resumed => Vec::new(),
        };
        shared.lanes.plan_all(touched);
    }
}

fn version_of(policy: &DispatchPolicy) -> &str {
    policy.metadata.resource_version.as_deref().unwrap_or_default()
}

/// A namespace, as far as policies look at it.
#[derive(Deserialize)]
struct Namespace {
    metadata: NamespaceMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamespaceMeta {
    name: String,
    resource_version: String,
    #[serde(default)]
    labels: Labels,
}

pub(crate) async fn follow_namespaces(shared: Arc<Shared>) {
    let namespaces =
        Collection::new("/api/v1/namespaces", |namespace: &Namespace| &namespace.metadata.resource_version);
    let mut events = std::pin::pin!(kubeio::watch(shared.manager.clone(), namespaces.seed(shared.options.seed)));
    while let Some(event) = events.next().await {
        let touched = match event {
            Event::Reset(all) => {
                let labels = all.into_iter().map(|Namespace { metadata }| (metadata.name, metadata.labels)).collect();
                shared.index.reset_namespaces(labels)
            }
            Event::Applied(Namespace { metadata }) => {
                shared.index.change_namespace(&metadata.name, Some(metadata.labels))
            }
            Event::Deleted(Namespace { metadata }) => shared.index.change_namespace(&metadata.name, None),
            Event::Interrupted(error) => {
                tracing::warn!(%error, "namespaces cannot be watched; trying again");
                Vec::new()
            }
            Event::Resumed => Vec::new(),
        };
        shared.lanes.plan_all(touched);
    }
}
