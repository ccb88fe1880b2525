//! A world in which nothing happens but what a test says: the exact sequence of a hazard, on the same clusters, with the
//! same dispatcher and checkers as in the seeded runs.
//!
//! ```
//! use jobferry_sim::stage::{Stage, job};
//!
//! Stage::play(2, async |stage: &Stage| {
//!     stage.start("d1");
//!     stage.submit(&job("train", 60)).await;
//!     stage.until_ended("train", "Complete").await;
//! });
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Method;
use jobferry_api::managed_by;
use jobferry_apiserver::Snapshot;
use jobferry_kubeio as kubeio;
use jobferry_testkit::RUN_SECONDS;
use jobferry_testkit::fault::{Fate, Passage, Road, WatchFate};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::accidents;
use crate::actors::{self, JOBS};
use crate::admission::Rule;
use crate::checkers::{self, Checker, Rest, Seen, Violation};
use crate::cluster::{Cluster, Site, virtual_clock};
use crate::crew::{Crew, Secrets};
use crate::dice::{Dice, fnv};
use crate::facts::JobFacts;
use crate::faults::FaultSet;
use crate::hub::{Exchange, Hub};
use crate::log::Log;
use crate::panics;
use crate::spells::{CLOSED, set_all};
use crate::truth::{MANAGER, Role, Truth};
use crate::weather::{Life, Weather};

/// The dispatchers that may be started.
const DISPATCHERS: [&str; 3] = ["d1", "d2", "d3"];
/// How long a test waits for something to come about.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Shorter than the first pause after a failed write.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Longer than any quarantine and retry.
const REST_LASTS: Duration = Duration::from_secs(100);

/// The stage, and all who are on it.
pub struct Stage {
    crew: Crew,
    hub: Arc<Hub>,
    ledger: Ledger,
    lives: Mutex<BTreeMap<String, (u32, Life)>>,
    stop: CancellationToken,
}

/// A Job that runs for so many seconds and succeeds.
pub fn job(name: &str, seconds: u64) -> Value {
    let script = json!({ RUN_SECONDS: seconds.to_string() });
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]});
    let template = json!({"metadata": {"annotations": script}, "spec": pod});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
           "spec": {"managedBy": managed_by::DISPATCHER, "template": template}})
}

impl Stage {
    /// Sets the stage with a manager and workers `w1`, `w2` ..., and plays the act in virtual time. No dispatcher runs before
    /// one is started.
    ///
    /// # Panics
    ///
    /// If a promise was broken.
    #[allow(clippy::panic, reason = "this is how a test says what went wrong")]
    pub fn play(workers: usize, act: impl AsyncFnOnce(&Self)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let Ok(runtime) = runtime else { panic!("no runtime") };
        panics::note();
        runtime.block_on(async {
            let stage = Self::set(workers).await;
            act(&stage).await;
            stage.check();
            stage.stop.cancel();
        });
    }

    async fn set(number: usize) -> Self {
        let (log, ledger, stop) = (Log::new(100_000), Ledger::default(), CancellationToken::new());
        let mut all = checkers::all();
        all.push(Box::new(ledger.clone()));
        let hub = Arc::new(Hub::new(log, all));
        let clock = virtual_clock();
        let (mut workers, mut names) = (Vec::new(), vec![MANAGER.to_owned()]);
        names.extend((1..=number).map(|number| format!("w{number}")));
        for name in &names {
            let site = Site {
                seed: fnv(name.as_bytes()),
                clock: &clock,
                hub: &hub,
                stop: &stop,
                mixed: false,
                sabotage: None,
            };
            workers.push(Cluster::start(name, site).await);
        }
        let manager = workers.remove(0);
        let set_up = actors::set_up(&manager, &workers).await;
        let ways = DISPATCHERS.into_iter().flat_map(|who| names.iter().map(move |to| (who.to_owned(), to.clone())));
        let crew = Crew {
            seed: 1,
            roads: Arc::new(ways.map(|way| (way, Road::new(Passage::OPEN))).collect()),
            manager,
            workers,
            weather: Arc::new(Weather::new(FaultSet::none(), &mut Dice::new(1, "weather"), Arc::clone(&hub))),
            clock,
            leased: false,
            ahead: BTreeMap::new(),
            secrets: Secrets::default(),
        };
        let stage = Self { crew, hub, ledger, lives: Mutex::default(), stop };
        if let Err(error) = set_up {
            stage.fail(&format!("the stage cannot be set: {error}"));
        }
        stage
    }

    // Dispatchers and the network.

    /// Starts a dispatcher: `d1`, `d2` or `d3`. One that was killed starts anew, and knows nothing.
    pub fn start(&self, name: &str) {
        let mut lives = lock(&self.lives);
        let (number, life) = lives.entry(name.to_owned()).or_default();
        *number += 1;
        *life = Life::default();
        let (crew, who, life, name) = (self.crew.clone(), format!("{name}.{number}"), life.clone(), name.to_owned());
        tokio::spawn(async move { crew.live(&name, &who, life).await });
    }

    /// A dispatcher ends, between two instructions.
    pub fn kill(&self, name: &str) {
        if let Some((_, life)) = lock(&self.lives).get(name) {
            life.end();
        }
        self.hub.disturb(name);
        self.hub.log.say(format_args!("-- {name} is killed"));
    }

    /// The next requests of a dispatcher to a cluster, `what` as in `POST jobs`, have this fate.
    pub fn fate(&self, link: (&str, &str), what: &str, times: u32, fate: Fate) {
        self.crew.weather.script().add(link, what, fate, times);
    }

    /// The next watches of a dispatcher on a cluster, `what` as in `jobs`, have this fate.
    pub fn watch_fate(&self, link: (&str, &str), what: &str, times: u32, fate: WatchFate) {
        self.crew.weather.script().add_watch(link, what, fate, times);
    }

    /// From now on every request has its way.
    pub fn clear_fates(&self) {
        self.crew.weather.script().clear();
    }

    /// Cuts a cluster off from all dispatchers, or connects it again.
    pub fn cut(&self, cluster: &str, cut: bool) {
        self.hub.ill(cluster, "cut", cut);
        let ways = self.crew.roads.iter().filter(|((_, to), _)| to == cluster);
        let roads: Vec<Road> = ways.map(|(_, road)| road.clone()).collect();
        set_all(&roads, if cut { CLOSED } else { Passage::OPEN });
    }

    // Clusters and those who work on them.

    /// What a worker does to dispatchers' requests from now on.
    pub fn impose(&self, worker: &str, rule: Rule) {
        self.hub.ill(worker, "rule", true);
        self.cluster(worker).impose(rule);
    }

    /// And no more.
    pub fn lift(&self, worker: &str, rule: Rule) {
        self.cluster(worker).lift(rule);
        self.hub.ill(worker, "rule", false);
    }

    /// Everything that a cluster stores now.
    pub fn backup(&self, cluster: &str) -> Snapshot {
        self.cluster(cluster).snapshot()
    }

    /// Plays a backup back.
    pub async fn restore(&self, cluster: &str, backup: &Snapshot) {
        self.hub.disturb(cluster);
        self.hub.log.say(format_args!("-- {cluster} is restored"));
        self.cluster(cluster).restore(backup).await;
    }

    /// Another cluster answers at the address from now on.
    pub async fn rebuild(&self, worker: &str) {
        self.hub.disturb(worker);
        self.hub.log.say(format_args!("-- {worker} is built anew"));
        self.cluster(worker).rebuild().await;
    }

    /// The queue of a worker lets everything run.
    pub async fn admit(&self, worker: &str) {
        accidents::admit_all(self.cluster(worker)).await;
    }

    /// An old Job controller runs on the manager for a while.
    pub async fn run_old_controller(&self, seconds: u64) {
        actors::run_old_controller(&self.crew.manager, Duration::from_secs(seconds)).await;
    }

    /// The Secret of a worker has changed.
    pub fn change_secret(&self, name: &str) {
        self.hub.disturb(name);
        self.crew.secrets.change(name);
    }

    // Users and others.

    /// Submits a Job.
    pub async fn submit(&self, job: &Value) {
        self.create(MANAGER, JOBS, job).await;
    }

    /// Creates an object, as whoever owns the place.
    pub async fn create(&self, cluster: &str, path: &str, object: &Value) {
        let created = actors::create(&self.client(cluster), path, object).await;
        if let Err(error) = created {
            self.fail(&format!("{path} on {cluster}: {error}"));
        }
    }

    /// Changes an object by a merge patch.
    pub async fn edit(&self, cluster: &str, path: &str, change: Value) {
        actors::edit(&self.client(cluster), path, change).await;
    }

    /// Changes a Job by a merge patch.
    pub async fn edit_job(&self, cluster: &str, name: &str, change: Value) {
        self.edit(cluster, &format!("{JOBS}/{name}"), change).await;
    }

    /// Deletes a Job, with this propagation.
    pub async fn delete_job(&self, cluster: &str, name: &str, propagation: &str) {
        self.delete(cluster, &format!("{JOBS}/{name}"), propagation).await;
    }

    /// Deletes an object.
    pub async fn delete(&self, cluster: &str, path: &str, propagation: &str) {
        actors::delete(&self.client(cluster), path, propagation).await;
    }

    /// The default policy is this one from now on.
    pub async fn policy(&self, spec: Value) {
        actors::put_policy(self.cluster(MANAGER), &spec).await;
    }

    /// An object as it is stored.
    pub async fn read(&self, cluster: &str, path: &str) -> Option<Value> {
        kubeio::get(&self.client(cluster), path, ANSWER_WITHIN).await.ok()
    }

    /// A Job as it is stored; null if there is none.
    pub async fn job(&self, cluster: &str, name: &str) -> Value {
        self.read(cluster, &format!("{JOBS}/{name}")).await.unwrap_or_default()
    }

    // What came of it.

    /// Time passes.
    pub async fn wait(&self, seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits for something to be true of all clusters; it is looked at more often than anything is tried again.
    pub async fn until(&self, what: &str, is_so: impl Fn(&Truth) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !self.hub.truth(&is_so) {
            if Instant::now() > deadline {
                self.fail(&format!("never came about: {what}"));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits for a workload to end in this way.
    pub async fn until_ended(&self, name: &str, kind: &str) {
        self.until(&format!("{name} is {kind}"), |truth| ended(truth, name).is_some()).await;
        let (found, reason) = self.truth(|truth| ended(truth, name)).unwrap_or_default();
        if found != kind {
            self.fail(&format!("{name} is {found} ({reason}), not {kind}"));
        }
    }

    /// Waits for a worker to have a mirror of this name.
    pub async fn until_mirrored(&self, worker: &str, name: &str) {
        let there = |truth: &Truth| truth.job(worker, name).is_some_and(JobFacts::is_mirror);
        self.until(&format!("{worker} has a mirror of {name}"), there).await;
    }

    /// Waits for everything to come to rest, and looks at the promises that hold then.
    pub async fn settle(&self) {
        self.until("everything is settled", Truth::is_settled).await;
        sleep(REST_LASTS).await;
        self.hub.at_rest(Rest::Settled);
    }

    /// The user deletes all workloads: nothing may be left.
    pub async fn empty(&self) {
        actors::delete_all(&self.crew.manager).await;
        self.until("nothing is left", Truth::is_empty).await;
        sleep(REST_LASTS).await;
        self.hub.at_rest(Rest::Emptied);
    }

    /// Looks at the true state of all clusters.
    pub fn truth<T>(&self, look: impl FnOnce(&Truth) -> T) -> T {
        self.hub.truth(look)
    }

    /// The writes that dispatchers asked a cluster for, `what` as in `POST jobs`, with the codes of their answers.
    pub fn written(&self, cluster: &str, what: &str) -> Vec<Written> {
        let (method, part) = what.split_once(' ').unwrap_or((what, ""));
        let all = lock(&self.ledger.0);
        let wanted = |write: &&Written| write.cluster == cluster && write.method == method && write.path.contains(part);
        all.iter().filter(wanted).cloned().collect()
    }

    fn check(&self) {
        if let Some(panic) = panics::noted().first() {
            self.fail(panic);
        }
        if let Some(found) = self.hub.violations().first() {
            self.fail(&found.to_string());
        }
    }

    /// Ends the test.
    ///
    /// # Panics
    ///
    /// Always, with the last events.
    #[allow(clippy::panic, reason = "this is how a test says what went wrong")]
    pub fn fail(&self, what: &str) -> ! {
        let story = self.hub.log.about(&[String::new()], 120);
        panic!("{what}\n{}", story.join("\n"));
    }

    fn client(&self, cluster: &str) -> kube::Client {
        let (who, role) = if cluster == MANAGER { ("user", Role::User) } else { ("foreigner", Role::Foreigner) };
        self.cluster(cluster).client(who, role)
    }

    fn cluster(&self, name: &str) -> &Cluster {
        let all = self.crew.workers.iter();
        all.chain([&self.crew.manager])
            .find(|cluster| *cluster.name == *name)
            .unwrap_or_else(|| self.fail(&format!("there is no cluster {name}")))
    }
}

fn ended(truth: &Truth, name: &str) -> Option<(String, String)> {
    truth.job(MANAGER, name)?.ending.clone()
}

/// A write that a dispatcher asked for.
#[derive(Debug, Clone)]
pub struct Written {
    /// The dispatcher, and the how manieth life of it.
    pub who: String,
    /// The cluster.
    pub cluster: String,
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// What was sent.
    pub body: Value,
    /// The code of the answer, whether or not it was heard.
    pub code: u16,
}

/// Keeps all writes of dispatchers.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<Written>>>);

impl Checker for Ledger {
    fn see(&mut self, seen: &Seen<'_>, _: &Truth) -> Vec<Violation> {
        if let Seen::Asked(exchange) = seen
            && exchange.role == Role::Dispatcher
            && exchange.method != Method::GET
        {
            let Exchange { who, cluster, path, code, .. } = exchange;
            let body = serde_json::from_slice(&exchange.body).unwrap_or_default();
            let (who, cluster, method, path) =
                (who.clone(), cluster.clone(), exchange.method.to_string(), path.clone());
            lock(&self.0).push(Written { who, cluster, method, path, body, code: *code });
        }
        Vec::new()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
