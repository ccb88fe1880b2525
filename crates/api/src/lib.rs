//! Everything about Jobferry that others can see and depend on: custom resources, and the names of labels, annotations,
//! conditions, reasons, Events and metrics. No logic lives here; a name that is written anywhere else is a bug.
//!
//! ```text
//!   manager                                        worker
//!   Job  spec.managedBy: jobferry.dev/dispatcher   Job (mirror)  label      jobferry.dev/origin
//!        label      jobferry.dev/worker                          annotation jobferry.dev/origin-uid
//!        condition  jobferry.dev/Placed                          annotation jobferry.dev/epoch
//!        condition  jobferry.dev/Placement         pods          label      jobferry.dev/origin-uid
//!   Worker, one a worker cluster                 namespace     label      jobferry.dev/policy (on the manager)
//!   DispatchPolicy, who may use which workers
//!   WorkloadKind, a kind that may be dispatched beside the built-in ones
//! ```

pub mod annotations;
pub mod conditions;
mod dispatch_policy;
pub mod events;
pub mod finalizers;
pub mod labels;
pub mod managed_by;
pub mod metrics;
pub mod rights;
mod span;
mod worker;
mod workload_kind;

pub use dispatch_policy::{DispatchPolicy, DispatchPolicySpec, KueueQueues, LostAction, OnWorkerLost, Preference};
pub use span::{Span, SpanError};
pub use worker::{MissingKind, Worker, WorkerSpec, WorkerStatus};
pub use workload_kind::{
    Admits, Child, Ending, Field, Fill, Guard, ManagedBy, OperatorOnManager, Outcome, Refuse, Requirement, Settling,
    StatusRules, Test, TimeToLive, TtlOnManager, WorkloadKind, WorkloadKindSpec, WorkloadKindStatus,
};

/// The API group of our custom resources.
pub const GROUP: &str = "jobferry.dev";

/// The namespace on the management cluster that holds the workers' credentials and the dispatcher's lease.
pub const SYSTEM_NAMESPACE: &str = "jobferry-system";

/// The lease of the dispatcher that works, in [`SYSTEM_NAMESPACE`].
pub const DISPATCHER_LEASE: &str = "jobferry-dispatcher";

/// The key of a worker's Secret that holds its kubeconfig.
pub const KUBECONFIG_KEY: &str = "kubeconfig";

/// The DispatchPolicy of namespaces that name none.
pub const DEFAULT_POLICY: &str = "default";

/// The custom resource definitions that the management cluster needs.
pub fn custom_resource_definitions()
-> Vec<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> {
    use kube::CustomResourceExt;
    vec![Worker::crd(), DispatchPolicy::crd(), WorkloadKind::crd()]
}
