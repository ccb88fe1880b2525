//! The dispatchers of a run: they crash, and are started again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use jobferry_api::{SYSTEM_NAMESPACE, Worker};
use jobferry_core::kind::Table;
use jobferry_dispatcher::{Connect, ConnectError, Lease};
use jobferry_testkit::fault::{Passage, Road};
use kube::Client;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::cluster::{Access, Clock, Cluster, ahead};
use crate::dice::{Dice, fnv};
use crate::faults::Fault;
use crate::weather::{Life, Link, Weather};

/// The roads, by the names of the dispatcher and of the cluster.
pub(crate) type Roads = BTreeMap<(String, String), Road>;

/// The Secrets with the workers' credentials: all dispatchers hear of it when one is changed.
#[derive(Clone)]
pub(crate) struct Secrets(broadcast::Sender<String>, Arc<Mutex<BTreeMap<String, String>>>);

impl Default for Secrets {
    fn default() -> Self {
        Self(broadcast::channel(64).0, Arc::default())
    }
}

impl Secrets {
    /// This Secret has changed.
    pub(crate) fn change(&self, name: &str) {
        // Nobody listens: no dispatcher runs at the moment.
        let _ = self.0.send(name.to_owned());
    }

    /// This Secret leads to that cluster from now on, or to its own.
    pub(crate) fn lead(&self, name: &str, cluster: Option<&str>) {
        let mut misled = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        match cluster {
            Some(cluster) => misled.insert(name.to_owned(), cluster.to_owned()),
            None => misled.remove(name),
        };
        drop(misled);
        self.change(name);
    }

    /// The cluster to which a Secret leads.
    fn target(&self, name: &str) -> String {
        let misled = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        misled.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }
}

/// How a dispatcher reaches the workers: by the name of their Secret.
struct Roster {
    clients: BTreeMap<String, Access>,
    secrets: Secrets,
}

impl Connect for Roster {
    fn connect<'a>(&'a self, worker: &'a Worker) -> BoxFuture<'a, Result<Client, ConnectError>> {
        let secret = &worker.spec.kubeconfig_secret;
        let cluster = self.secrets.target(secret);
        let is_its_name = worker.metadata.name.as_ref() == Some(&cluster);
        let client = self.clients.get(&cluster).map(|access| access.by(is_its_name));
        let client = client.ok_or_else(|| ConnectError::Kubeconfig(format!("there is no cluster {secret}")));
        std::future::ready(client).boxed()
    }

    fn changed_secrets(&self) -> BoxStream<'static, String> {
        let changes = self.secrets.0.subscribe();
        stream::unfold(changes, |mut changes| async move { Some((changes.recv().await.ok()?, changes)) })
            .chain(stream::pending())
            .boxed()
    }
}

/// What it takes to start a dispatcher.
#[derive(Clone)]
pub(crate) struct Crew {
    /// Decides what the dispatchers draw and meet.
    pub(crate) seed: u64,
    /// The management cluster.
    pub(crate) manager: Cluster,
    /// The workers.
    pub(crate) workers: Vec<Cluster>,
    /// The roads to all of them.
    pub(crate) roads: Arc<Roads>,
    /// What befalls requests.
    pub(crate) weather: Arc<Weather>,
    /// The true time.
    pub(crate) clock: Clock,
    /// Whether they lead by lease.
    pub(crate) leased: bool,
    /// By how many seconds the clock of each dispatcher is ahead.
    pub(crate) ahead: BTreeMap<String, i64>,
    /// The credentials of the workers.
    pub(crate) secrets: Secrets,
}

/// A dispatcher that cannot start is started again after this.
const START_AGAIN: Duration = Duration::from_secs(5);

impl Crew {
    /// The names of the dispatchers.
    pub(crate) fn dispatchers(&self) -> Vec<String> {
        let mut names: Vec<String> = self.roads.keys().map(|(name, _)| name.clone()).collect();
        names.dedup();
        names
    }

    /// Keeps one dispatcher running until `stop`: whenever it crashes, the next one takes over after a while.
    pub(crate) async fn keep_running(self, name: String, stop: CancellationToken) {
        let mut dice = Dice::new(self.seed, &name);
        for number in 1.. {
            let life = Life::default();
            let who = format!("{name}.{number}");
            let end = life.clone();
            tokio::select! { biased;
                () = stop.cancelled() => {
                    end.end();
                    return;
                }
                () = self.live(&name, &who, life) => {}
            }
            self.manager.hub().disturb(&name);
            self.manager.hub().log.say(format_args!("-- {who} is dead"));
            tokio::time::sleep(dice.seconds(0, 90)).await;
        }
    }

    /// From the start of a dispatcher to its crash.
    pub(crate) async fn live(&self, name: &str, who: &str, life: Life) {
        let client = |cluster: &Cluster| self.client(cluster, name, who, &life);
        let clusters = self.workers.iter().chain([&self.manager]);
        let clients = clusters.map(|cluster| (cluster.name.to_string(), client(cluster))).collect();
        let roster = Arc::new(Roster { clients, secrets: self.secrets.clone() });
        let manager = client(&self.manager).by(true);
        let streamed_lists = Dice::new(self.seed, &format!("streams of {name}")).per_mille(500);
        let clock = ahead(&self.clock, self.ahead.get(name).copied().unwrap_or_default());
        while !life.stop.is_cancelled() {
            let seed = self.seed ^ fnv(who.as_bytes());
            let connect = Arc::clone(&roster) as Arc<dyn Connect>;
            let mut options = jobferry_dispatcher::Options::new(connect, Clock::clone(&clock), seed);
            options.streamed_lists = streamed_lists;
            options.notice_loss_after = self.manager.notices_loss_after();
            options.kinds = self.manager.mixed.then(Table::default);
            let canary = Dice::new(self.seed, "canary").per_mille(200);
            options.canary = (canary && self.weather.faults().has(Fault::Canary)).then(|| SYSTEM_NAMESPACE.into());
            if options.canary.is_some() {
                self.weather.count(Fault::Canary, format_args!("{who} keeps one"));
            }
            if self.leased {
                let (namespace, name) = (SYSTEM_NAMESPACE.into(), "jobferry-dispatcher".into());
                options.lease = Some(Lease { namespace, name, identity: who.into() });
            }
            self.manager.hub().disturb(name);
            self.manager.hub().begins(who);
            tokio::select! { biased;
                () = life.stop.cancelled() => {}
                // The management cluster did not answer: whoever supervises it starts it again.
                _ = jobferry_dispatcher::run(manager.clone(), options, life.stop.clone()) => {
                    tokio::time::sleep(START_AGAIN).await;
                }
            }
        }
    }

    fn client(&self, cluster: &Cluster, name: &str, who: &str, life: &Life) -> Access {
        let key = (name.to_owned(), cluster.name.to_string());
        let road = self.roads.get(&key).cloned().unwrap_or_else(|| Road::new(Passage::OPEN));
        let link = Link::new(who, &cluster.name, self.seed, &self.weather, life, road);
        cluster.access_over(&Arc::new(link), who, &self.manager.name)
    }
}
