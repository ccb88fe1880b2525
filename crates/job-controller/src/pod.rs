//! A pod as this controller sees it.

use std::collections::BTreeMap;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde::Deserialize;

use crate::names;

/// A pod, decoded from the API server's JSON.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "wire::Pod")]
pub struct PodView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
    /// The version that was seen.
    pub resource_version: String,
    /// The Job that controls it.
    pub owner: Option<Owner>,
    /// Something else than a Job controls it.
    pub controlled_by_other: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What holds the object until someone has done their part.
    pub finalizers: Vec<String>,
    /// Where it stands.
    pub phase: Phase,
    /// Someone asked for its deletion.
    pub deleting: bool,
    /// It is bound to a node.
    pub scheduled: bool,
    /// Since when it is ready; absent when it is not.
    pub ready_since: Option<Timestamp>,
    /// The index it works on.
    pub index: Option<u32>,
    /// Counted failures of its index before it.
    pub index_failures: u32,
    /// Ignored failures of its index before it.
    pub index_ignored_failures: u32,
    /// Restarts of all its containers, and of the container with the most.
    pub restarts: Restarts,
    /// Containers that have ended, in the order of the status: main containers first, then init containers.
    pub exits: Vec<Exit>,
    /// Pod conditions: type and status.
    pub conditions: Vec<(String, String)>,
    /// When it was created.
    pub created: Timestamp,
    /// When it ended, as well as that can be told.
    pub finished: Timestamp,
}

/// A reference to the Job that controls a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The Job's UID.
    pub uid: String,
    /// The Job's name, in the pod's namespace.
    pub name: String,
}

/// The phase of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Not every container has started.
    Pending,
    /// Its node cannot be asked.
    Unknown,
    /// At least one container runs or restarts.
    Running,
    /// Every container ended well.
    Succeeded,
    /// Every container ended, at least one badly.
    Failed,
}

/// How often containers of a pod were restarted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restarts {
    /// Over all containers.
    pub total: u32,
    /// Of the container with the most.
    pub most: u32,
}

/// A container that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// The container's name.
    pub container: String,
    /// Its exit code.
    pub code: i32,
}

impl PodView {
    /// The phase is final.
    pub fn ended(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// It runs or will run.
    pub fn active(&self) -> bool {
        !self.ended() && !self.deleting
    }

    /// It was told to go and has not ended yet.
    pub fn terminating(&self) -> bool {
        !self.ended() && self.deleting
    }

    /// It serves.
    pub fn ready(&self) -> bool {
        self.ready_since.is_some()
    }

    /// It holds this finalizer.
    pub fn holds(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|f| f == finalizer)
    }
}

/// The shape of the JSON.
mod wire {
    use k8s_openapi::jiff::{SignedDuration, Timestamp};

    use super::{BTreeMap, Deserialize, Exit, Phase, Restarts, Time, names};

    #[derive(Deserialize)]
    pub(super) struct Pod {
        metadata: Meta,
        #[serde(default)]
        spec: Spec,
        #[serde(default)]
        status: Status,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        #[serde(default)]
        namespace: String,
        name: String,
        uid: String,
        #[serde(default)]
        resource_version: String,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
        deletion_grace_period_seconds: Option<i64>,
        #[serde(default)]
        labels: BTreeMap<String, String>,
        #[serde(default)]
        annotations: BTreeMap<String, String>,
        #[serde(default)]
        finalizers: Vec<String>,
        #[serde(default)]
        owner_references: Vec<Owner>,
    }

    #[derive(Deserialize)]
    struct Owner {
        kind: String,
        name: String,
        uid: String,
        #[serde(default)]
        controller: bool,
    }

    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        node_name: String,
        init_containers: Vec<InitContainer>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct InitContainer {
        name: String,
        restart_policy: Option<String>,
    }

    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Status {
        phase: String,
        conditions: Vec<Condition>,
        container_statuses: Vec<Container>,
        init_container_statuses: Vec<Container>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Condition {
        #[serde(rename = "type")]
        kind: String,
        status: String,
        last_transition_time: Option<Time>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Container {
        name: String,
        #[serde(default)]
        restart_count: u32,
        #[serde(default)]
        state: State,
    }

    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct State {
        terminated: Option<Terminated>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Terminated {
        exit_code: i32,
        finished_at: Option<Time>,
    }

    impl From<Pod> for super::PodView {
        fn from(pod: Pod) -> Self {
            let created = pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0);
            let finished = pod.finished().unwrap_or(created);
            let ready = pod.status.conditions.iter().find(|c| c.kind == "Ready" && c.status == "True");
            let ready_since =
                ready.map(|c| c.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0));
            let annotation = |key: &str| pod.metadata.annotations.get(key).and_then(|value| value.parse::<u32>().ok());
            let containers = || pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
            Self {
                owner: (pod.metadata.owner_references.iter())
                    .find(|owner| owner.controller && owner.kind == "Job")
                    .map(|owner| super::Owner { uid: owner.uid.clone(), name: owner.name.clone() }),
                controlled_by_other: (pod.metadata.owner_references.iter())
                    .any(|owner| owner.controller && owner.kind != "Job"),
                phase: match pod.status.phase.as_str() {
                    "Running" => Phase::Running,
                    "Succeeded" => Phase::Succeeded,
                    "Failed" => Phase::Failed,
                    "Unknown" => Phase::Unknown,
                    _ => Phase::Pending,
                },
                deleting: pod.metadata.deletion_timestamp.is_some(),
                scheduled: !pod.spec.node_name.is_empty(),
                ready_since,
                index: annotation(names::COMPLETION_INDEX).filter(|index| i32::try_from(*index).is_ok()),
                index_failures: annotation(names::INDEX_FAILURE_COUNT).unwrap_or(0),
                index_ignored_failures: annotation(names::INDEX_IGNORED_FAILURE_COUNT).unwrap_or(0),
                restarts: Restarts {
                    total: containers().map(|c| c.restart_count).sum(),
                    most: containers().map(|c| c.restart_count).max().unwrap_or(0),
                },
                exits: containers()
                    .filter_map(|c| {
                        c.state.terminated.as_ref().map(|t| Exit { container: c.name.clone(), code: t.exit_code })
                    })
                    .collect(),
                conditions: pod.status.conditions.iter().map(|c| (c.kind.clone(), c.status.clone())).collect(),
                created,
                finished,
                namespace: pod.metadata.namespace,
                name: pod.metadata.name,
                uid: pod.metadata.uid,
                resource_version: pod.metadata.resource_version,
                finalizers: pod.metadata.finalizers,
                labels: pod.metadata.labels,
            }
        }
    }

    impl Pod {
        /// When the last container ended; else when the pod stopped being ready; else when its deletion was asked for.
        fn finished(&self) -> Option<Timestamp> {
            let sidecar = |container: &&Container| {
                (self.spec.init_containers.iter())
                    .any(|init| init.name == container.name && init.restart_policy.as_deref() == Some("Always"))
            };
            let relevant = (self.status.container_statuses.iter())
                .chain(self.status.init_container_statuses.iter().filter(sidecar));
            let ends: Option<Vec<Timestamp>> = relevant
                .map(|c| c.state.terminated.as_ref().and_then(|t| t.finished_at.as_ref()).map(|time| time.0))
                .collect();
            let unready = (self.status.conditions.iter()).find(|c| c.kind == "Ready" && c.status == "False");
            ends.and_then(|ends| ends.into_iter().max())
                .or_else(|| unready.and_then(|c| c.last_transition_time.as_ref()).map(|time| time.0))
                .or_else(|| {
                    let grace = SignedDuration::from_secs(self.metadata.deletion_grace_period_seconds.unwrap_or(0));
                    self.metadata.deletion_timestamp.as_ref().and_then(|time| time.0.checked_sub(grace).ok())
                })
        }
    }
}
