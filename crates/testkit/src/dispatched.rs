//! A real fleet with a dispatcher: what a user has after `jobferry worker join`.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jobferry_api::{DISPATCHER_LEASE, KUBECONFIG_KEY, SYSTEM_NAMESPACE};
use jobferry_dispatcher::{KubeconfigSecrets, Lease, Options};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::fleet::{Fleet, ScenarioError};
use crate::{ClusterError, RealFleet, User};

/// Why a real fleet has no dispatcher.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// No client for one of its clusters.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// An object could not be created.
    #[error(transparent)]
    Setup(#[from] ScenarioError),
}

impl RealFleet {
    /// Registers the workers and runs a dispatcher on the current runtime, for as long as that lives.
    pub async fn dispatched(&self) -> Result<Fleet, DispatchError> {
        let mut fleet =
            Fleet { manager: self.manager().client(User::Admin).await?, workers: std::collections::BTreeMap::new() };
        for worker in self.workers() {
            fleet.workers.insert(worker.name().to_owned(), worker.client(User::Admin).await?);
        }
        fleet.register_workers().await?;
        for worker in self.workers() {
            let kubeconfig = BASE64_STANDARD.encode(worker.kubeconfig(User::Dispatcher));
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": worker.name(), "namespace": SYSTEM_NAMESPACE},
                "data": {KUBECONFIG_KEY: kubeconfig},
            });
            fleet.create_on_manager(&format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets"), &secret).await?;
        }
        let manager = self.manager().client(User::Dispatcher).await?;
        let secrets = KubeconfigSecrets::new(manager.clone(), SYSTEM_NAMESPACE);
        let options = Options {
            lease: Some(Lease {
                namespace: SYSTEM_NAMESPACE.into(),
                name: DISPATCHER_LEASE.into(),
                identity: "testkit".into(),
            }),
            canary: Some(SYSTEM_NAMESPACE.into()),
            ..Options::new(Arc::new(secrets), Arc::new(wall_clock), 1)
        };
        tokio::spawn(jobferry_dispatcher::run(manager, options, CancellationToken::new()));
        Ok(fleet)
    }
}

#[allow(clippy::disallowed_methods, reason = "real clusters live by the real clock")]
fn wall_clock() -> Timestamp {
    Timestamp::now()
}
