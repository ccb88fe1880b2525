//! What is counted and timed. Names are in [`jobferry_api::metrics`]; labels name workers and kinds of trouble, never
//! single workloads: those are in the logs.

mod stopwatch;

use std::sync::{Mutex, MutexGuard, PoisonError};

use jobferry_api::metrics::{self as names, outcomes, stages};
use jobferry_core::{action::Alarm, record::Record, workload::Workload};
use jobferry_kubeio::CallError;
use k8s_openapi::jiff::Timestamp;
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Metric, Registry},
};
use tokio::time::Instant;

use crate::metrics::stopwatch::{Leg, Stopwatch};

/// From below a round trip to the API server to past every deadline of ours.
const BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfWorker {
    worker: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStage {
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOutcome {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfWorkerAndOutcome {
    worker: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfAlarm {
    alarm: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfLane {
    lane: &'static str,
    worker: String,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All metrics of one process, across its terms of leadership.
pub(crate) struct Metrics {
    registry: Registry,
    stopwatch: Mutex<Stopwatch>,
    stage_duration: Histograms<OfStage>,
    status_lag: Histograms<OfWorker>,
    placements: Family<OfWorker, Counter>,
    refusals: Family<OfWorker, Counter>,
    connections: Family<OfWorker, Counter>,
    credential_expiry: Family<OfWorker, Gauge>,
    orphans_deleted: Family<OfWorker, Counter>,
    manager_writes_failed: Family<OfOutcome, Counter>,
    worker_writes_failed: Family<OfWorkerAndOutcome, Counter>,
    alarms: Family<OfAlarm, Counter>,
    events_dropped: Counter,
    snapshot: Snapshot,
}

/// What is read off at the moment of a scrape.
#[derive(Default)]
struct Snapshot {
    leader: Gauge,
    halted: Gauge,
    waiting: Gauge,
    queue_depth: Family<OfLane, Gauge>,
    up: Family<OfWorker, Gauge>,
    cordoned: Family<OfWorker, Gauge>,
    unfinished: Family<OfWorker, Gauge>,
    unacknowledged: Family<OfWorker, Gauge>,
}

/// How things stand, for the gauges.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) leads: bool,
    pub(crate) halted: bool,
    pub(crate) waiting: usize,
    pub(crate) manager_queue: usize,
    pub(crate) events_dropped: u64,
    pub(crate) workers: Vec<WorkerStanding>,
}

/// How things stand with one worker.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct WorkerStanding {
    pub(crate) name: String,
    pub(crate) up: bool,
    pub(crate) cordoned: bool,
    pub(crate) unfinished: u32,
    pub(crate) unacknowledged: u32,
    pub(crate) queue: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let snapshot = Snapshot::default();
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let r = &mut registry;
        add(r, names::LEADER, "Whether this process leads", &snapshot.leader);
        add(r, names::HALTED, "Whether placing is halted because delegation is broken", &snapshot.halted);
        add(r, names::WAITING, "Workloads that no worker fits now", &snapshot.waiting);
        add(r, names::QUEUE_DEPTH, "Workloads that wait for their turn in a lane", &snapshot.queue_depth);
        add(r, names::WORKER_UP, "Whether the worker is connected", &snapshot.up);
        add(r, names::WORKER_CORDONED, "Whether the worker is closed for new workloads", &snapshot.cordoned);
        add(r, names::WORKER_UNFINISHED, "Unfinished workloads placed on the worker", &snapshot.unfinished);
        add(r, names::WORKER_UNACKNOWLEDGED, "Creates under way to the worker", &snapshot.unacknowledged);
        let stage_duration = Histograms::new_with_constructor(histogram);
        let status_lag = Histograms::new_with_constructor(histogram);
        let metrics = Self {
            stage_duration: add(r, names::STAGE_DURATION, "How long a workload took to the stage", &stage_duration),
            status_lag: add(r, names::STATUS_LAG, "From a mirror's change to its copy", &status_lag),
            placements: add(r, names::PLACEMENTS, "Placements recorded", &Family::default()),
            refusals: add(r, names::REFUSALS, "Mirrors that the worker refused", &Family::default()),
            connections: add(r, names::WORKER_CONNECTIONS, "Connections made to the worker", &Family::default()),
            credential_expiry: add(r, names::WORKER_CREDENTIAL_EXPIRY, "When it expires", &Family::default()),
            orphans_deleted: add(r, names::ORPHANS_DELETED, "Mirrors deleted for want of an owner", &Family::default()),
            manager_writes_failed: add(r, names::MANAGER_WRITES_FAILED, "Failed writes", &Family::default()),
            worker_writes_failed: add(r, names::WORKER_WRITES_FAILED, "Failed writes", &Family::default()),
            alarms: add(r, names::ALARMS, "Things that should never be", &Family::default()),
            events_dropped: add(r, names::EVENTS_DROPPED, "Events not told for want of room", &Counter::default()),
            stopwatch: Mutex::default(),
            registry: Registry::default(),
            snapshot,
        };
        Self { registry, ..metrics }
    }
}

fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: &M) -> M {
    registry.register(name, help, metric.clone());
    metric.clone()
}

impl Metrics {
    /// A workload came into sight.
    pub(crate) fn seen(&self, workload: &Workload) {
        if workload.is_ours() && workload.record == Record::None {
            self.stopwatch().begin(Leg::Placing, &workload.uid, Instant::now());
        }
    }

    /// A placement was recorded.
    pub(crate) fn placed(&self, uid: &str, worker: &str) {
        self.placements.get_or_create(&of(worker)).inc();
        let now = Instant::now();
        let mut stopwatch = self.stopwatch();
        let took = stopwatch.end(Leg::Placing, uid, now);
        stopwatch.begin(Leg::Mirroring, uid, now);
        drop(stopwatch);
        if let Some(took) = took {
            self.stage_duration.get_or_create(&OfStage { stage: stages::PLACED }).observe(took.as_secs_f64());
        }
    }

    /// A mirror was created.
    pub(crate) fn mirrored(&self, uid: &str) {
        if let Some(took) = self.stopwatch().end(Leg::Mirroring, uid, Instant::now()) {
            self.stage_duration.get_or_create(&OfStage { stage: stages::MIRRORED }).observe(took.as_secs_f64());
        }
    }

    /// A mirror changed.
    pub(crate) fn mirror_changed(&self, uid: &str) {
        self.stopwatch().begin(Leg::Copying, uid, Instant::now());
    }

    /// A mirror's status was copied.
    pub(crate) fn status_copied(&self, uid: &str, worker: &str) {
        if let Some(took) = self.stopwatch().end(Leg::Copying, uid, Instant::now()) {
            self.status_lag.get_or_create(&of(worker)).observe(took.as_secs_f64());
        }
    }

    /// A worker refused a mirror.
    pub(crate) fn refused(&self, worker: &str) {
        self.refusals.get_or_create(&of(worker)).inc();
    }

    /// A worker was connected.
    pub(crate) fn connected(&self, worker: &str) {
        self.connections.get_or_create(&of(worker)).inc();
    }

    /// The credential of a worker expires then, if that is known.
    pub(crate) fn credential_expires(&self, worker: &str, expires: Option<Timestamp>) {
        match expires {
            Some(at) => drop(self.credential_expiry.get_or_create(&of(worker)).set(at.as_second())),
            None => drop(self.credential_expiry.remove(&of(worker))),
        }
    }

    /// A worker is not registered any more.
    pub(crate) fn removed(&self, worker: &str) {
        self.credential_expiry.remove(&of(worker));
    }

    /// A mirror was deleted because its workload is gone.
    pub(crate) fn orphan_deleted(&self, worker: &str) {
        self.orphans_deleted.get_or_create(&of(worker)).inc();
    }

    /// A write to the management cluster failed.
    pub(crate) fn manager_write_failed(&self, error: &CallError) {
        self.manager_writes_failed.get_or_create(&OfOutcome { outcome: outcome(error) }).inc();
    }

    /// A write to a worker failed.
    pub(crate) fn worker_write_failed(&self, worker: &str, error: &CallError) {
        let labels = OfWorkerAndOutcome { worker: worker.to_owned(), outcome: outcome(error) };
        self.worker_writes_failed.get_or_create(&labels).inc();
    }

    /// Something that should never be.
    pub(crate) fn alarm(&self, alarm: &Alarm) {
        self.alarms.get_or_create(&OfAlarm { alarm: kind_of(alarm) }).inc();
    }

    /// All of it, as OpenMetrics text.
    pub(crate) fn exposition(&self, standing: &Standing) -> String {
        self.snapshot.take(standing);
        let dropped_before = self.events_dropped.get();
        self.events_dropped.inc_by(standing.events_dropped.saturating_sub(dropped_before));
        let mut text = String::new();
        // Writing to a String cannot fail.
        text::encode(&mut text, &self.registry).ok();
        text
    }

    fn stopwatch(&self) -> MutexGuard<'_, Stopwatch> {
        self.stopwatch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshot {
    fn take(&self, standing: &Standing) {
        self.leader.set(i64::from(standing.leads));
        self.halted.set(i64::from(standing.halted));
        self.waiting.set(whole(standing.waiting));
        // A worker that was removed has no value any more.
        self.queue_depth.clear();
        for family in [&self.up, &self.cordoned, &self.unfinished, &self.unacknowledged] {
            family.clear();
        }
        let manager = OfLane { lane: "manager", worker: String::new() };
        self.queue_depth.get_or_create(&manager).set(whole(standing.manager_queue));
        for worker in &standing.workers {
            let labels = of(&worker.name);
            self.up.get_or_create(&labels).set(i64::from(worker.up));
            self.cordoned.get_or_create(&labels).set(i64::from(worker.cordoned));
            self.unfinished.get_or_create(&labels).set(i64::from(worker.unfinished));
            self.unacknowledged.get_or_create(&labels).set(i64::from(worker.unacknowledged));
            let lane = OfLane { lane: "worker", worker: worker.name.clone() };
            self.queue_depth.get_or_create(&lane).set(whole(worker.queue));
        }
    }
}

fn of(worker: &str) -> OfWorker {
    OfWorker { worker: worker.to_owned() }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn outcome(error: &CallError) -> &'static str {
    match error.refusal().map(|refusal| refusal.code) {
        Some(409) => outcomes::CONFLICT,
        Some(422) => outcomes::INVALID,
        Some(_) => outcomes::REFUSED,
        None => outcomes::UNKNOWN,
    }
}

fn kind_of(alarm: &Alarm) -> &'static str {
    match alarm {
        Alarm::IllegalStatus(_) => "illegal_status",
        Alarm::ManagerRestored(_) => "manager_restored",
        Alarm::ActedOn(_) => "acted_on",
        Alarm::UnreadableRecord => "unreadable_record",
    }
}

#[cfg(test)]
mod tests;
