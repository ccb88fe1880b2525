//! Of several Job controllers for the same Jobs one works.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::{Method, Request};
use jobferry_cluster::{Clock, JobOptions, Lease, run_jobs, run_scheduler};
use kube::{Client, client::Body};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;

use crate::world::World;

/// A Job controller that holds a lease while it works, and how often it wrote anything but that lease.
struct Contender {
    writes: Arc<AtomicUsize>,
    shutdown: CancellationToken,
    running: JoinHandle<()>,
}

impl Contender {
    fn start(world: &World, identity: &str, seed: u64) -> Self {
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&writes);
        let count = move |request: Request<Body>| {
            if request.method() != Method::GET && !request.uri().path().contains("/leases") {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            request
        };
        let service = ServiceBuilder::new().map_request(count).service(world.server.service());
        let lease =
            Lease { namespace: "kube-system".into(), name: "job-controller".into(), identity: identity.to_owned() };
        let options = JobOptions { lease: Some(lease), ..JobOptions::standard(Clock::clone(&world.clock), seed) };
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(run_jobs(Client::new(service, "default"), options, shutdown.clone()));
        Self { writes, shutdown, running }
    }

    fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }
}

/// A world with two contenders, of which the first leads, and a Job that it has run.
async fn two_contenders() -> (World, Contender, Contender) {
    let world = World::start_without_controllers().await;
    let scheduler = run_scheduler(world.client.clone(), Clock::clone(&world.clock), CancellationToken::new());
    tokio::spawn(scheduler);
    let first = Contender::start(&world, "first", 1);
    world.settle().await;
    let second = Contender::start(&world, "second", 2);
    world.create_job("one", json!({"completions": 3, "parallelism": 2}), 20, 0).await;
    world.job_with("one", "Complete").await;
    assert_eq!(world.pods().await.len(), 3);
    assert!(first.writes() > 0);
    assert_eq!(second.writes(), 0, "it stands by");
    (world, first, second)
}

/// Runs another Job; returns how many seconds that took.
async fn seconds_for_another_job(world: &World) -> u64 {
    let begun = world.elapsed();
    world.create_job("two", json!({}), 1, 0).await;
    world.job_with("two", "Complete").await;
    world.elapsed() - begun
}

#[tokio::test(start_paused = true)]
async fn another_job_controller_takes_over_when_the_lease_of_a_dead_one_has_run_out() {
    let (world, first, second) = two_contenders().await;
    first.running.abort();
    let written = first.writes();
    let took = seconds_for_another_job(&world).await;
    assert!((12..20).contains(&took), "the rest of 15 seconds, and at most two for the next look; not {took}");
    assert_eq!(first.writes(), written);
    assert!(second.writes() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_job_controller_that_stops_gives_its_lease_back() {
    let (world, first, second) = two_contenders().await;
    first.shutdown.cancel();
    let took = seconds_for_another_job(&world).await;
    assert!(took < 5, "nobody waits for the lease to run out; not {took}");
    assert!(second.writes() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_job_is_taken_over_in_the_middle_and_no_pod_runs_twice() {
    let (world, first, second) = two_contenders().await;
    world.create_job("long", json!({"completions": 4, "parallelism": 2}), 20, 0).await;
    world.eventually(async || (world.pods().await.len() == 5).then_some(())).await;
    first.running.abort();
    let job = world.job_with("long", "Complete").await;
    assert_eq!((&job["status"]["succeeded"], &job["status"]["failed"]), (&json!(4), &json!(null)));
    assert_eq!(world.pods().await.len(), 3 + 4);
    assert!(second.writes() > 0);
}
