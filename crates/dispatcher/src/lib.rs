//! The dispatcher: [`jobferry_core`]'s plans, executed. Nothing is decided here.
//!
//! ```text
//!   manager ──watch Jobs──────┐                         ┌─> manager lane ──> PATCH /status
//!                             ├─> Index ──> Queue ──> plan
//!   workers ──watch mirrors───┘   (what we know)        └─> a lane a worker ──> POST, GET, DELETE mirrors
//! ```
//!
//! Each worker has its own connection, queue and concurrency limit, so a worker that hangs holds up nobody else.

mod breaker;
mod canary;
mod connect;
mod credentials;
mod events;
mod execute;
mod finalizer;
mod health;
mod index;
mod kinds;
mod lanes;
mod link;
mod metrics;
mod paths;
mod policies;
mod report;
mod restored;
mod scope;
mod workers;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt};
use job_api::Rules;
use jobferry_api::managed_by;
use jobferry_core::{
    custom::KindRef,
    halts::Halt,
    kind::Table,
    ownership::origin,
    time::{LOSS_NOTICED, Now},
    workload::Workload,
};
use jobferry_kubeio::{self as kubeio, CallError, Candidate, Collection, Event, Leadership, events::Recorder};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use connect::{Connect, ConnectError, KubeconfigSecrets, Successor, Token, reach};
pub use credentials::request_token;
pub use health::Vitals;
pub use jobferry_kubeio::Lease;

use crate::{
    index::{Index, Kept, Term},
    kinds::Kinds,
    lanes::Lanes,
    metrics::Metrics,
    report::Unwritten,
};

/// One read that start-up depends on must be answered within this time.
const READ_DEADLINE: Duration = Duration::from_secs(10);

/// How to run a dispatcher.
#[derive(Clone)]
pub struct Options {
    /// How to reach the worker clusters.
    pub connect: Arc<dyn Connect>,
    /// The wall clock. Simulated runs have their own.
    pub wall_clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Decides the jitter of waits.
    pub seed: u64,
    /// Ask servers for lists of Jobs as a stream, where they offer it.
    pub streamed_lists: bool,
    /// The lease to hold while working. `None`: work without one; safe, but two dispatchers then do everything twice.
    pub lease: Option<Lease>,
    /// The namespace of the Job that shows whether this cluster leaves delegated Jobs alone. `None`: it is taken for granted.
    pub canary: Option<String>,
    /// The kinds to dispatch beside Jobs; users may add to them by WorkloadKinds. `None`: Jobs only.
    pub kinds: Option<Table>,
    /// How long this process itself must have missed a worker before what it ran may be given up: [`LOSS_NOTICED`], unless
    /// somebody wants to see what happens without that.
    pub notice_loss_after: Duration,
    /// The value of `spec.managedBy` that this dispatcher answers to. One with another than [`managed_by::DISPATCHER`] has
    /// Jobs, mirrors and Workers of its own (`spec.managedBy` of a Worker) and wants a lease of its own; other kinds than
    /// Job it leaves to the first one.
    pub managed_by: String,
    /// Where this process tells how it is.
    pub vitals: Arc<Vitals>,
}

impl Options {
    /// No lease, no canary, Jobs only: for a process that has the clusters to itself.
    pub fn new(connect: Arc<dyn Connect>, wall_clock: Arc<dyn Fn() -> Timestamp + Send + Sync>, seed: u64) -> Self {
        let streamed_lists = true;
        let (lease, canary, kinds) = (None, None, None);
        let managed_by = managed_by::DISPATCHER.to_owned();
        let (notice_loss_after, vitals) = (LOSS_NOTICED, Arc::default());
        Self { connect, wall_clock, seed, streamed_lists, lease, canary, kinds, notice_loss_after, managed_by, vitals }
    }
}

/// Why a dispatcher could not start, or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The management cluster does not answer as it should.
    #[error("management cluster: {what}: {source}")]
    Manager {
        /// What was asked.
        what: &'static str,
        /// What went wrong.
        source: CallError,
    },
    /// A part of it panicked. Without it the others would go on with what is known to be old: a new dispatcher finds out all anew.
    #[error("a part of the dispatcher panicked, as told above; start it again, and please report this")]
    Broken,
}

/// Both clocks of this process.
#[derive(Clone)]
pub(crate) struct Clock {
    wall: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    started: tokio::time::Instant,
}

impl Clock {
    pub(crate) fn now(&self) -> Now {
        Now { wall: (self.wall)(), monotonic: self.started.elapsed() }
    }
}

/// What every part of a running dispatcher shares.
pub(crate) struct Shared {
    pub(crate) manager: Client,
    /// Which cluster the manager is.
    pub(crate) identity: String,
    /// Whose mirrors are ours: stamped on every one of them.
    pub(crate) origin: String,
    pub(crate) clock: Clock,
    pub(crate) index: Arc<Index>,
    pub(crate) kinds: Kinds,
    pub(crate) lanes: Lanes,
    pub(crate) leadership: Leadership,
    pub(crate) recorder: Recorder,
    pub(crate) unwritten: Unwritten,
    pub(crate) term: Term,
    pub(crate) options: Options,
    pub(crate) tasks: TaskTracker,
    pub(crate) shutdown: CancellationToken,
    /// A part of it panicked.
    pub(crate) broken: CancellationToken,
}

impl Shared {
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.options.vitals.metrics
    }

    /// A workload as this dispatcher sees it.
    pub(crate) fn seen(&self, mut workload: Box<Workload>) -> Box<Workload> {
        workload.be_seen_by(&self.options.managed_by);
        workload
    }
}

/// Runs until `shutdown`. Running work is not touched by stopping: the next dispatcher takes over from the objects.
pub async fn run(manager: Client, options: Options, shutdown: CancellationToken) -> Result<(), RunError> {
    let (identity, rules) = ask_manager(&manager).await?;
    let origin = origin(&identity, &options.managed_by);
    tracing::info!(%origin, managed_by = options.managed_by, "dispatcher starts");
    // The rules of the other kinds know the first dispatcher only: two would take the same objects for theirs.
    let kinds = options.kinds.filter(|_| options.managed_by == managed_by::DISPATCHER);
    let options = Options { kinds, ..options };
    let clock = Clock { wall: Arc::clone(&options.wall_clock), started: tokio::time::Instant::now() };
    options.vitals.stand_by();
    let component = jobferry_api::events::COMPONENT;
    let (recorder, write_events) = Recorder::new(manager.clone(), component, Arc::clone(&options.wall_clock));
    let (broken, stop) = (CancellationToken::new(), shutdown.child_token());
    let work = |leadership: Leadership, term: CancellationToken| {
        let index = Arc::new(Index::default());
        work(Shared {
            manager: manager.clone(),
            identity: identity.clone(),
            origin: origin.clone(),
            clock: clock.clone(),
            kinds: Kinds::new(options.kinds.clone().unwrap_or_default()),
            lanes: Lanes::new(Arc::clone(&index)),
            index,
            leadership,
            recorder: recorder.clone(),
            unwritten: Unwritten::default(),
            term: Term {
                rules,
                since: clock.now().monotonic,
                alone: options.lease.is_some(),
                notice_loss_after: options.notice_loss_after,
            },
            options: options.clone(),
            tasks: TaskTracker::new(),
            shutdown: term,
            broken: broken.clone(),
        })
    };
    let lead = async {
        match options.lease.clone() {
            None => work(Leadership::default(), stop.clone()).await,
            Some(lease) => {
                let wall_clock = Arc::clone(&options.wall_clock);
                Candidate::new(manager.clone(), lease, wall_clock).lead(stop.clone(), work).await;
            }
        }
    };
    let stop_if_broken = broken.cancelled().then(|()| {
        stop.cancel();
        std::future::pending()
    });
    tokio::select! { biased;
        () = lead => {}
        () = write_events => {}
        () = stop_if_broken => {}
    }
    tracing::info!("dispatcher stopped");
    if broken.is_cancelled() { Err(RunError::Broken) } else { Ok(()) }
}

/// One term of leadership: everything that is known is found out anew at its start.
async fn work(shared: Shared) {
    let shared = Arc::new(shared);
    shared.options.vitals.lead(&shared);
    if let Some(namespace) = shared.options.canary.clone() {
        shared.index.heed_canary(Some(Halt::Undecided));
        spawn(&shared, canary::keep(Arc::clone(&shared), namespace));
    }
    lanes::start_manager_lane(&shared);
    spawn(&shared, workers::follow_workers(Arc::clone(&shared)));
    spawn(&shared, policies::follow_policies(Arc::clone(&shared)));
    spawn(&shared, policies::follow_namespaces(Arc::clone(&shared)));
    spawn(&shared, report::keep_counts(Arc::clone(&shared)));
    spawn(&shared, follow_workloads(Arc::clone(&shared)));
    if shared.options.kinds.is_some() {
        spawn(&shared, kinds::follow_kinds(Arc::clone(&shared)));
        spawn(&shared, kinds::follow_users_kinds(Arc::clone(&shared)));
    }
    shared.shutdown.cancelled().await;
    shared.tasks.close();
    shared.tasks.wait().await;
    shared.options.vitals.stand_by();
}

/// Spawns a part of the dispatcher that ends with it, and it with the part, should that panic.
pub(crate) fn spawn(shared: &Arc<Shared>, part: impl Future<Output = ()> + Send + 'static) {
    let (shutdown, broken) = (shared.shutdown.clone(), shared.broken.clone());
    shared.tasks.spawn(async move {
        tokio::select! { biased;
            () = shutdown.cancelled() => {}
            ended = AssertUnwindSafe(part).catch_unwind() => if ended.is_err() {
                broken.cancel();
            }
        }
    });
}

/// Spawns a part of the dispatcher that ends with a worker's connection.
pub(crate) fn spawn_while(
    shared: &Arc<Shared>,
    connection: &CancellationToken,
    part: impl Future<Output = ()> + Send + 'static,
) {
    let connection = connection.clone();
    spawn(shared, async move {
        tokio::select! { biased;
            () = connection.cancelled() => {}
            () = part => {}
        }
    });
}

async fn ask_manager(manager: &Client) -> Result<(String, Rules), RunError> {
    let identity = link::identity_of(manager).await.map_err(|source| RunError::Manager { what: "identity", source })?;
    let version: ServerVersion = kubeio::get(manager, "/version", READ_DEADLINE)
        .await
        .map_err(|source| RunError::Manager { what: "version", source })?;
    Ok((identity, version.rules()))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerVersion {
    pub(crate) git_version: String,
}

impl ServerVersion {
    /// What cannot be read is taken as the newest.
    fn rules(&self) -> Rules {
        let [major, minor, patch] = self.numbers();
        major.zip(minor).map_or_else(Rules::newest, |(major, minor)| Rules::for_server(major, minor, patch))
    }

    pub(crate) fn minor(&self) -> Option<u32> {
        self.numbers()[1]
    }

    /// Major, minor and patch of `v1.35.8-something`.
    fn numbers(&self) -> [Option<u32>; 3] {
        let mut numbers = self.git_version.trim_start_matches('v').split(|c: char| !c.is_ascii_digit());
        [(); 3].map(|()| numbers.next().and_then(|number| number.parse().ok()))
    }
}

async fn follow_workloads(shared: Arc<Shared>) {
    let jobs = Collection::new("/apis/batch/v1/jobs", |w: &Kept<Workload>| &w.resource_version)
        .streamed(shared.options.streamed_lists)
        .seed(shared.options.seed);
    let mut events = std::pin::pin!(kubeio::watch(shared.manager.clone(), jobs));
    while let Some(event) = events.next().await {
        match event {
            Event::Reset(workloads) => {
                let workloads = workloads.into_iter().map(|workload| shared.seen(workload)).collect();
                shared.lanes.plan_all(shared.index.reset_workloads(&KindRef::Job, workloads));
            }
            Event::Applied(workload) => {
                let workload = shared.seen(workload);
                shared.metrics().seen(&workload);
                shared.lanes.take_up(workload);
            }
            Event::Deleted(workload) => shared.lanes.plan_first(shared.index.delete_workload(&workload.uid)),
            Event::Interrupted(error) => {
                tracing::warn!(%error, "the management cluster cannot be watched; trying again");
            }
            Event::Resumed => {}
        }
    }
}
