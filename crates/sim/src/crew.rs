//! The dispatchers of a run: they crash, and are started again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jobferry_api::SYSTEM_NAMESPACE;
use jobferry_dispatcher::Lease;
use jobferry_testkit::fault::{Passage, Road};
use jobferry_testkit::fleet::Direct;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::cluster::{Clock, Cluster, ahead};
use crate::dice::{Dice, fnv};
use crate::weather::{Life, Link, Weather};

/// The roads, by the names of the dispatcher and of the cluster.
pub(crate) type Roads = BTreeMap<(String, String), Road>;

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
}

/// A dispatcher that cannot start is started again after this.
const START_AGAIN: Duration = Duration::from_secs(5);

impl Crew {
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
    async fn live(&self, name: &str, who: &str, life: Life) {
        let client = |cluster: &Cluster| self.client(cluster, name, who, &life);
        let workers: BTreeMap<String, Client> =
            self.workers.iter().map(|worker| (worker.name.to_string(), client(worker))).collect();
        let manager = client(&self.manager);
        let clock = ahead(&self.clock, self.ahead.get(name).copied().unwrap_or_default());
        while !life.stop.is_cancelled() {
            let seed = self.seed ^ fnv(who.as_bytes());
            let mut options = jobferry_dispatcher::Options::new(Direct::to(&workers), Clock::clone(&clock), seed);
            if self.leased {
                let (namespace, name) = (SYSTEM_NAMESPACE.into(), "jobferry-dispatcher".into());
                options.lease = Some(Lease { namespace, name, identity: who.into() });
            }
            self.manager.hub().disturb(name);
            self.manager.hub().log.say(format_args!("-- {who} starts"));
            tokio::select! { biased;
                () = life.stop.cancelled() => {}
                // The management cluster did not answer: whoever supervises it starts it again.
                _ = jobferry_dispatcher::run(manager.clone(), options, life.stop.clone()) => {
                    tokio::time::sleep(START_AGAIN).await;
                }
            }
        }
    }

    fn client(&self, cluster: &Cluster, name: &str, who: &str, life: &Life) -> Client {
        let key = (name.to_owned(), cluster.name.to_string());
        let road = self.roads.get(&key).cloned().unwrap_or_else(|| Road::new(Passage::OPEN));
        let link = Link::new(who, &cluster.name, self.seed, &self.weather, life, road);
        cluster.client_over(Arc::new(link), who)
    }
}
