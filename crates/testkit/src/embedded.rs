//! Embedded clusters for tests: our API server and controllers, a scripted node, all in this process and on tokio's
//! clock, so that under a paused one an hour takes milliseconds.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobferry_apiserver::ApiServer;
use jobferry_dispatcher::Options;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::fleet::{Direct, Fleet, ScenarioError};
use crate::pod_runner::run_pods;

/// When all embedded clusters believe to have been started.
const BEGINNING: Timestamp = Timestamp::constant(1_800_000_000, 0);

/// A management cluster with a dispatcher and its workers, in this process. Ends when dropped.
pub struct EmbeddedFleet {
    /// The clusters.
    pub fleet: Fleet,
    _stop: DropGuard,
}

impl EmbeddedFleet {
    /// Starts a management cluster and these workers. `seed` decides every name and UID.
    pub async fn start(workers: &[&str], seed: u64) -> Result<Self, ScenarioError> {
        let stop = CancellationToken::new();
        let clock = virtual_clock();
        let manager = cluster(&clock, seed, &stop);
        let mut clients = BTreeMap::new();
        for (number, name) in (1..).zip(workers) {
            clients.insert((*name).to_owned(), cluster(&clock, seed + number, &stop));
        }
        let fleet = Fleet { manager, workers: clients };
        let options = Options::new(Direct::to(&fleet.workers), clock, seed);
        fleet.register_workers().await?;
        let (manager, shutdown) = (fleet.manager.clone(), stop.clone());
        tokio::spawn(async move { jobferry_dispatcher::run(manager, options, shutdown).await });
        Ok(Self { fleet, _stop: stop.drop_guard() })
    }
}

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A wall clock that goes with tokio's.
fn virtual_clock() -> Clock {
    let started = Instant::now();
    Arc::new(move || {
        let passed = SignedDuration::try_from(started.elapsed()).unwrap_or_default();
        BEGINNING.checked_add(passed).unwrap_or(BEGINNING)
    })
}

/// One whole cluster: API server, controllers, a scripted node.
fn cluster(clock: &Clock, seed: u64, stop: &CancellationToken) -> Client {
    let for_server = Arc::clone(clock);
    let server = ApiServer::new(jobferry_apiserver::Options::new(move || for_server(), seed));
    let client = Client::new(server.service(), "default");
    let options = jobferry_cluster::Options::new(Arc::clone(clock), seed);
    let controllers = jobferry_cluster::run(client.clone(), options, stop.clone());
    tokio::spawn(controllers);
    tokio::spawn(stop.clone().run_until_cancelled_owned(run_pods(client.clone())));
    client
}
