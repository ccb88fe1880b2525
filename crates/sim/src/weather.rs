//! What becomes of a dispatcher's requests, decided by dice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jobferry_testkit::fault::{Asked, Fate, Fates, Road, WatchFate};
use tokio_util::sync::CancellationToken;

use crate::dice::Dice;
use crate::faults::{Fault, FaultSet, OF_REQUESTS, OF_WATCHES};
use crate::hub::Hub;
use crate::script::Script;

/// Until what befell a watch is over: a watch lasts a minute, its next list a while.
const AFTER_A_WATCH: Duration = Duration::from_secs(120);
/// Of a thousand lists, how many are old.
const STALE_PER_MILLE: u64 = 200;
/// Of a thousand watches, how many have no bookmarks.
const NO_BOOKMARKS_PER_MILLE: u64 = 150;
/// By how many writes a list is behind at most: those of some tens of seconds.
const MOST_STALE: u64 = 60;

/// How bad the weather is, for all links of a run.
pub(crate) struct Weather {
    faults: FaultSet,
    /// Of a thousand requests, how many meet a fault.
    requests_per_mille: u64,
    /// Of a thousand watches, how many meet a fault.
    watches_per_mille: u64,
    storming: AtomicBool,
    /// No dispatcher may run.
    stopped: AtomicBool,
    counts: Mutex<BTreeMap<Fault, u64>>,
    /// Clusters whose every answer takes seconds.
    slow: Mutex<BTreeSet<String>>,
    /// What is not left to chance.
    script: Mutex<Script>,
    hub: Arc<Hub>,
}

impl Weather {
    /// The weather of a seed. It begins fair.
    pub(crate) fn new(faults: FaultSet, dice: &mut Dice, hub: Arc<Hub>) -> Self {
        Self {
            faults,
            requests_per_mille: dice.pick(&[5, 20, 60, 150]),
            watches_per_mille: dice.pick(&[50, 200, 600]),
            storming: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            counts: Mutex::default(),
            slow: Mutex::default(),
            script: Mutex::default(),
            hub,
        }
    }

    /// What is not left to chance.
    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which kinds of trouble there are.
    pub(crate) fn faults(&self) -> &FaultSet {
        &self.faults
    }

    /// Lets faults happen, or not.
    pub(crate) fn storm(&self, storming: bool) {
        self.storming.store(storming, Ordering::Relaxed);
        self.hub.log.say(format_args!("-- faults {}", if storming { "begin" } else { "are over" }));
    }

    /// Whether faults happen now.
    pub(crate) fn is_storming(&self) -> bool {
        self.storming.load(Ordering::Relaxed)
    }

    /// Somebody stops all dispatchers, or lets them run again. One that runs, or is started, ends at its next request.
    pub(crate) fn stop_dispatchers(&self, stopped: bool) {
        self.stopped.store(stopped, Ordering::Relaxed);
    }

    /// Notes that a fault happened.
    pub(crate) fn count(&self, fault: Fault, what: std::fmt::Arguments<'_>) {
        self.hub.log.say(format_args!("-- fault {fault}: {what}"));
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(fault).or_default() += 1;
    }

    /// Where everything comes together.
    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Makes every answer of a cluster slow, or not.
    pub(crate) fn slow_down(&self, cluster: &str, slow: bool) {
        let mut clusters = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        if slow {
            clusters.insert(cluster.to_owned());
        } else {
            clusters.remove(cluster);
        }
    }

    fn is_slow(&self, cluster: &str) -> bool {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner).contains(cluster)
    }

    /// How often each kind happened.
    pub(crate) fn counts(&self) -> BTreeMap<Fault, u64> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One life of a dispatcher, from its start to its crash.
#[derive(Clone, Default)]
pub(crate) struct Life {
    /// Ends its tasks.
    pub(crate) stop: CancellationToken,
    dead: Arc<AtomicBool>,
}

impl Life {
    /// From now on none of its requests is sent.
    pub(crate) fn end(&self) {
        self.dead.store(true, Ordering::Relaxed);
        self.stop.cancel();
    }

    fn is_over(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }
}

/// The way between one life of a dispatcher and one cluster.
pub(crate) struct Link {
    /// The dispatcher and the cluster.
    name: String,
    cluster: String,
    weather: Arc<Weather>,
    life: Life,
    road: Road,
    dice: Mutex<Dice>,
    /// Decides which lists are old; of its own, so that the other draws stay what they are.
    past: Mutex<Dice>,
    /// Decides which watches have no bookmarks.
    bookmarks: Mutex<Dice>,
}

impl Link {
    /// The link of a dispatcher to a cluster; both names decide its dice.
    pub(crate) fn new(who: &str, cluster: &str, seed: u64, weather: &Arc<Weather>, life: &Life, road: Road) -> Self {
        let name = format!("{who}>{cluster}");
        let dice = Mutex::new(Dice::new(seed, &name));
        let past = Mutex::new(Dice::new(seed, &format!("past of {name}")));
        let bookmarks = Mutex::new(Dice::new(seed, &format!("bookmarks of {name}")));
        let cluster = cluster.to_owned();
        Self { name, cluster, weather: Arc::clone(weather), life: life.clone(), road, dice, past, bookmarks }
    }

    /// By how many writes a list is behind, if it is.
    pub(crate) fn staleness(&self, asked: &Asked) -> Option<u64> {
        if !self.weather.is_storming() || !self.weather.faults.has(Fault::StaleList) {
            return None;
        }
        let mut dice = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = dice.per_mille(STALE_PER_MILLE).then(|| dice.between(1, MOST_STALE))?;
        self.weather.count(Fault::StaleList, format_args!("{} {}: by {behind} writes", self.name, asked.path));
        self.weather.hub.disturb_for(&self.cluster, AFTER_A_WATCH);
        Some(behind)
    }

    /// Whether a watch is without bookmarks.
    pub(crate) fn lacks_bookmarks(&self, asked: &Asked) -> bool {
        if !self.weather.is_storming() || !self.weather.faults.has(Fault::NoBookmarks) {
            return false;
        }
        let mut dice = self.bookmarks.lock().unwrap_or_else(PoisonError::into_inner);
        let lacks = dice.per_mille(NO_BOOKMARKS_PER_MILLE);
        if lacks {
            self.weather.count(Fault::NoBookmarks, format_args!("{} {}", self.name, asked.path));
        }
        lacks
    }

    fn roll<T>(&self, roll: impl FnOnce(&mut Dice) -> T) -> T {
        roll(&mut self.dice.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Mostly short, sometimes longer than a deadline, sometimes up to the latest moment that counts.
fn lateness(dice: &mut Dice) -> Duration {
    match dice.below(4) {
        0 | 1 => dice.time(Duration::from_millis(1), Duration::from_millis(800)),
        2 => dice.seconds(1, 15),
        _ => dice.seconds(15, 69),
    }
}

fn fate_of(fault: Fault, dice: &mut Dice) -> Fate {
    match fault {
        Fault::LostRequest => Fate::Lost,
        Fault::LostAnswer => Fate::AnswerLost,
        Fault::LateRequest => Fate::Late(lateness(dice)),
        Fault::LateAnswer => Fate::AnswerLate(lateness(dice)),
        Fault::Reset => dice.pick(&[Fate::Reset, Fate::AnswerReset]),
        Fault::ServerError => {
            let refused = [404, 409, 429, 500, 503, 504].map(Fate::Refused);
            let committed = [500, 504].map(Fate::CommittedButRefused);
            dice.pick(&[&refused[..], &committed[..]].concat())
        }
        Fault::Denied => Fate::Refused(dice.pick(&[401, 403])),
        Fault::Crash => dice.pick(&[Fate::Lost, Fate::AnswerLost]),
        _ => Fate::Answered,
    }
}

impl Fates for Link {
    fn of_request(&self, asked: &Asked) -> Fate {
        if self.weather.stopped.load(Ordering::Relaxed) {
            self.life.end();
        }
        if self.life.is_over() {
            return Fate::Lost;
        }
        // Every way takes time: a dispatcher that asks again and again at once would otherwise stop the clock.
        let slow = self.weather.is_slow(&self.cluster);
        let (least, most) = if slow { (1000, 9000) } else { (1, 4) };
        let time = self.roll(|dice| dice.time(Duration::from_millis(least), Duration::from_millis(most)));
        let on_the_way = Fate::Late(time);
        if let Some(fate) = self.weather.script().of_request(&self.name, asked) {
            self.weather.hub.log.say(format_args!("-- {} {} {}: {fate:?}", self.name, asked.method, asked.path));
            return fate;
        }
        if !self.weather.is_storming() {
            return on_the_way;
        }
        let (weather, name) = (&self.weather, &self.name);
        let drawn = self.roll(|dice| {
            let hit = dice.per_mille(weather.requests_per_mille);
            let fault = weather.faults.draw(&OF_REQUESTS, dice).filter(|_| hit)?;
            Some((fault, fate_of(fault, dice)))
        });
        let Some((fault, fate)) = drawn else { return on_the_way };
        weather.count(fault, format_args!("{name} {} {}: {fate:?}", asked.method, asked.path));
        weather.hub.disturb(&self.cluster);
        if fault == Fault::Crash {
            self.life.end();
        }
        fate
    }

    fn of_watch(&self, asked: &Asked) -> WatchFate {
        if let Some(fate) = self.weather.script().of_watch(&self.name, asked) {
            self.weather.hub.log.say(format_args!("-- {} watches {}: {fate:?}", self.name, asked.path));
            return fate;
        }
        if !self.weather.is_storming() {
            return WatchFate::Undisturbed;
        }
        let (weather, name) = (&self.weather, &self.name);
        let drawn = self.roll(|dice| {
            let hit = dice.per_mille(weather.watches_per_mille);
            let fault = weather.faults.draw(&OF_WATCHES, dice).filter(|_| hit)?;
            let fate = match fault {
                Fault::WatchCut => WatchFate::Cut(dice.seconds(0, 60)),
                Fault::WatchExpired => WatchFate::Expired(dice.seconds(0, 60)),
                Fault::WatchSilent => WatchFate::Silent(dice.seconds(0, 60)),
                _ => WatchFate::Slow(dice.seconds(0, 20)),
            };
            Some((fault, fate))
        });
        let Some((fault, fate)) = drawn else { return WatchFate::Undisturbed };
        weather.count(fault, format_args!("{name} {}: {fate:?}", asked.path));
        weather.hub.disturb_for(&self.cluster, AFTER_A_WATCH);
        fate
    }

    fn road(&self) -> Road {
        self.road.clone()
    }
}
