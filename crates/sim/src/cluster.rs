//! One cluster of a run: an API server, its controllers, a scripted node.

use std::sync::{Arc, Mutex, PoisonError};

use jobferry_apiserver::ApiServer;
use jobferry_testkit::fault::{Fates, Faulty};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admission::Rule;
use crate::hub::Hub;
use crate::node;
use crate::sabotage::Sabotage;
use crate::truth::Role;
use crate::wire::Wire;

/// When every run begins.
const BEGINNING: Timestamp = Timestamp::constant(1_800_000_000, 0);

/// The wall clock of a run.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A wall clock that goes with tokio's.
pub(crate) fn virtual_clock() -> Clock {
    let started = Instant::now();
    Arc::new(move || {
        let passed = SignedDuration::try_from(started.elapsed()).unwrap_or_default();
        BEGINNING.checked_add(passed).unwrap_or(BEGINNING)
    })
}

/// The same clock, so many seconds ahead.
pub(crate) fn ahead(clock: &Clock, seconds: i64) -> Clock {
    let clock = Arc::clone(clock);
    Arc::new(move || clock().checked_add(SignedDuration::from_secs(seconds)).unwrap_or(BEGINNING))
}

/// A cluster.
#[derive(Clone)]
pub(crate) struct Cluster {
    /// Its name in logs; for workers the name of their `Worker`.
    pub(crate) name: Arc<str>,
    server: ApiServer,
    hub: Arc<Hub>,
    sabotage: Option<Sabotage>,
    rule: Arc<Mutex<Option<Rule>>>,
}

impl Cluster {
    /// Starts a cluster whose controllers and node end with `stop`.
    pub(crate) fn start(name: &str, seed: u64, clock: &Clock, hub: &Arc<Hub>, stop: &CancellationToken) -> Self {
        let for_server = Arc::clone(clock);
        let server = ApiServer::new(jobferry_apiserver::Options::new(move || for_server(), seed));
        let cluster = Self { name: name.into(), server, hub: Arc::clone(hub), sabotage: None, rule: Arc::default() };
        let jobs = jobferry_cluster::JobOptions::standard(Arc::clone(clock), seed);
        tokio::spawn(jobferry_cluster::run_jobs(cluster.client("job-controller", Role::Cluster), jobs, stop.clone()));
        let collector = cluster.client("garbage-collector", Role::Cluster);
        tokio::spawn(jobferry_cluster::run_garbage_collector(collector, stop.clone()));
        let ttl = cluster.client("ttl-controller", Role::Cluster);
        tokio::spawn(jobferry_cluster::run_ttl(ttl, Arc::clone(clock), stop.clone()));
        let pods = node::run(cluster.client("node", Role::Cluster), cluster.clone(), seed, Arc::clone(clock));
        tokio::spawn(stop.clone().run_until_cancelled_owned(pods));
        cluster
    }

    /// The same cluster, to which dispatchers talk with a protection taken out.
    pub(crate) fn sabotaged(self, sabotage: Option<Sabotage>) -> Self {
        Self { sabotage, ..self }
    }

    /// Stands still: nobody is answered.
    pub(crate) fn freeze(&self) {
        self.server.freeze();
    }

    /// Goes on.
    pub(crate) fn thaw(&self) {
        self.server.thaw();
    }

    /// What it does to dispatchers' requests from now on.
    pub(crate) fn set_rule(&self, rule: Option<Rule>) {
        *self.rule.lock().unwrap_or_else(PoisonError::into_inner) = rule;
    }

    /// A client whose requests always arrive.
    pub(crate) fn client(&self, who: &str, role: Role) -> Client {
        Client::new(self.wire(who, role), "default")
    }

    /// A dispatcher's client, whose requests have fates.
    pub(crate) fn client_over(&self, fates: Arc<dyn Fates>, who: &str) -> Client {
        Client::new(Faulty::new(self.wire(who, Role::Dispatcher), fates), "default")
    }

    /// Where everything comes together.
    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    fn wire(&self, who: &str, role: Role) -> Wire {
        let (server, cluster, hub) = (self.server.clone(), Arc::clone(&self.name), Arc::clone(&self.hub));
        Wire { server, cluster, who: who.into(), role, hub, sabotage: self.sabotage, rule: Arc::clone(&self.rule) }
    }
}
