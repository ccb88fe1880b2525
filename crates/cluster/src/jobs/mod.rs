//! The Job controller's shell: it watches Jobs and pods, asks [`job_controller::sync`] for the next step, carries it out.

mod claims;
mod pods;
mod status;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use job_controller::{JobView, Memory, Notice, PodPlan, PodView, Step, sync};
use jobferry_kubeio::{CallError, Candidate, Collection, Event, Leadership, Lease, Queue, Watcher};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    Clock,
    cache::Cache,
    clock,
    events::{self, About, Happening},
    random::Random,
};

/// How long one write may take.
const DEADLINE: Duration = Duration::from_secs(15);
/// The first wait after a failed write, as in the built-in controller.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest wait after failed writes.
const LAST_RETRY: Duration = Duration::from_mins(1);
/// Events that wait to be told.
const EVENTS_WAITING: usize = 1000;
/// Jobs that are worked on at the same time.
const WORKERS: usize = 16;
/// Steps of one Job in a row before others get their turn.
const STEPS_IN_A_ROW: usize = 64;

/// Which Jobs are ours, and how they are run.
#[derive(Clone)]
pub struct JobOptions {
    /// Jobs without `spec.managedBy`, or with the reserved value: in place of the cluster's own controller.
    pub standard: bool,
    /// Values of `spec.managedBy` that mean us.
    pub managed_by: Vec<String>,
    /// How long changes of pods are gathered before a Job is looked at again. Saves status writes when many pods end
    /// together, or when a pod starts and ends within it.
    pub gather: Duration,
    /// The time.
    pub clock: Clock,
    /// Decides the random part of pod names.
    pub seed: u64,
    /// The lease to hold while working. `None`: nobody else runs these Jobs.
    pub lease: Option<Lease>,
}

impl JobOptions {
    /// A controller for the Jobs that the cluster's own controller would run.
    pub fn standard(clock: Clock, seed: u64) -> Self {
        Self { standard: true, managed_by: Vec::new(), gather: Duration::from_millis(20), clock, seed, lease: None }
    }

    /// A controller for delegated Jobs only: the cluster's own controller runs the others.
    pub fn delegated(managed_by: &str, clock: Clock, seed: u64) -> Self {
        Self { standard: false, managed_by: vec![managed_by.to_owned()], ..Self::standard(clock, seed) }
    }

    fn owns(&self, job: &JobView) -> bool {
        match job_api::managed_by::ManagedBy::of(job.spec.managed_by.as_deref()) {
            job_api::managed_by::ManagedBy::Standard => self.standard,
            job_api::managed_by::ManagedBy::Delegated(name) => self.managed_by.contains(&name),
        }
    }
}

/// Runs the Jobs of a cluster until `shutdown`; with a lease, only while it is held.
pub async fn run_jobs(client: Client, options: JobOptions, shutdown: CancellationToken) {
    let work = |leadership, term| run_term(client.clone(), options.clone(), leadership, term);
    match options.lease.clone() {
        None => work(Leadership::default(), shutdown).await,
        Some(lease) => Candidate::new(client.clone(), lease, Clock::clone(&options.clock)).lead(shutdown, work).await,
    }
}

/// One term of leadership: everything that is known is found out anew at its start.
async fn run_term(client: Client, options: JobOptions, leadership: Leadership, term: CancellationToken) {
    // Events are a courtesy: they must not hold up a Job, and those that find no room are dropped.
    let (events, told) = mpsc::channel(EVENTS_WAITING);
    let controller = Arc::new(Controller::new(client, options, leadership, events));
    let workers: FuturesUnordered<_> = (0..WORKERS).map(|_| controller.work()).collect();
    let workers = workers.for_each(|()| std::future::ready(()));
    tokio::select! { biased;
        () = term.cancelled() => {}
        () = controller.watch_jobs() => {}
        () = controller.watch_pods() => {}
        () = workers => {}
        () = controller.tell_all(told) => {}
    }
}

/// What the shell remembers of a Job beside the objects.
#[derive(Debug, Default)]
struct Notes {
    memory: Memory,
    /// How often creating pods failed in a row.
    failed_creates: u32,
    /// Pods whose creation was asked for without an answer: settled before anything else is decided.
    uncertain: Vec<(PodPlan, String)>,
}

struct Controller {
    client: Client,
    options: JobOptions,
    leadership: Leadership,
    random: Random,
    events: mpsc::Sender<(Arc<JobView>, Notice)>,
    jobs: Mutex<Cache<JobView>>,
    pods: Mutex<Cache<PodView>>,
    notes: Mutex<HashMap<String, Notes>>,
    queue: Queue<Key>,
}

/// What there is to do, by UID.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Job(String),
    /// A pod without an owner.
    Orphan(String),
}

/// Why a Job could not be brought further now.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    #[error("the lease is not ours any more")]
    NotLeading,
    #[error("{action} of {object}: {source}")]
    Call { action: &'static str, object: String, source: CallError },
    #[error("status of Job {job} would be refused, which is a mistake of this controller: {errors}")]
    Illegal { job: String, errors: job_api::Errors },
}

impl Controller {
    fn new(
        client: Client,
        options: JobOptions,
        leadership: Leadership,
        events: mpsc::Sender<(Arc<JobView>, Notice)>,
    ) -> Self {
        Self {
            client,
            leadership,
            events,
            random: Random::new(options.seed),
            options,
            jobs: Mutex::default(),
            pods: Mutex::default(),
            notes: Mutex::default(),
            queue: Queue::new(FIRST_RETRY, LAST_RETRY),
        }
    }

    async fn watch_jobs(&self) {
        let mut watcher = Watcher::new(self.client.clone(), Collection::new("/apis/batch/v1/jobs", job_version));
        loop {
            let event = watcher.next().await;
            let changed: Vec<String> = {
                let mut jobs = lock(&self.jobs);
                match event {
                    Event::Reset(list) => {
                        let list = list.into_iter().map(|job| self.lightened(job)).collect();
                        let gone = jobs.reset(list, reached(&watcher));
                        gone.iter().chain(jobs.all()).map(|job| job.uid.clone()).collect()
                    }
                    Event::Applied(job) => {
                        let uid = job.uid.clone();
                        jobs.apply(self.lightened(job)).then_some(uid).into_iter().collect()
                    }
                    Event::Deleted(job) => {
                        jobs.delete(&job);
                        vec![job.uid]
                    }
                    Event::Interrupted(error) => {
                        tracing::warn!(%error, "jobs cannot be watched");
                        Vec::new()
                    }
                    Event::Resumed => Vec::new(),
                }
            };
            for uid in changed {
                self.queue.add(Key::Job(uid));
            }
        }
    }

    /// Most of a Job is its pod template, which is of no use when we create no (more) pods for it.
    fn lightened(&self, mut job: JobView) -> JobView {
        if !self.options.owns(&job) || is_finished(&job) {
            job.template = Arc::default();
        }
        job
    }

    async fn watch_pods(&self) {
        let mut watcher = Watcher::new(self.client.clone(), Collection::new("/api/v1/pods", pod_version));
        loop {
            let event = watcher.next().await;
            let touched: Vec<Key> = match event {
                Event::Reset(list) => {
                    let pods: Vec<Arc<PodView>> = {
                        let mut pods = lock(&self.pods);
                        let mut all = pods.reset(list, reached(&watcher));
                        all.extend(pods.all().cloned());
                        all
                    };
                    pods.iter().flat_map(|pod| self.concerned(pod)).collect()
                }
                Event::Applied(pod) => {
                    let keys = self.concerned(&pod);
                    if lock(&self.pods).apply(pod) { keys } else { Vec::new() }
                }
                Event::Deleted(pod) => {
                    let keys = self.concerned(&pod);
                    lock(&self.pods).delete(&pod);
                    keys
                }
                Event::Interrupted(error) => {
                    tracing::warn!(%error, "pods cannot be watched");
                    Vec::new()
                }
                Event::Resumed => Vec::new(),
            };
            for key in touched {
                self.queue.add_after(key, self.options.gather);
            }
        }
    }

    async fn work(&self) {
        loop {
            let key = self.queue.next().await;
            let outcome = match &key {
                Key::Job(uid) => self.bring_further(uid).await,
                Key::Orphan(uid) => self.release_orphan(uid).await.map(|()| None),
            };
            match outcome {
                Ok(wake_after) => {
                    self.queue.forget(&key);
                    if let Some(delay) = wake_after {
                        self.queue.add_after(key.clone(), delay);
                    }
                }
                Err(error) => {
                    tracing::warn!(?key, %error, "a Job could not be brought further; trying again");
                    self.queue.retry(key.clone());
                }
            }
            self.queue.done(&key);
        }
    }

    /// Carries out steps until the Job rests. Returns when to look again.
    async fn bring_further(&self, uid: &str) -> Result<Option<Duration>, SyncError> {
        if !(lock(&self.jobs).is_listed() && lock(&self.pods).is_listed()) {
            return Ok(Some(Duration::from_millis(10)));
        }
        for _ in 0..STEPS_IN_A_ROW {
            let Some(job) = lock(&self.jobs).get(uid) else {
                lock(&self.notes).remove(uid);
                self.release_pods_of_lost_job(uid).await?;
                return Ok(None);
            };
            if !self.options.owns(&job) {
                return Ok(None);
            }
            if !self.leadership.holds() {
                return Err(SyncError::NotLeading);
            }
            self.settle_uncertain(&job).await?;
            if !is_finished(&job) && self.claim_pods(&job).await? {
                continue;
            }
            let pods: Vec<PodView> = lock(&self.pods).group(uid).map(|pod| PodView::clone(&pod)).collect();
            let memory = lock(&self.notes).entry(uid.to_owned()).or_default().memory;
            let decision = sync(&job, &pods, &memory, self.now());
            match decision.step {
                Step::Rest => return Ok(decision.wake_at.map(|at| clock::until(at, self.now()))),
                Step::Record(status) => {
                    if !self.write_status(&job, &status).await? {
                        continue;
                    }
                }
                Step::Pods(actions) => self.act(&job, actions).await?,
            }
            if let Some(notes) = lock(&self.notes).get_mut(uid) {
                notes.memory.backoff = decision.backoff;
            }
            for notice in decision.notices {
                self.tell(&job, notice);
            }
        }
        Ok(Some(Duration::ZERO))
    }

    fn now(&self) -> Timestamp {
        (self.options.clock)()
    }

    fn tell(&self, job: &Arc<JobView>, notice: Notice) {
        let _ = self.events.try_send((Arc::clone(job), notice));
    }

    async fn tell_all(&self, mut events: mpsc::Receiver<(Arc<JobView>, Notice)>) {
        while let Some((job, notice)) = events.recv().await {
            let about = About {
                api_version: "batch/v1",
                kind: "Job",
                namespace: &job.namespace,
                name: &job.name,
                uid: &job.uid,
            };
            let what = Happening { warning: notice.warning, reason: &notice.reason, message: &notice.message };
            let random = self.random.next();
            events::tell(&self.client, "job-controller", about, what, self.now(), random).await;
        }
    }
}

fn is_finished(job: &JobView) -> bool {
    job_api::conditions::is_finished(job.status.conditions.as_deref().unwrap_or_default())
}

fn job_version(job: &JobView) -> &str {
    &job.resource_version
}

fn pod_version(pod: &PodView) -> &str {
    &pod.resource_version
}

/// The version of what a watcher told last.
fn reached<T: DeserializeOwned>(watcher: &Watcher<T>) -> u64 {
    watcher.version().and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while a lock is held; if it did, the data would still be whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
