//! The ordinary clients that turn a bare API server into a cluster.
//!
//! ```text
//!                 API server (ours, or a real kube-apiserver)
//!        ^              ^               ^
//!     Jobs, scheduler, garbage collector, TTL, namespaces: each watches, decides, writes; none knows another
//! ```
//!
//! [`run`] starts all of them; each can be run alone, for example [`run_jobs`] beside a real control plane for Jobs that
//! were delegated with `spec.managedBy`.

mod cache;
mod clock;
mod discovery;
mod events;
mod gc;
mod jobs;
mod namespaces;
mod random;
mod scheduler;
mod ttl;

use kube::Client;
use tokio_util::sync::CancellationToken;

pub use clock::{Clock, system_clock};
pub use gc::run_garbage_collector;
pub use jobferry_kubeio::Lease;
pub use jobs::{JobOptions, run_jobs};
pub use namespaces::run_namespaces;
pub use scheduler::run_scheduler;
pub use ttl::run_ttl;

/// What a cluster's controllers need to know.
#[derive(Clone)]
pub struct Options {
    /// Which Jobs are run here.
    pub jobs: JobOptions,
    /// The time.
    pub clock: Clock,
}

impl Options {
    /// A cluster that runs its own Jobs: those without `spec.managedBy`, or with the reserved value.
    pub fn new(clock: Clock, seed: u64) -> Self {
        Self { jobs: JobOptions::standard(Clock::clone(&clock), seed), clock }
    }
}

/// Runs all controllers of a cluster until `shutdown`.
pub async fn run(client: Client, options: Options, shutdown: CancellationToken) {
    let Options { jobs, clock } = options;
    tokio::join!(
        run_jobs(client.clone(), jobs, shutdown.clone()),
        run_scheduler(client.clone(), Clock::clone(&clock), shutdown.clone()),
        run_garbage_collector(client.clone(), shutdown.clone()),
        run_ttl(client.clone(), clock, shutdown.clone()),
        run_namespaces(client, shutdown),
    );
}
