//! A Kubernetes API server in this process, for clusters that need no Kubernetes: `jobferry up`, the demo, tests and
//! the simulator. Clients cannot tell it from kube-apiserver 1.35 for what it offers; what it does not offer it refuses
//! with a clear 404, 405, 415 or 501.
//!
//! ```text
//!   kube client in this process ──┐
//!                                 ├─► route ─► one handler set ─► strategy of the kind ─► store ─► watchers
//!   kubectl over loopback TLS ────┘               │                (job-api, schemas)       │
//!                                                 └── registry: built-in kinds and CRDs     └── history, versions
//! ```
//!
//! Handlers are generic: what differs from kind to kind is a registry entry, a shape from the schema table
//! and, for a few kinds, a strategy. The rules of Jobs are those of the `job-api` crate.
//!
//! ```
//! use jobferry_apiserver::{ApiServer, Options};
//! use k8s_openapi::jiff::Timestamp;
//!
//! // Time and randomness come from outside: the same seed and the same requests give the same objects.
//! let server = ApiServer::new(Options::new(|| Timestamp::UNIX_EPOCH, 7));
//! assert_eq!(server.resource_version(), 2, "the namespaces default and kube-system");
//! // `kube::Client::new(server.service(), "default")` is a client without sockets.
//! ```

mod apply;
mod crd;
mod definitions;
mod discovery;
mod error;
mod expiry;
mod freeze;
mod http;
mod identity;
mod logs;
mod metadata;
mod metrics;
mod names;
mod openapi;
mod patch;
mod path;
mod protobuf;
mod registry;
#[cfg(test)]
mod replay;
mod schema;
mod selection;
mod selector;
mod serve;
mod server;
mod store;
mod strategy;
mod table;
mod verbs;

pub use crate::http::ResponseBody;
pub use logs::{LogRequest, LogStream, PodLogs};
pub use serve::{Access, AccessError, Credentials, Serving};
pub use server::{ApiServer, Clock, Options, Snapshot};
pub use store::StoreError;
