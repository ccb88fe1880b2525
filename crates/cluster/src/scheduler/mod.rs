//! A small scheduler: it binds each pod to the emptiest node that fits by requests, selectors, affinity and taints.

mod fit;
mod quantity;

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt, pin_mut, stream};
use jobferry_kubeio::{self as kubeio, Collection, Event, Patch};
use k8s_openapi::{
    api::core::v1::{Node, Pod},
    jiff::Timestamp,
};
use kube::Client;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::{
    fit::{Obstacle, Offer, Wanted},
    quantity::Amounts,
};
use crate::{Clock, events::seconds};

const DEADLINE: Duration = Duration::from_secs(15);
/// A pod that could not be bound is tried again when something changed, and at the latest after this time.
const RETRY: Duration = Duration::from_secs(5);

/// Bindings that are under way at the same time.
const AT_ONCE: usize = 32;

/// Binds pods to nodes until `shutdown`.
pub async fn run_scheduler(client: Client, clock: Clock, shutdown: CancellationToken) {
    let pods = kubeio::watch(client.clone(), Collection::new("/api/v1/pods", pod_version));
    let nodes = kubeio::watch(client.clone(), Collection::new("/api/v1/nodes", node_version));
    pin_mut!(pods, nodes);
    let mut cluster = Cluster::default();
    let mut retry_at = Instant::now() + RETRY;
    loop {
        let waiting = cluster.waiting.len();
        tokio::select! { biased;
            () = shutdown.cancelled() => return,
            Some(event) = nodes.next() => cluster.on_node(event),
            Some(event) = pods.next() => cluster.on_pod(event),
            () = tokio::time::sleep_until(retry_at), if waiting > 0 => {}
        }
        if !cluster.waiting.is_empty() {
            bind_what_fits(&client, &clock, &mut cluster).await;
            retry_at = Instant::now() + RETRY;
        }
    }
}

/// What the scheduler knows.
#[derive(Debug, Default)]
struct Cluster {
    nodes: BTreeMap<String, Offer>,
    /// Pods that hold a place: the node and what they requested, by UID.
    placed: BTreeMap<String, (String, Amounts)>,
    /// Pods that wait for one, the oldest first.
    waiting: BTreeMap<(Timestamp, String), Waiting>,
}

#[derive(Debug, Clone)]
struct Waiting {
    uid: String,
    namespace: String,
    name: String,
    wanted: Wanted,
    /// What was last said about why it waits.
    told: Option<String>,
}

impl Cluster {
    fn on_node(&mut self, event: Event<Node>) {
        match event {
            Event::Reset(list) => {
                self.nodes.clear();
                list.iter().map(Offer::of).for_each(|offer| self.put_node(offer));
            }
            Event::Applied(node) => self.put_node(Offer::of(&node)),
            Event::Deleted(node) => drop(self.nodes.remove(node.metadata.name.as_deref().unwrap_or_default())),
            Event::Interrupted(error) => tracing::warn!(%error, "nodes cannot be watched"),
            Event::Resumed => {}
        }
    }

    fn put_node(&mut self, mut offer: Offer) {
        for (_, requests) in self.placed.values().filter(|(node, _)| *node == offer.name) {
            quantity::add(&mut offer.used, requests);
        }
        self.nodes.insert(offer.name.clone(), offer);
    }

    fn on_pod(&mut self, event: Event<Pod>) {
        match event {
            Event::Reset(list) => {
                let uids: Vec<String> = self.placed.keys().cloned().collect();
                for uid in uids {
                    self.give_back(&uid);
                }
                self.waiting.clear();
                for pod in &list {
                    self.put_pod(pod);
                }
            }
            Event::Applied(pod) => self.put_pod(&pod),
            Event::Deleted(pod) => self.forget(&pod),
            Event::Interrupted(error) => tracing::warn!(%error, "pods cannot be watched"),
            Event::Resumed => {}
        }
    }

    fn put_pod(&mut self, pod: &Pod) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let spec = pod.spec.as_ref();
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return self.forget(pod);
        }
        if let Some(node) = spec.and_then(|spec| spec.node_name.clone()) {
            self.waiting.remove(&place_in_line(pod));
            return self.take(&uid, &node, Wanted::of(pod).requests());
        }
        let ours = spec.and_then(|spec| spec.scheduler_name.as_deref()).is_none_or(|name| name == "default-scheduler");
        let gated = spec.and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty());
        if !ours || gated || pod.metadata.deletion_timestamp.is_some() {
            self.waiting.remove(&place_in_line(pod));
        } else if !self.placed.contains_key(&uid) {
            let told = self.waiting.get(&place_in_line(pod)).and_then(|known| known.told.clone());
            let waiting = Waiting {
                uid,
                namespace: pod.metadata.namespace.clone().unwrap_or_default(),
                name: pod.metadata.name.clone().unwrap_or_default(),
                wanted: Wanted::of(pod),
                told,
            };
            self.waiting.insert(place_in_line(pod), waiting);
        }
    }

    fn forget(&mut self, pod: &Pod) {
        self.waiting.remove(&place_in_line(pod));
        self.give_back(pod.metadata.uid.as_deref().unwrap_or_default());
    }

    fn take(&mut self, uid: &str, node: &str, requests: &Amounts) {
        self.give_back(uid);
        if let Some(offer) = self.nodes.get_mut(node) {
            quantity::add(&mut offer.used, requests);
        }
        self.placed.insert(uid.to_owned(), (node.to_owned(), requests.clone()));
    }

    fn give_back(&mut self, uid: &str) {
        if let Some((node, requests)) = self.placed.remove(uid)
            && let Some(offer) = self.nodes.get_mut(&node)
        {
            quantity::subtract(&mut offer.used, &requests);
        }
    }
}

/// Older pods first; the UID keeps two of one second apart.
fn place_in_line(pod: &Pod) -> (Timestamp, String) {
    let created = pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    (created, pod.metadata.uid.clone().unwrap_or_default())
}

async fn bind_what_fits(client: &Client, clock: &Clock, cluster: &mut Cluster) {
    let mut bindings = Vec::new();
    let mut refusals = Vec::new();
    for (place, pod) in cluster.waiting.clone() {
        match fit::choose(&pod.wanted, cluster.nodes.values()).map(str::to_owned) {
            Ok(node) => {
                // The place is taken at once; if the binding fails, the next look gives it back.
                cluster.take(&pod.uid, &node, pod.wanted.requests());
                cluster.waiting.remove(&place);
                bindings.push((place, pod, node));
            }
            Err(obstacles) => {
                let why = explain(&obstacles);
                if pod.told.as_deref() != Some(&why) {
                    refusals.push((place, pod, why));
                }
            }
        }
    }
    let bound: Vec<_> = stream::iter(bindings)
        .map(|(place, pod, node)| async move { (bind(client, &pod, &node).await, place, pod) })
        .buffered(AT_ONCE)
        .collect()
        .await;
    for (bound, place, pod) in bound {
        if !bound {
            cluster.give_back(&pod.uid);
            cluster.waiting.insert(place, pod);
        }
    }
    for (place, pod, why) in refusals {
        if tell_why(client, clock, &pod, &why).await
            && let Some(known) = cluster.waiting.get_mut(&place)
        {
            known.told = Some(why);
        }
    }
}

/// Binds a pod; true when there is nothing more to do about it.
async fn bind(client: &Client, pod: &Waiting, node: &str) -> bool {
    let path = format!("/api/v1/namespaces/{}/pods/{}/binding", pod.namespace, pod.name);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.name, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    match kubeio::create(client, &path, binding.to_string().into_bytes(), DEADLINE).await {
        Ok(_) => true,
        // Gone, bound by someone else, or another pod of that name: the watch tells what is true.
        Err(error) if error.is_not_found() || error.is_conflict() => true,
        Err(error) => {
            tracing::warn!(namespace = pod.namespace, pod = pod.name, node, %error, "a pod could not be bound");
            false
        }
    }
}

async fn tell_why(client: &Client, clock: &Clock, pod: &Waiting, why: &str) -> bool {
    let path = format!("/api/v1/namespaces/{}/pods/{}/status", pod.namespace, pod.name);
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why,
        "lastProbeTime": null, "lastTransitionTime": seconds(clock()),
    });
    let body = json!({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}).to_string().into_bytes();
    kubeio::patch(client, &path, Patch::Strategic, body, DEADLINE).await.is_ok()
}

/// One line about all nodes, in the words that users know.
fn explain(obstacles: &[Obstacle]) -> String {
    let mut counts: BTreeMap<&Obstacle, usize> = BTreeMap::new();
    for obstacle in obstacles {
        *counts.entry(obstacle).or_default() += 1;
    }
    let total = obstacles.len();
    let reasons: Vec<String> = counts.iter().map(|(obstacle, count)| format!("{count} {obstacle}")).collect();
    format!("0/{total} nodes are available: {}.", if total == 0 { "no nodes".to_owned() } else { reasons.join(", ") })
}

fn pod_version(pod: &Pod) -> &str {
    pod.metadata.resource_version.as_deref().unwrap_or("")
}

fn node_version(node: &Node) -> &str {
    node.metadata.resource_version.as_deref().unwrap_or("")
}
