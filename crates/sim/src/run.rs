//! One run: the world of a seed, a storm, and what is left of the promises after it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jobferry_kubeio::CallError;
use jobferry_testkit::fault::{Passage, Road};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accidents;
use crate::actors;
use crate::checkers::{self, Rest, Violation};
use crate::cluster::{Clock, Cluster, Site, ahead, virtual_clock};
use crate::crew::{Crew, Secrets};
use crate::dice::{Dice, fnv};
use crate::faults::{Fault, FaultSet, UnknownFault};
use crate::hub::Hub;
use crate::log::Log;
use crate::panics;
use crate::sabotage::Sabotage;
use crate::scenario::Scenario;
use crate::spells;
use crate::strangers;
use crate::truth::{MANAGER, SECOND_MANAGER, Truth};
use crate::weather::Weather;

/// After the last fault everything must have come to rest within this time: the slowest retry (30 s), a quarantine, and
/// the longest Job one after the other, with a wide margin.
const REST_WITHIN: Duration = Duration::from_secs(40 * 60);
/// How often rest is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long everything must stay as it is to be called rest: longer than any quarantine and retry.
const REST_LASTS: Duration = Duration::from_secs(100);
/// How many log lines are kept to explain a violation.
const STORY_LINES: usize = 50;

/// How to run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which kinds of trouble there are.
    pub faults: FaultSet,
    /// Whether there are workloads of another kind among the Jobs.
    pub mixed: bool,
    /// A protection that is taken out, to see that its loss is found.
    pub sabotage: Option<Sabotage>,
    /// How many lines of the log are kept.
    pub keep_lines: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { faults: FaultSet::all(), mixed: false, sabotage: None, keep_lines: 20_000 }
    }
}

impl Settings {
    /// What the command line needs beside the seed to run the same world again.
    pub fn flags(&self) -> String {
        let mixed = if self.mixed { " --mixed" } else { "" };
        let faults = if self.faults == FaultSet::all() { String::new() } else { format!(" --faults {}", self.faults) };
        format!("{mixed}{faults}")
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// What the command line needs beside the seed to run it again.
    pub flags: String,
    /// Workloads that were submitted.
    pub jobs: u64,
    /// How often each kind of trouble happened.
    pub faults: BTreeMap<&'static str, u64>,
    /// How long it was for those inside.
    pub simulated: Duration,
    /// Lines of the log, and their digest.
    pub digest: (u64, u64),
    /// Broken promises, each with the last events that led there.
    pub violations: Vec<(Violation, Vec<String>)>,
    /// The whole log, if all of it was kept.
    pub log: String,
}

/// A run could not be set up: a mistake of the simulator itself.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No runtime.
    #[error("no runtime: {0}")]
    Runtime(#[from] std::io::Error),
    /// The world could not be built.
    #[error("the world of seed {0} could not be built: {1}")]
    SetUp(u64, CallError),
    /// It is to have faults that there are not.
    #[error(transparent)]
    Fault(#[from] UnknownFault),
}

/// Runs the world of a seed on a thread and a clock of its own.
pub fn run(seed: u64, settings: &Settings) -> Result<Outcome, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    panics::note();
    let mut outcome = runtime.block_on(world(seed, settings))?;
    let panics = panics::noted().into_iter().map(|what| Violation { promise: "no-panic", about: Vec::new(), what });
    outcome.violations.extend(panics.map(|violation| (violation, Vec::new())));
    Ok(outcome)
}

async fn world(seed: u64, settings: &Settings) -> Result<Outcome, RunError> {
    let started = Instant::now();
    let scenario = Scenario::of(seed, &settings.faults, settings.mixed);
    let log = Log::new(settings.keep_lines);
    let hub = Arc::new(Hub::new(log.clone(), checkers::all()));
    let weather = Weather::new(settings.faults.clone(), &mut Dice::new(seed, "weather"), Arc::clone(&hub));
    let builder = Builder {
        seed,
        scenario: &scenario,
        clock: virtual_clock(),
        hub: Arc::clone(&hub),
        weather: Arc::new(weather),
        stop: CancellationToken::new(),
        mixed: settings.mixed,
        sabotage: settings.sabotage,
    };
    for (fault, what) in scenario.standing_faults() {
        builder.weather.count(fault, format_args!("{what}"));
    }
    let crews = builder.crews().await.map_err(|error| RunError::SetUp(seed, error))?;
    let dispatchers = TaskTracker::new();
    for crew in &crews {
        for name in crew.dispatchers() {
            dispatchers.spawn(crew.clone().keep_running(name, builder.stop.clone()));
        }
    }
    tokio::select! { biased;
        () = hub.broken() => {}
        () = live(&scenario, &crews, &hub) => {}
    }
    let outcome = Outcome {
        seed,
        flags: settings.flags(),
        jobs: hub.truth(|truth| truth.histories().len() as u64),
        faults: builder.weather.counts().into_iter().map(|(fault, count)| (fault.name(), count)).collect(),
        simulated: started.elapsed(),
        digest: log.digest(),
        violations: hub.violations().into_iter().map(|found| with_story(&log, found)).collect(),
        log: if settings.keep_lines == usize::MAX { log.text() } else { String::new() },
    };
    builder.stop.cancel();
    Ok(outcome)
}

/// The dispatcher of the second manager.
const SECOND_DISPATCHER: &str = "d9";

/// What it takes to build the clusters of a world and those who work on them.
struct Builder<'a> {
    seed: u64,
    scenario: &'a Scenario,
    clock: Clock,
    hub: Arc<Hub>,
    weather: Arc<Weather>,
    stop: CancellationToken,
    mixed: bool,
    sabotage: Option<Sabotage>,
}

impl Builder<'_> {
    /// Those who work for the manager, and those who work for the second one, if there is one.
    async fn crews(&self) -> Result<Vec<Crew>, CallError> {
        let mut workers = Vec::new();
        for name in &self.scenario.workers {
            workers.push(self.cluster(name).await);
        }
        let Scenario { dispatchers, leased, second, .. } = self.scenario;
        let shared = workers[..1].to_vec();
        let mut crews = vec![self.crew(MANAGER, workers, dispatchers, *leased).await?];
        if !second.is_empty() {
            self.weather.count(Fault::SecondManager, format_args!("{} workloads", second.len()));
            crews.push(self.crew(SECOND_MANAGER, shared, &[SECOND_DISPATCHER.to_owned()], false).await?);
        }
        Ok(crews)
    }

    async fn cluster(&self, name: &str) -> Cluster {
        let clock = ahead(&self.clock, self.scenario.ahead.get(name).copied().unwrap_or_default());
        let Self { hub, stop, mixed, sabotage, .. } = self;
        let seed = self.seed ^ fnv(name.as_bytes());
        Cluster::start(name, Site { seed, clock: &clock, hub, stop, mixed: *mixed, sabotage: *sabotage }).await
    }

    async fn crew(
        &self,
        manager: &str,
        workers: Vec<Cluster>,
        dispatchers: &[String],
        leased: bool,
    ) -> Result<Crew, CallError> {
        let manager = self.cluster(manager).await;
        actors::set_up(&manager, &workers).await?;
        let clusters = || std::iter::once(&manager).chain(&workers).map(|cluster| cluster.name.to_string());
        let ways = dispatchers.iter().flat_map(|name| clusters().map(move |cluster| (name.clone(), cluster)));
        Ok(Crew {
            seed: self.seed,
            roads: Arc::new(ways.map(|way| (way, Road::new(Passage::OPEN))).collect()),
            manager,
            workers,
            weather: Arc::clone(&self.weather),
            clock: Arc::clone(&self.clock),
            leased,
            ahead: self.scenario.ahead.clone(),
            secrets: Secrets::default(),
        })
    }
}

/// The storm, the rest after it, and the end of all workloads.
async fn live(scenario: &Scenario, crews: &[Crew], hub: &Hub) {
    storm(scenario, crews).await;
    for crew in crews {
        actors::put_in_order(&crew.manager, &crew.workers).await;
        strangers::take_back(&crew.manager, &crew.workers).await;
    }
    rest(hub, Truth::is_settled).await;
    hub.at_rest(Rest::Settled);
    for crew in crews {
        actors::delete_all(&crew.manager).await;
    }
    // A Worker that waited for its last workload to be gone comes back now.
    sleep(REST_LASTS).await;
    for crew in crews {
        actors::register(&crew.manager, &crew.workers).await;
    }
    rest(hub, Truth::is_empty).await;
    hub.at_rest(Rest::Emptied);
}

/// Everything that goes wrong, and the work of the users meanwhile.
async fn storm(scenario: &Scenario, crews: &[Crew]) {
    let Some(Crew { manager, workers, weather, seed, secrets, .. }) = crews.first() else { return };
    weather.storm(true);
    let people = TaskTracker::new();
    for (crew, stories) in crews.iter().zip([&scenario.workloads, &scenario.second]) {
        for story in stories.clone() {
            people.spawn(actors::tell(crew.manager.clone(), story));
        }
    }
    for incident in scenario.incidents.clone() {
        let Some(worker) = workers.iter().find(|worker| *worker.name == *incident.worker).cloned() else { continue };
        let (manager, weather, secrets) = (manager.clone(), Arc::clone(weather), secrets.clone());
        people.spawn(async move { actors::meddle(manager, worker, incident, &weather, &secrets).await });
    }
    if let Some((after, time)) = scenario.old_controller {
        let (manager, weather) = (manager.clone(), Arc::clone(weather));
        people.spawn(async move {
            sleep(after).await;
            weather.count(Fault::OldController, format_args!("for {time:?}"));
            actors::run_old_controller(&manager, time).await;
        });
    }
    let roads_of = |concerned: &dyn Fn(&(String, String)) -> bool| -> Vec<Road> {
        let all = crews.iter().flat_map(|crew| crew.roads.iter());
        all.filter(|(way, _)| concerned(way)).map(|(_, road)| road.clone()).collect()
    };
    for cluster in std::iter::once(manager).chain(workers) {
        let to_it = roads_of(&|(_, to)| **to == *cluster.name);
        people.spawn(spells::over_cluster(cluster.clone(), to_it.clone(), *seed, Arc::clone(weather)));
        people.spawn(accidents::over_cluster(cluster.clone(), to_it, *seed, Arc::clone(weather)));
    }
    for name in &scenario.dispatchers {
        let own = roads_of(&|(from, _)| from == name);
        people.spawn(spells::over_dispatcher(name.clone(), own, *seed, Arc::clone(weather)));
    }
    people.spawn(accidents::over_manager(manager.clone(), *seed, Arc::clone(weather)));
    for ((name, cluster), road) in crews.iter().flat_map(|crew| crew.roads.iter()) {
        let (name, cluster, road) = (name.clone(), cluster.clone(), road.clone());
        people.spawn(spells::over_pair(name, cluster, road, *seed, Arc::clone(weather)));
    }
    sleep(scenario.storm).await;
    weather.storm(false);
    people.close();
    people.wait().await;
}

/// Waits until nothing more is to be expected, or the patience is over.
async fn rest(hub: &Hub, is_reached: impl Fn(&Truth) -> bool) {
    let deadline = Instant::now() + REST_WITHIN;
    while Instant::now() < deadline {
        if !hub.truth(&is_reached) {
            sleep(LOOK_EVERY).await;
            continue;
        }
        // What comes late must come now. If it changes anything (a TTL is over), that must come to rest as well.
        sleep(REST_LASTS).await;
        if hub.truth(&is_reached) {
            return;
        }
    }
}

fn with_story(log: &Log, violation: Violation) -> (Violation, Vec<String>) {
    let mut words = violation.about.clone();
    words.push("-- d".to_owned());
    let story = log.about(&words, STORY_LINES);
    (violation, story)
}
