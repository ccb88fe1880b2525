//! `cargo bench -p jobferry-core`: what the dispatcher computes for every event, without anybody to talk to.
//!
//! `hot_paths NAME COUNT` walks one path so often and prints nothing: for `cargo xtask bench hot-paths`, which counts the
//! instructions and allocations of it.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, prints, and may fail loudly"
)]

use std::{
    collections::BTreeMap,
    hint::black_box,
    time::{Duration, Instant},
};

use job_api::Rules;
use jobferry_core::{
    knowledge::{Knowledge, Memory, Sighting, Surroundings},
    mirror::mirror_of,
    placement::{Choice, Link, WorkerView, choose},
    plan::plan,
    policy::Policies,
    project::project,
    record::{Placement, Record},
    time::{LOSS_NOTICED, Now},
    workload::{Mirror, Workload},
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

const MEASURE_FOR: Duration = Duration::from_millis(300);
const WORKERS: usize = 100;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let paths = paths();
    match arguments.as_slice() {
        [name, count] => {
            let (_, walk) = paths.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("no path {name}"));
            for _ in 0..count.parse().unwrap() {
                walk();
            }
        }
        _ => {
            for (name, walk) in &paths {
                println!("{name:<28} {:>10.3} µs", microseconds(walk));
            }
        }
    }
}

fn microseconds(walk: &dyn Fn()) -> f64 {
    walk();
    let (start, mut walks) = (Instant::now(), 0_u32);
    while start.elapsed() < MEASURE_FOR {
        for _ in 0..16 {
            walk();
        }
        walks += 16;
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(walks)
}

/// A name without spaces, and one walk.
type Path = (&'static str, Box<dyn Fn()>);

fn paths() -> Vec<Path> {
    let (job, placed) = (stored_job(), placement());
    let text = with_record(job.clone(), &placed).to_string();
    let mirror_text = running_mirror(&job, &placed).to_string();
    let workload: Workload = serde_json::from_str(&text).unwrap();
    let unplaced: Workload = serde_json::from_value(job.clone()).unwrap();
    let mirror: Mirror = serde_json::from_str(&mirror_text).unwrap();
    assert!(matches!(workload.record, Record::Placed(_)), "the record is read");
    let (policies, workers) = (Policies::default(), workers());
    let now = Now { wall: Timestamp::from_second(1_800_000_100).unwrap(), monotonic: Duration::from_secs(100) };
    let mirrors = [(&placed.worker, Sighting::Present(mirror.clone().into()))].into_iter().collect();
    let known = Knowledge { workload: Some(workload.clone().into()), mirrors, memory: Memory::default() };
    let (some_workers, some_policies) = (workers.clone(), policies.clone());
    let planned = move || {
        let around = Surroundings {
            workers: &some_workers,
            policies: &some_policies,
            halted: None,
            rules: Rules::newest(),
            leading_since: Duration::ZERO,
            leads_alone: true,
            notice_loss_after: LOSS_NOTICED,
            may_delete_orphan: true,
            now,
        };
        plan(black_box(&known), around)
    };
    assert_eq!(planned().len(), 1, "the mirror's status is to be copied");
    vec![
        ("decode-job", Box::new(move || drop(black_box(serde_json::from_str::<Workload>(black_box(&text)))))),
        ("decode-mirror", Box::new(move || drop(black_box(serde_json::from_str::<Mirror>(black_box(&mirror_text)))))),
        ("project", {
            let (spec, stored, seen) = (workload.spec, workload.status, mirror.status);
            let carried = placed.carried;
            Box::new(move || {
                let next = project(&spec, black_box(&stored), black_box(&seen), carried, Rules::newest(), now.wall);
                assert!(black_box(next).is_ok_and(|next| next.is_some()));
            })
        }),
        ("plan-copy", Box::new(move || drop(black_box(planned())))),
        ("place-over-100-workers", {
            Box::new(move || {
                let refusals = BTreeMap::new();
                let (workers, policies) = (&workers, &policies);
                let choice = Choice { workload: &unplaced, workers, policies, refusals: &refusals, now: now.monotonic };
                assert!(black_box(choose(black_box(choice))).is_ok_and(|decision| decision.chosen.is_some()));
            })
        }),
        ("make-mirror", Box::new(move || drop(black_box(mirror_of(black_box(&job), &placed, "origin"))))),
    ]
}

fn placement() -> Placement {
    Placement::new("worker-007".into(), "identity-7".into(), 1, Timestamp::from_second(1_800_000_000).unwrap())
}

fn workers() -> BTreeMap<String, WorkerView> {
    let worker = |number: usize| {
        let link = Link::Live { identity: format!("identity-{number}") };
        let labels = BTreeMap::from([("region".to_owned(), format!("r{}", number % 5))]);
        let unfinished = u32::try_from(number * 37 % 100).unwrap();
        (format!("worker-{number:03}"), WorkerView { labels, link, unfinished, ..WorkerView::default() })
    };
    (0..WORKERS).map(worker).collect()
}

/// A Job as an API server stores it, about as long as people's are.
fn stored_job() -> Value {
    let container = json!({
        "name": "main", "image": "registry.example/team/train:1.0", "command": ["train", "--epochs", "10"],
        "env": [{"name": "DATA", "value": "/data/train"}, {"name": "SEED", "value": "7"}],
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}},
        "imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    });
    let uid = "5f0c1b9e-7f3c-4f0e-9a55-0d7f4d1f2a10";
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": "train-1", "namespace": "ml", "uid": uid, "resourceVersion": "123456", "generation": 1,
            "creationTimestamp": "2027-01-15T08:00:00Z", "labels": {"team": "ml", "app": "train"},
            "annotations": {"note": "a run of the night"},
            "managedFields": [{"manager": "kubectl", "operation": "Update", "apiVersion": "batch/v1", "fieldsType":
                "FieldsV1", "fieldsV1": {"f:spec": {"f:backoffLimit": {}, "f:completions": {}, "f:template": {"f:spec":
                {"f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:image": {}, "f:command": {}}}}}}}}],
        },
        "spec": {
            "managedBy": "jobferry.dev/dispatcher", "parallelism": 1, "completions": 1, "backoffLimit": 3,
            "completionMode": "NonIndexed", "suspend": false, "podReplacementPolicy": "Failed",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
            "template": {
                "metadata": {"labels": {
                    "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "train-1",
                    "controller-uid": uid, "job-name": "train-1",
                }},
                "spec": {
                    "restartPolicy": "Never", "containers": [container], "dnsPolicy": "ClusterFirst",
                    "terminationGracePeriodSeconds": 30, "securityContext": {}, "schedulerName": "default-scheduler",
                },
            },
        },
        "status": {},
    })
}

fn with_record(mut job: Value, placement: &Placement) -> Value {
    job["status"]["conditions"] = json!([placement.condition().unwrap()]);
    job
}

fn running_mirror(job: &Value, placement: &Placement) -> Value {
    let mut mirror = mirror_of(job, placement, "origin").unwrap();
    mirror["metadata"]["uid"] = "mirror-1".into();
    mirror["metadata"]["resourceVersion"] = "777".into();
    mirror["status"] = json!({"active": 1, "ready": 0, "startTime": "2027-01-15T08:00:01Z"});
    mirror
}
