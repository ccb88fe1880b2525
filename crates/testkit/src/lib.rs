//! Clusters for tests, pods that follow a script, and what Jobferry does as a whole, told as scenarios.
//!
//! ```text
//!   scenarios ──► Fleet ──┬─ EmbeddedFleet   clusters in this process, on a virtual clock
//!                         └─ RealFleet ── RealCluster ──┬─ etcd                      freeze, thaw, stop, kill, restart
//!                               │                       ├─ kube-apiserver            each; wipe them all
//!                               │                       └─ kube-controller-manager   an audit log that can be counted
//!                               └──────── PodRunner        a node that runs no containers: exit code and duration by
//!                                                          annotation
//! ```
//!
//! The binaries are real Kubernetes, found by [`Testbed::from_environment`]. Tests that need them carry
//! `#[ignore = "needs real Kubernetes: cargo xtask test"]` and live in test targets called `real_*`, which
//! `cargo xtask test` runs wherever Go is installed.
//!
//! No process started here outlives the test that started it, not even one that is killed: see [`ProcessGroup`].

mod admission;
mod audit;
mod bare_server;
mod cluster_error;
mod control_plane;
mod controls;
mod credentials;
mod dispatched;
mod embedded;
pub mod fault;
pub mod fleet;
mod gate;
mod mortal;
pub mod operator;
mod pod_runner;
mod ports;
mod process_group;
mod real_cluster;
mod real_fleet;
pub mod scenarios;
mod tcp_road;
mod testbed;

pub use audit::{AuditCounts, AuditLog, AuditMark, AuditRecord};
pub use bare_server::{BareServer, Durability};
pub use cluster_error::ClusterError;
pub use control_plane::Component;
pub use credentials::{CredentialsError, User};
pub use dispatched::DispatchError;
pub use embedded::EmbeddedFleet;
pub use gate::Closed;
pub use mortal::Life;
pub use operator::{Operator, OperatorError};
pub use pod_runner::{EXIT_CODE, FAILING_INDEXES, PodRunner, RUN_SECONDS};
pub use process_group::ProcessGroup;
pub use real_cluster::RealCluster;
pub use real_fleet::{FleetError, RealFleet};
pub use testbed::{TESTBED_VARIABLE, Testbed, TestbedMissing, WORKER_TESTBED_VARIABLE};
