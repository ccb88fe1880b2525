//! The `Worker` resource: one worker cluster.
#![allow(unreachable_pub, reason = "the schema derive repeats the struct in a private module")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::managed_by;

/// What the API server takes as `spec.managedBy` of a Job: no dispatcher could ever be called by another value.
const DOMAIN_PREFIXED_PATH: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9/._~%!$&'()*+,;=:-]+$";

/// How to reach the cluster, and whether it takes new work.
#[derive(CustomResource, Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "jobferry.dev",
    version = "v1alpha1",
    kind = "Worker",
    plural = "workers",
    shortname = "jw",
    category = "jobferry",
    doc = "A cluster that runs mirrors of the workloads submitted to this one. Its labels are what policies and workloads \
           select by.",
    status = "WorkerStatus",
    derive = "PartialEq",
    validation = kube::core::Rule::new("size(self.metadata.name) <= 63")
        .message("the name of a Worker is used as a label value: at most 63 characters"),
    printcolumn(
        name = "Connected",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Connected")].status"#
    ),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Unfinished", type_ = "integer", json_path = ".status.unfinished"),
    printcolumn(name = "Cordoned", type_ = "boolean", json_path = ".spec.cordoned"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = kube::core::Rule::new(
    "!has(self.namespaces) || (has(oldSelf.namespaces) && oldSelf.namespaces.all(n, n in self.namespaces))"
)
.message("namespaces may be added, not taken away: what is placed there would be out of sight"))]
#[x_kube(validation = kube::core::Rule::new(
    "has(self.managedBy) == has(oldSelf.managedBy) && (!has(self.managedBy) || self.managedBy == oldSelf.managedBy)"
)
.message("managedBy cannot change: what is placed there would be out of its dispatcher's sight"))]
pub struct WorkerSpec {
    /// Name of the Secret, in the dispatcher's own namespace, whose key `kubeconfig` says how to reach the cluster.
    pub kubeconfig_secret: String,
    /// True: no new workloads are placed here; running ones stay.
    #[serde(default)]
    pub cordoned: bool,
    /// The namespaces whose workloads are placed here; absent: all. Only these are watched on the worker, so that its
    /// credential needs no rights in others. Each must exist there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")))]
    pub namespaces: Option<Vec<String>>,
    /// The one dispatcher that uses this cluster by this Worker: the value of `spec.managedBy` that it answers to
    /// (`jobferry dispatcher --managed-by`); absent: `jobferry.dev/dispatcher`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = DOMAIN_PREFIXED_PATH))]
    pub managed_by: Option<String>,
}

impl WorkerSpec {
    /// The value of `spec.managedBy` by which the dispatcher goes that uses this Worker.
    pub fn dispatcher(&self) -> &str {
        self.managed_by.as_deref().unwrap_or(managed_by::DISPATCHER)
    }

    /// The same, if it is another than the one that usually is alone.
    pub fn other_dispatcher(&self) -> Option<&str> {
        self.managed_by.as_deref().filter(|name| *name != managed_by::DISPATCHER)
    }
}

/// What the dispatcher knows of a worker.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkerStatus {
    /// The cluster's identity: the UID of its kube-system namespace. Placements hold it, so that another cluster behind
    /// the same address is noticed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The Kubernetes version that it reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Since when the dispatcher has been connected without a break; absent while it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected_since: Option<Time>,
    /// Since when the cluster has not answered; absent while it does. `onWorkerLost` counts from here, also across
    /// restarts of the dispatcher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_since: Option<Time>,
    /// When the credential of its Secret expires, if that can be read from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential_expires: Option<Time>,
    /// How many unfinished workloads of ours are placed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<i32>,
    /// Kinds beside Job that the manager has and this cluster does not, or does not let the dispatcher watch. Written now and
    /// then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_kinds: Vec<MissingKind>,
    /// `Accepted`: its credentials and identity are fit to be used. `Connected`: its mirrors are watched. The messages say
    /// what is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A kind whose workloads cannot go to a worker.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingKind {
    /// The plural and the group of the kind.
    pub name: String,
    /// What is missing.
    pub why: String,
}
