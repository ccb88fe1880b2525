//! A real fleet with a dispatcher: what a user has after `jobferry worker join`.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use jobferry_api::{DISPATCHER_LEASE, SYSTEM_NAMESPACE};
use jobferry_core::kind::Table;
use jobferry_dispatcher::{KubeconfigSecrets, Lease, Options};
use k8s_openapi::jiff::Timestamp;

use crate::controls::{Controls, Dispatchers};
use crate::fault::{Passage, Road};
use crate::fleet::{Fleet, ScenarioError};
use crate::{ClusterError, RealFleet, User, tcp_road};

/// Why a real fleet has no dispatcher.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// No client for one of its clusters.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// An object could not be created.
    #[error(transparent)]
    Setup(#[from] ScenarioError),
    /// No road to a worker.
    #[error("opening a port on the way to a worker: {0}")]
    Road(#[from] io::Error),
}

impl RealFleet {
    /// Registers the workers and runs a dispatcher on the current runtime, for as long as that lives.
    pub async fn dispatched(&self) -> Result<Fleet, DispatchError> {
        let fleet = self.undispatched().await?;
        fleet.start_dispatcher().await;
        Ok(fleet)
    }

    /// Registers the workers; the dispatcher, of other kinds than Job too, is started by the test.
    pub async fn undispatched_with_kinds(&self) -> Result<Fleet, DispatchError> {
        self.registered(Table::built_in().ok()).await
    }

    /// Registers the workers; the dispatcher is started by the test.
    pub async fn undispatched(&self) -> Result<Fleet, DispatchError> {
        self.registered(None).await
    }

    /// Starts a dispatcher of another name beside the fleet's own, see [`Fleet::start_other_dispatcher`]: it is
    /// [`User::OtherDispatcher`] everywhere.
    pub async fn start_other_dispatcher(&self, fleet: &Fleet, managed_by: &str) -> Result<(), DispatchError> {
        let manager = self.manager().client(User::OtherDispatcher).await?;
        let mut workers = BTreeMap::new();
        for worker in self.workers() {
            workers.insert(worker.name().to_owned(), worker.client(User::OtherDispatcher).await?);
        }
        Ok(fleet.start_other_dispatcher(managed_by, manager, workers).await?)
    }

    async fn registered(&self, kinds: Option<Table>) -> Result<Fleet, DispatchError> {
        let (mut workers, mut roads, mut kubeconfigs) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for worker in self.workers() {
            let (name, road) = (worker.name().to_owned(), Road::new(Passage::OPEN));
            let server = worker.server();
            let direct = server.trim_start_matches("https://");
            let detour = tcp_road::lead_to(direct.to_owned(), road.clone()).await?;
            kubeconfigs.insert(name.clone(), worker.kubeconfig(User::Dispatcher).replace(direct, &detour));
            roads.insert(name.clone(), road);
            workers.insert(name, worker.client(User::Admin).await?);
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
            kinds,
            ..Options::new(Arc::new(secrets), Arc::new(wall_clock), 1)
        };
        let dispatchers = Dispatchers::new(manager, options);
        let controls = Controls { roads, gates: None, kubeconfigs, run_cron_jobs: true, dispatchers };
        let manager = self.manager().client(User::Admin).await?;
        let fleet = Fleet { manager, workers, controls: Arc::new(controls) };
        fleet.set_up().await?;
        Ok(fleet)
    }
}

#[allow(clippy::disallowed_methods, reason = "real clusters live by the real clock")]
fn wall_clock() -> Timestamp {
    Timestamp::now()
}
