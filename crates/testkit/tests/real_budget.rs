//! What a Job costs the API servers, counted in their own audit logs.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail by panicking, and shows what it counted")]

use jobferry_api::finalizers::PLACEMENTS;
use jobferry_testkit::{
    AuditMark, AuditRecord, RealCluster, RealFleet, User,
    fleet::Fleet,
    scenarios::{JobManifest, has_active, is_complete},
};
use serde_json::Value;

const WORKERS: [&str; 5] = ["worker-1", "worker-2", "worker-3", "worker-4", "worker-5"];
/// The Job that does whatever is done once.
const FIRST: &str = "first";
const JOBS: usize = 6;

/// What was written and read about the Jobs of one namespace.
struct Costs {
    /// Writes of the dispatcher to the manager.
    manager: Vec<AuditRecord>,
    /// Writes of the dispatcher to all workers.
    workers: Vec<AuditRecord>,
    /// How often the workers' own controllers changed the status of a mirror.
    changes: usize,
    /// What the dispatcher read, on any cluster, besides its lease.
    reads: Vec<AuditRecord>,
}

fn is_write(record: &AuditRecord) -> bool {
    !matches!(record.verb.as_str(), "get" | "list" | "watch")
}

fn costs(fleet: &RealFleet, marks: &[AuditMark], namespace: &str) -> Costs {
    let here = |cluster: &RealCluster, mark, user| {
        let records = cluster.audit().records_of(user, mark).unwrap();
        // The last write for the first Job may be noted in the log after its end was seen.
        let counts = |record: &AuditRecord| record.namespace == namespace && record.name != FIRST;
        records.into_iter().filter(counts).collect::<Vec<_>>()
    };
    let about_jobs = |record: &AuditRecord| record.resource.starts_with("jobs") && is_write(record);
    let all = || fleet.clusters().iter().zip(marks);
    let mut manager = here(fleet.manager(), marks[0], User::Dispatcher);
    manager.retain(about_jobs);
    let mut workers: Vec<_> = all().skip(1).flat_map(|(c, mark)| here(c, *mark, User::Dispatcher)).collect();
    workers.retain(about_jobs);
    let controllers = all().skip(1).flat_map(|(c, mark)| here(c, *mark, User::ControllerManager));
    let changes = controllers.filter(|record| record.resource == "jobs/status").count();
    let reads = all().flat_map(|(cluster, mark)| cluster.audit().records_of(User::Dispatcher, *mark).unwrap());
    let reads = reads.filter(|record| matches!(record.verb.as_str(), "get" | "list") && record.resource != "leases");
    Costs { manager, workers, changes, reads: reads.collect() }
}

/// The writes of a whole life: one placement and at most one copy for each change of the mirror; one create. Then one
/// delete. The number of workers makes no difference.
async fn budget_holds(real: &RealFleet, fleet: &Fleet, name: &str) {
    let namespace = fleet.namespace(name).await.unwrap();
    let manager = namespace.manager();
    // Whatever is done once, for a first Job, is done.
    manager.create(JobManifest::delegated(FIRST).manifest()).await.unwrap();
    manager.until(FIRST, "complete", is_complete).await.unwrap();

    let marks: Vec<_> = real.clusters().iter().map(|cluster| cluster.audit().mark().unwrap()).collect();
    for number in 0..JOBS {
        let job = format!("job-{number}");
        manager.create(JobManifest::delegated(&job).runs_for("1").manifest()).await.unwrap();
        manager.until(&job, "complete", is_complete).await.unwrap();
    }
    let spent = costs(real, &marks, name);
    println!(
        "{name}: {JOBS} Jobs: manager {} writes ({} placements, {} changes of mirrors), workers {} writes, {} reads",
        spent.manager.len(),
        JOBS,
        spent.changes,
        spent.workers.len(),
        spent.reads.len(),
    );
    assert!(spent.manager.iter().all(|r| (r.verb.as_str(), r.resource.as_str()) == ("patch", "jobs/status")));
    assert!(spent.manager.len() <= JOBS + spent.changes, "manager: 1 + S a Job: {:#?}", spent.manager);
    assert!(spent.workers.iter().all(|r| (r.verb.as_str(), r.resource.as_str()) == ("create", "jobs")));
    assert_eq!(spent.workers.len(), JOBS, "worker: 1 a Job");
    assert_eq!(spent.reads, [], "everything comes from watches");

    manager.create(JobManifest::delegated("deleted").runs_for_ever().manifest()).await.unwrap();
    manager.until("deleted", "active", has_active(1)).await.unwrap();
    let marks: Vec<_> = real.clusters().iter().map(|cluster| cluster.audit().mark().unwrap()).collect();
    manager.delete("deleted").await.unwrap();
    for worker in namespace.workers() {
        worker.until_gone("deleted").await.unwrap();
    }
    let spent = costs(real, &marks, name);
    assert_eq!(spent.workers.len(), 1, "worker: 1 at deletion");
    assert_eq!(spent.workers[0].verb, "delete");
    // The proof that the Job is gone: itself, the manager's identity, the manager's version.
    assert!(spent.reads.len() <= 3, "{:?}", spent.reads);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn a_job_costs_the_same_with_five_workers_and_with_one() {
    let names: Vec<&str> = std::iter::once("manager").chain(WORKERS).collect();
    let real = RealFleet::start(&names).await.unwrap();
    let fleet = real.dispatched().await.unwrap();
    for worker in WORKERS {
        fleet.until_connected(worker, true).await.unwrap();
        // It reads the Worker to put it on, again if its status was written meanwhile.
        let is_held = |worker: &Value| worker["metadata"]["finalizers"].to_string().contains(PLACEMENTS);
        fleet.until_worker(worker, "held", |worker| worker.is_some_and(is_held)).await.unwrap();
    }
    budget_holds(&real, &fleet, "five-workers").await;
    for worker in &WORKERS[1..] {
        fleet.delete_worker(worker).await.unwrap();
        fleet.until_worker(worker, "gone", |worker| worker.is_none()).await.unwrap();
    }
    budget_holds(&real, &fleet, "one-worker").await;
    fleet.stop_dispatchers().await;
}
