//! The `DispatchPolicy` resource: who may use which workers, and how.
#![allow(unreachable_pub, reason = "the schema derive repeats the struct in a private module")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Span;

/// What the policy allows and prefers. Edits never move running work.
#[derive(CustomResource, Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "jobferry.dev",
    version = "v1alpha1",
    kind = "DispatchPolicy",
    plural = "dispatchpolicies",
    shortname = "dpol",
    category = "jobferry",
    doc = "Which workers the workloads of some namespaces may run on, which of them they prefer, and what happens when a \
           worker is lost. A namespace names its policy by the label jobferry.dev/policy; namespaces that name none follow \
           the policy called `default`, and without that one every worker is open to them.",
    derive = "PartialEq",
    validation = kube::core::Rule::new("size(self.metadata.name) <= 63")
        .message("the name of a DispatchPolicy is used as a label value: at most 63 characters"),
    printcolumn(name = "On-Worker-Lost", type_ = "string", json_path = ".spec.onWorkerLost.action"),
    printcolumn(name = "After", type_ = "string", json_path = ".spec.onWorkerLost.after"),
    printcolumn(name = "Keep-Finished", type_ = "string", json_path = ".spec.keepFinished"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct DispatchPolicySpec {
    /// The namespaces of the management cluster that may use this policy, by their labels. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "selector")]
    pub namespaces: Option<LabelSelector>,
    /// The workers that workloads may be placed on, by their labels. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "selector")]
    pub workers: Option<LabelSelector>,
    /// Among the workers that fit, those with the highest sum of weights come first; equal ones are told apart by how
    /// many unfinished workloads they have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub prefer: Vec<Preference>,
    /// What becomes of workloads whose worker does not answer any more. Absent: they wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_worker_lost: Option<OnWorkerLost>,
    /// How long the finished mirror of a workload stays on its worker, for example 1h. Absent: as long as the workload
    /// itself exists. With the mirror go its pods and their logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_finished: Option<Span>,
    /// Whose queues the label `kueue.x-k8s.io/queue-name` means on workloads whose managedBy is Kueue's own value, because
    /// their kind admits no other. Absent: the manager's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kueue_queues: Option<KueueQueues>,
}

/// Whose queues are meant by a workload that could be MultiKueue's as well.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KueueQueues {
    /// The manager's: such a workload may be MultiKueue's there, and is refused.
    #[default]
    Manager,
    /// The workers': no MultiKueue runs on the manager, and the mirror waits in the queue of its worker's Kueue.
    Workers,
}

/// Workers that are better than others.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub struct Preference {
    /// The workers meant, by their labels. An empty selector means all.
    #[schemars(schema_with = "selector")]
    pub workers: LabelSelector,
    /// How much better they are.
    #[schemars(range(min = 1, max = 100))]
    pub weight: i32,
}

/// What becomes of workloads whose worker is lost.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[x_kube(validation = kube::core::Rule::new("(self.action == 'Fail') == has(self.after)")
    .message("action Fail needs `after`, action Wait has none"))]
pub struct OnWorkerLost {
    /// Wait: they wait until the worker is back, for ever if need be; nothing runs twice. Fail: they fail when the worker
    /// has not answered for the time given in `after`.
    #[serde(default)]
    pub action: LostAction,
    /// How long a worker must have been lost before its workloads fail, for example 15m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Span>,
}

/// What to do about a lost worker.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LostAction {
    /// Never start the workload elsewhere while the lost worker may be running it.
    #[default]
    Wait,
    /// Give the workload up.
    Fail,
}

/// Kubernetes' label selector, with the operators that there are: an unknown one is refused when the policy is written,
/// not when it is read.
fn selector(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = LabelSelector::json_schema(generator);
    if let Some(operator) = schema.pointer_mut("/properties/matchExpressions/items/properties/operator") {
        operator["enum"] = json!(["In", "NotIn", "Exists", "DoesNotExist"]);
    }
    schema
}
