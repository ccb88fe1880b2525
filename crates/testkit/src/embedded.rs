//! Embedded clusters for tests: our API server and controllers, a scripted node, all in this process and on tokio's
//! clock, so that under a paused one an hour takes milliseconds.

mod secrets;

use std::collections::BTreeMap;
use std::sync::Arc;

use jobferry_apiserver::ApiServer;
use jobferry_core::kind::Table;
use jobferry_dispatcher::Options;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::controls::{Controls, Dispatchers};
use crate::fault::{Passage, Road};
use crate::fleet::{Fleet, ScenarioError};
use crate::gate::Gate;
use crate::pod_runner::run_pods;
use secrets::{EmbeddedSecrets, Reachable, kubeconfig};

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
        let manager = client(&cluster(&clock, seed, &stop));
        let (mut clients, mut reachable) = (BTreeMap::new(), BTreeMap::new());
        for (number, name) in (1..).zip(workers) {
            let server = cluster(&clock, seed + number, &stop);
            clients.insert((*name).to_owned(), client(&server));
            let (gate, road) = (Gate::default(), Road::new(Passage::OPEN));
            reachable.insert((*name).to_owned(), Reachable { server, gate, road });
        }
        let controls = Controls {
            roads: reachable.iter().map(|(name, way)| (name.clone(), way.road.clone())).collect(),
            gates: Some(reachable.iter().map(|(name, way)| (name.clone(), way.gate.clone())).collect()),
            kubeconfigs: reachable.keys().map(|name| (name.clone(), kubeconfig(name))).collect(),
            run_cron_jobs: false,
            dispatchers: Dispatchers::new(
                manager.clone(),
                Options {
                    kinds: Table::built_in().ok(),
                    ..Options::new(Arc::new(EmbeddedSecrets::new(manager.clone(), reachable)), clock, seed)
                },
            ),
        };
        let fleet = Fleet { manager, workers: clients, controls: Arc::new(controls) };
        fleet.set_up().await?;
        fleet.start_dispatcher().await;
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
fn cluster(clock: &Clock, seed: u64, stop: &CancellationToken) -> ApiServer {
    let for_server = Arc::clone(clock);
    let server = ApiServer::new(jobferry_apiserver::Options::new(move || for_server(), seed));
    let options = jobferry_cluster::Options::new(Arc::clone(clock), seed);
    tokio::spawn(jobferry_cluster::run(client(&server), options, stop.clone()));
    tokio::spawn(stop.clone().run_until_cancelled_owned(run_pods(client(&server))));
    server
}

fn client(server: &ApiServer) -> Client {
    Client::new(server.service(), "default")
}
