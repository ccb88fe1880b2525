//! One cluster of a run: an API server, its controllers, a scripted node.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jobferry_apiserver::{ApiServer, Snapshot};
use jobferry_core::time::LOSS_NOTICED;
use jobferry_testkit::fault::Faulty;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admission::Rule;
use crate::ear::Ear;
use crate::etl;
use crate::hub::Hub;
use crate::node::{self, Machines};
use crate::sabotage::Sabotage;
use crate::stale::Stale;
use crate::truth::Role;
use crate::weather::Link;
use crate::wire::Wire;

/// When every run begins.
const BEGINNING: Timestamp = Timestamp::constant(1_800_000_000, 0);

/// More than everything else that is written in a run.
const WRITES_ELSEWHERE: u32 = 5000;

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

/// A cluster. Clones are the same cluster.
#[derive(Clone)]
pub(crate) struct Cluster {
    /// Its name in logs; for workers the name of their `Worker`.
    pub(crate) name: Arc<str>,
    address: Address,
    hub: Arc<Hub>,
    /// Whether there are other kinds than Job.
    pub(crate) mixed: bool,
    sabotage: Option<Sabotage>,
    rules: Arc<Mutex<Vec<Rule>>>,
    works: Arc<Mutex<Works>>,
}

/// What it takes to start a cluster.
pub(crate) struct Site<'a> {
    /// Decides its UIDs and what its controllers and node draw.
    pub(crate) seed: u64,
    /// Its wall clock.
    pub(crate) clock: &'a Clock,
    /// Where everything comes together.
    pub(crate) hub: &'a Arc<Hub>,
    /// Ends its controllers and its node.
    pub(crate) stop: &'a CancellationToken,
    /// Whether there are other kinds than Job.
    pub(crate) mixed: bool,
    /// A protection that is taken out of dispatchers' requests.
    pub(crate) sabotage: Option<Sabotage>,
}

/// Where a cluster is reached. The server behind it is another one after the cluster was built anew.
#[derive(Clone)]
pub(crate) struct Address(Arc<Mutex<(u32, ApiServer)>>);

impl Address {
    fn of(server: ApiServer) -> Self {
        Self(Arc::new(Mutex::new((1, server))))
    }

    /// The server, and the how manieth it is.
    pub(crate) fn resolve(&self) -> (u32, ApiServer) {
        lock(&self.0).clone()
    }

    fn replace(&self, server: ApiServer) -> u32 {
        let mut behind = lock(&self.0);
        *behind = (behind.0 + 1, server);
        behind.0
    }
}

/// What is at work in a cluster besides its API server.
struct Works {
    seed: u64,
    clock: Clock,
    stop: CancellationToken,
    /// Ends the controllers that run now.
    shift: CancellationToken,
    machines: Machines,
}

/// A dispatcher's way to a cluster.
pub(crate) struct Access {
    by_its_name: Client,
    /// For a Worker of another name, whose Secret leads here.
    by_another: Client,
}

impl Access {
    /// The client for a Worker that has the cluster's name, or not.
    pub(crate) fn by(&self, its_name: bool) -> Client {
        if its_name { self.by_its_name.clone() } else { self.by_another.clone() }
    }
}

impl Cluster {
    /// Starts a cluster.
    pub(crate) async fn start(name: &str, site: Site<'_>) -> Self {
        let Site { seed, clock, hub, stop, mixed, sabotage } = site;
        let (clock, stop) = (Arc::clone(clock), stop.clone());
        let address = Address::of(server(&clock, seed));
        let works = Works { seed, clock, shift: stop.child_token(), stop, machines: Machines::default() };
        let (rules, works) = (Arc::default(), Arc::new(Mutex::new(works)));
        let cluster = Self { name: name.into(), address, hub: Arc::clone(hub), mixed, sabotage, rules, works };
        cluster.begin().await;
        cluster.introduce().await;
        cluster
    }

    /// Its controllers and its node start, as after a restart: they know nothing but what the API server tells. What its
    /// machines run goes on.
    fn begin_shift(&self) {
        let mut works = lock(&self.works);
        works.shift.cancel();
        works.shift = works.stop.child_token();
        let Works { seed, clock, shift, machines, .. } = &*works;
        // Of the server that is there now: the controllers of a cluster that is no more reach nobody.
        let home = Self { address: Address::of(self.address.resolve().1), ..self.clone() };
        let client = |who: &str| home.client(who, Role::Cluster);
        let jobs = jobferry_cluster::JobOptions::standard(Arc::clone(clock), *seed);
        tokio::spawn(jobferry_cluster::run_jobs(client("job-controller"), jobs, shift.clone()));
        tokio::spawn(jobferry_cluster::run_garbage_collector(client("garbage-collector"), shift.clone()));
        tokio::spawn(jobferry_cluster::run_ttl(client("ttl-controller"), Arc::clone(clock), shift.clone()));
        if self.mixed {
            tokio::spawn(shift.clone().run_until_cancelled_owned(etl::operate(client("etl-operator"))));
        }
        let pods = node::run(client("node"), home.clone(), machines.clone(), *seed, Arc::clone(clock));
        tokio::spawn(shift.clone().run_until_cancelled_owned(pods));
    }

    /// Stands still: nobody is answered.
    pub(crate) fn freeze(&self) {
        self.address.resolve().1.freeze();
    }

    /// Goes on.
    pub(crate) fn thaw(&self) {
        self.address.resolve().1.thaw();
    }

    /// The API server starts again: all watches end, and none can be resumed from before.
    pub(crate) fn restart(&self) {
        let (_, server) = self.address.resolve();
        server.turn_back(&server.snapshot());
    }

    /// Everything that the API server stores.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.address.resolve().1.snapshot()
    }

    /// Much else is written, as always in a real cluster: versions count the writes of everybody.
    pub(crate) async fn work_elsewhere(&self) {
        let wire = self.wire("others", Role::Cluster, "");
        for number in 0..WRITES_ELSEWHERE {
            wire.write_elsewhere(number).await;
        }
    }

    /// A backup is played back, and everything is started again, as the handbook says. Versions and objects go back; what
    /// the machines run does not.
    pub(crate) async fn restore(&self, backup: &Snapshot) {
        let (_, server) = self.address.resolve();
        server.thaw();
        server.turn_back(backup);
        self.begin_shift();
        self.introduce().await;
    }

    /// The cluster is gone, with all that ran there; another one answers at its address.
    pub(crate) async fn rebuild(&self) {
        {
            let mut works = lock(&self.works);
            works.machines.switch_off();
            works.machines = Machines::default();
            works.seed = works.seed.wrapping_add(1);
            let (_, before) = self.address.resolve();
            self.address.replace(server(&works.clock, works.seed));
            // Nobody is connected to what is no more.
            before.thaw();
            before.turn_back(&before.snapshot());
        }
        self.begin().await;
        self.introduce().await;
    }

    /// A new cluster begins to work.
    async fn begin(&self) {
        if self.mixed {
            etl::install(&self.client("admin", Role::Cluster)).await;
        }
        self.begin_shift();
    }

    /// Tells the hub who this is, and which Jobs it has.
    async fn introduce(&self) {
        let wire = self.wire("truth", Role::Cluster, "");
        let (identity, jobs) = wire.census().await;
        self.hub.turned_back(&self.name, identity, &jobs);
    }

    /// From now on it does this to dispatchers' requests.
    pub(crate) fn impose(&self, rule: Rule) {
        lock(&self.rules).push(rule);
    }

    /// And no more.
    pub(crate) fn lift(&self, rule: Rule) {
        lock(&self.rules).retain(|imposed| *imposed != rule);
    }

    /// A client whose requests always arrive.
    pub(crate) fn client(&self, who: &str, role: Role) -> Client {
        Client::new(self.wire(who, role, ""), "default")
    }

    /// The clients of a dispatcher of this manager, whose requests have fates.
    pub(crate) fn access_over(&self, link: &Arc<Link>, who: &str, home: &str) -> Access {
        let client = |counts: bool| {
            let wire = Stale { wire: self.wire(who, Role::Dispatcher, home), link: Arc::clone(link) };
            let network = Faulty::new(wire, Arc::clone(link) as _);
            Client::new(Ear::new(network, who, &self.name, counts.then_some(&self.hub)), "default")
        };
        Access { by_its_name: client(true), by_another: client(false) }
    }

    /// How long dispatchers must miss a worker to take it for lost.
    pub(crate) fn notices_loss_after(&self) -> Duration {
        self.sabotage.map_or(LOSS_NOTICED, Sabotage::notices_loss_after)
    }

    /// Where everything comes together.
    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    fn wire(&self, who: &str, role: Role, home: &str) -> Wire {
        Wire {
            address: self.address.clone(),
            cluster: Arc::clone(&self.name),
            who: who.into(),
            role,
            home: home.into(),
            hub: Arc::clone(&self.hub),
            mixed: self.mixed,
            sabotage: self.sabotage,
            rules: Arc::clone(&self.rules),
        }
    }
}

fn server(clock: &Clock, seed: u64) -> ApiServer {
    let clock = Arc::clone(clock);
    ApiServer::new(jobferry_apiserver::Options::new(move || clock(), seed))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
