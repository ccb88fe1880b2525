//! Where everything that happens comes together: it is logged, the truth is brought up to date, the checkers look at it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::checkers::{Checker, Seen, Violation};
use crate::facts::JobFacts;
use crate::log::Log;
use crate::truth::{Role, Truth};

/// One request and its outcome, as the server saw it.
#[derive(Debug)]
pub struct Exchange {
    /// Who asked.
    pub who: String,
    /// In which role.
    pub role: Role,
    /// The manager that a dispatcher works for.
    pub home: String,
    /// Which cluster.
    pub cluster: String,
    /// The method.
    pub method: Method,
    /// The path, without the query.
    pub path: String,
    /// The body.
    pub body: Bytes,
    /// When it was sent. It may have been under way for long.
    pub sent: Instant,
    /// The status code of the answer.
    pub code: u16,
    /// The Job that it was about, before it was carried out.
    pub target: Option<JobFacts>,
}

impl Exchange {
    /// Whether the server did what was asked.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// Shared by all parts of a run.
pub(crate) struct Hub {
    /// The event log.
    pub(crate) log: Log,
    state: Mutex<State>,
    broken: Notify,
}

struct State {
    truth: Truth,
    checkers: Vec<Box<dyn Checker>>,
    violations: Vec<Violation>,
}

impl Hub {
    /// A hub with these checkers.
    pub(crate) fn new(log: Log, checkers: Vec<Box<dyn Checker>>) -> Self {
        let state = State { truth: Truth::default(), checkers, violations: Vec::new() };
        Self { log, state: Mutex::new(state), broken: Notify::new() }
    }

    /// A process of a workload was started on a cluster.
    pub(crate) fn started(&self, cluster: &str, workload: &str, mirror: &str, pod: &str, name: &str) {
        self.log.say(format_args!("{cluster}: pod {name} starts (workload {workload}, mirror {mirror})"));
        let mut state = self.lock();
        state.truth.started(cluster, workload, pod);
        state.show(&Seen::Started { cluster, workload, mirror });
        self.tell(&state);
    }

    /// A process of a workload has ended on a cluster.
    pub(crate) fn stopped(&self, cluster: &str, workload: &str, pod: &str, name: &str) {
        self.log.say(format_args!("{cluster}: pod {name} has ended (workload {workload})"));
        self.lock().truth.stopped(cluster, workload, pod);
    }

    /// The new state of a Job after a write.
    pub(crate) fn changed(&self, cluster: &str, name: &str, after: Option<&JobFacts>, by: Role) {
        let mut state = self.lock();
        let before = state.truth.change(cluster, name, after, by);
        if before.as_ref() != after {
            state.show(&Seen::Changed { cluster, before: before.as_ref(), after, by });
            self.tell(&state);
        }
    }

    /// A request was carried out or refused.
    pub(crate) fn asked(&self, exchange: &Exchange) {
        let mut state = self.lock();
        state.show(&Seen::Asked(exchange));
        self.tell(&state);
    }

    /// Something went wrong at a cluster or a dispatcher just now.
    pub(crate) fn disturb(&self, who: &str) {
        self.disturb_for(who, Duration::ZERO);
    }

    /// Something goes wrong at a cluster or a dispatcher for so long.
    pub(crate) fn disturb_for(&self, who: &str, time: Duration) {
        self.lock().truth.disturbed(who, Instant::now() + time);
    }

    /// A cluster or a dispatcher is in trouble of this kind until further notice, or no more.
    pub(crate) fn ill(&self, who: &str, what: &'static str, ill: bool) {
        let far = Duration::from_secs(if ill { 24 * 3600 } else { 0 });
        self.lock().truth.disturbed_until(who, what, Instant::now() + far);
    }

    /// This is who a cluster is from now on, and these are its Jobs.
    pub(crate) fn turned_back(&self, cluster: &str, identity: String, jobs: &[JobFacts]) {
        let mut state = self.lock();
        state.truth.turn_back(cluster, identity, jobs);
    }

    /// Somebody puts this policy on a manager.
    pub(crate) fn policy(&self, manager: &str, spec: &Value) {
        self.lock().truth.policy(manager, spec);
    }

    /// A dispatcher starts.
    pub(crate) fn begins(&self, who: &str) {
        self.log.say(format_args!("-- {who} starts"));
        self.lock().truth.begins(who, Instant::now());
    }

    /// A dispatcher that is connected with a cluster hears something of it.
    pub(crate) fn heard(&self, who: &str, cluster: &str) {
        self.lock().truth.heard(who, cluster, Instant::now());
    }

    /// A dispatcher that works for this manager created a Job.
    pub(crate) fn made(&self, job: &JobFacts, manager: &str) {
        self.lock().truth.made(job, manager);
    }

    /// All faults are over and nothing more is to be expected: what must have come about by now?
    pub(crate) fn at_rest(&self, rest: crate::checkers::Rest) {
        self.lock().rest(rest);
    }

    /// Looks at the truth.
    pub(crate) fn truth<T>(&self, look: impl FnOnce(&Truth) -> T) -> T {
        look(&self.lock().truth)
    }

    /// What was found so far.
    pub(crate) fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }

    /// Waits for the first broken promise: what comes after it proves nothing.
    pub(crate) async fn broken(&self) {
        self.broken.notified().await;
    }

    fn tell(&self, state: &State) {
        if !state.violations.is_empty() {
            self.broken.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn show(&mut self, seen: &Seen<'_>) {
        for checker in &mut self.checkers {
            self.violations.extend(checker.see(seen, &self.truth));
        }
    }

    fn rest(&mut self, rest: crate::checkers::Rest) {
        for checker in &mut self.checkers {
            self.violations.extend(checker.at_rest(rest, &self.truth));
        }
    }
}
