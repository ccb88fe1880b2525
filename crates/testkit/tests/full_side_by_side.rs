//! A real Kueue with MultiKueue, a dispatcher of another name and ours on one manager: each Job is touched by exactly one
//! of them, as the API servers' audit logs tell.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use jobferry_api::managed_by;
use jobferry_testkit::{
    AuditMark, AuditRecord, RealCluster, RealFleet, User,
    operator::{KUEUE, MULTIKUEUE_QUEUE, MultiKueue, QUEUE_LABEL},
    scenarios::{JobManifest, is_complete, is_suspended},
};
use serde_json::{Value, json};

const NAMESPACE: &str = "side-by-side";
/// The value of managedBy that the other dispatcher answers to.
const OTHER: &str = "example.com/other";
/// A queue of Kueue's, on every cluster, that holds Jobs back and sends them nowhere.
const QUOTA: &str = "quota";

/// Who wrote what of a Job: its status, or the rest of it.
type Writers = BTreeSet<(String, String)>;

/// What was written about Jobs on one cluster by others than the test, and what ran there.
struct Story {
    cluster: String,
    records: Vec<AuditRecord>,
}

impl Story {
    fn of(cluster: &RealCluster) -> Self {
        let mut records = cluster.audit().records_since(AuditMark::default()).unwrap();
        records.retain(|record| {
            let is_read = ["get", "list", "watch"].contains(&record.verb.as_str());
            !is_read && record.code < 300 && record.user != User::Admin.name()
        });
        Self { cluster: cluster.name().to_owned(), records }
    }

    fn writers(&self, job: &str) -> Writers {
        let about = |record: &&AuditRecord| {
            let is_job = ["jobs", "jobs/status"].contains(&record.resource.as_str());
            is_job && record.namespace == NAMESPACE && record.name == job
        };
        self.records.iter().filter(about).map(|record| (record.user.clone(), record.resource.clone())).collect()
    }

    /// The pods of a Job that its node had.
    fn pods(&self, job: &str) -> BTreeSet<&str> {
        let prefix = format!("{job}-");
        let about = |record: &&AuditRecord| {
            record.user == User::PodRunner.name() && record.namespace == NAMESPACE && record.name.starts_with(&prefix)
        };
        self.records.iter().filter(about).map(|record| record.name.as_str()).collect()
    }

    /// The users who wrote anything of these Workers.
    fn writers_of_workers(&self, prefix: &str) -> BTreeSet<&str> {
        let about = |record: &&AuditRecord| record.resource.starts_with("workers") && record.name.starts_with(prefix);
        self.records.iter().filter(about).map(|record| record.user.as_str()).collect()
    }
}

fn writers(all: &[(User, &str)]) -> Writers {
    all.iter().map(|(user, what)| (user.name().to_owned(), (*what).to_owned())).collect()
}

fn job(name: &str, managed_by: Option<&str>, queue: Option<&str>) -> Value {
    let mut job = JobManifest::new(name).manifest().clone();
    // Kueue's checks are about resources: what asks for none passes them all.
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "10m"}});
    if let Some(managed_by) = managed_by {
        job["spec"]["managedBy"] = managed_by.into();
    }
    if let Some(queue) = queue {
        job["metadata"]["labels"] = json!({QUEUE_LABEL: queue});
    }
    job
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
async fn each_job_is_touched_by_exactly_one() {
    let clusters = RealFleet::start(&["manager", "worker-1", "worker-2"]).await.unwrap();
    let fleet = clusters.undispatched().await.unwrap();
    let namespace = fleet.namespace(NAMESPACE).await.unwrap();
    let _kueue = MultiKueue::start(&KUEUE, clusters.manager(), clusters.workers(), NAMESPACE).await.unwrap();
    for cluster in clusters.clusters() {
        MultiKueue::add_queue(cluster, NAMESPACE, QUOTA).await.unwrap();
    }
    fleet.start_dispatcher().await;
    clusters.start_other_dispatcher(&fleet, OTHER).await.unwrap();

    let (ours, multikueue) = (Some(managed_by::DISPATCHER), Some(managed_by::MULTIKUEUE));
    let finishing = [
        job("builtin", None, None),
        job("ours", ours, None),
        job("other", Some(OTHER), None),
        job("queued", multikueue, Some(MULTIKUEUE_QUEUE)),
        // Kueue lets it go when there is room, and we take it where it runs.
        job("gated", ours, Some(QUOTA)),
    ];
    // Its queue is MultiKueue's, its managedBy ours: Kueue turns it away, so it stays suspended, and nobody runs it.
    let contradictory = job("contradictory", ours, Some(MULTIKUEUE_QUEUE));
    let manager = namespace.manager();
    for job in finishing.iter().chain([&contradictory]) {
        manager.create(job).await.unwrap();
    }
    for job in &finishing {
        manager.until(job["metadata"]["name"].as_str().unwrap(), "complete", is_complete).await.unwrap();
    }
    let is_turned_away = |workload: &Value| {
        workload["metadata"]["ownerReferences"][0]["name"] == "contradictory" && workload["spec"]["active"] == false
    };
    manager.until_any("kueue.x-k8s.io/v1beta2", "workloads", "turned away", is_turned_away).await.unwrap();
    manager.until("contradictory", "shown as suspended", is_suspended).await.unwrap();

    let stories: Vec<Story> = clusters.clusters().iter().map(Story::of).collect();
    let (on_manager, on_workers) = stories.split_first().unwrap();
    let status_by = |user| writers(&[(user, "jobs/status")]);
    let kueue = writers(&[(User::Kueue, "jobs"), (User::Kueue, "jobs/status")]);
    for (job, expected) in [
        ("builtin", status_by(User::ControllerManager)),
        ("ours", status_by(User::Dispatcher)),
        ("other", status_by(User::OtherDispatcher)),
        ("queued", kueue),
        ("gated", writers(&[(User::Kueue, "jobs"), (User::Dispatcher, "jobs/status")])),
    ] {
        assert_eq!(on_manager.writers(job), expected, "{job} on the manager");
    }
    let contradictory = on_manager.writers("contradictory");
    let most = writers(&[(User::Kueue, "jobs"), (User::Dispatcher, "jobs/status")]);
    let is_right = status_by(User::Dispatcher).is_subset(&contradictory) && contradictory.is_subset(&most);
    assert!(is_right, "the status is ours also where nobody runs it: {contradictory:?}");

    // Who made and changed what is on the workers, apart from the controllers that run it there.
    for (job, expected) in [
        ("builtin", vec![]),
        ("ours", vec![User::Dispatcher]),
        ("other", vec![User::OtherDispatcher]),
        ("queued", vec![User::Kueue]),
        ("gated", vec![User::Dispatcher, User::Kueue]),
        ("contradictory", vec![]),
    ] {
        let users = on_workers.iter().flat_map(|worker| worker.writers(job)).map(|(user, _)| user);
        let users: BTreeSet<String> = users.filter(|user| user != User::ControllerManager.name()).collect();
        let expected: BTreeSet<String> = expected.into_iter().map(|user| user.name().to_owned()).collect();
        assert_eq!(users, expected, "{job} on the workers");
    }

    // Each ran once, in one cluster.
    for job in ["builtin", "ours", "other", "queued", "gated", "contradictory"] {
        let ran: BTreeMap<&str, usize> = (stories.iter().map(|story| (story.cluster.as_str(), story.pods(job).len())))
            .filter(|(_, pods)| *pods > 0)
            .collect();
        let expected = usize::from(job != "contradictory");
        assert_eq!((ran.len(), ran.values().sum::<usize>()), (expected, expected), "{job} ran on {ran:?}");
        assert_eq!(ran.contains_key("manager"), job == "builtin", "{job} ran on {ran:?}");
    }

    assert_eq!(on_manager.writers_of_workers("worker-"), [User::Dispatcher.name()].into());
    assert_eq!(on_manager.writers_of_workers("other-"), [User::OtherDispatcher.name()].into());
}
