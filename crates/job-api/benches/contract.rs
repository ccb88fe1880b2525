//! `cargo bench -p job-api`: what a verdict costs, and how it grows with the number of indexes.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, prints, and may fail loudly"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use job_api::{IndexSet, Rules, SpecView, conditions, create, defaults, status};
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

/// Long enough to drown a context switch.
const MEASURE_FOR: Duration = Duration::from_millis(300);

fn microseconds(mut work: impl FnMut()) -> f64 {
    work();
    let start = Instant::now();
    let mut runs = 0_u32;
    while start.elapsed() < MEASURE_FOR {
        for _ in 0..16 {
            work();
        }
        runs += 16;
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(runs)
}

fn report(what: &str, microseconds: f64) {
    println!("{what:<58} {microseconds:>10.3} µs");
}

fn verdict_microseconds(spec: &SpecView, old: &JobStatus, new: &JobStatus, rules: Rules) -> f64 {
    microseconds(|| {
        black_box(status::validate(black_box(spec), black_box(old), black_box(new), rules));
    })
}

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

fn condition(type_: &str) -> k8s_openapi::api::batch::v1::JobCondition {
    conditions::new(type_, true, "CompletionsReached", "Reached expected number of succeeded pods", at(100).0)
}

fn main() {
    let rules = Rules::for_server(1, 35, None);
    let spec = SpecView::of(&JobSpec { completions: Some(8), parallelism: Some(4), ..JobSpec::default() });
    let running = JobStatus { active: Some(3), ready: Some(2), start_time: Some(at(10)), ..JobStatus::default() };
    let next = JobStatus { active: Some(2), succeeded: Some(1), ..running.clone() };
    let done = JobStatus {
        succeeded: Some(8),
        start_time: Some(at(10)),
        completion_time: Some(at(100)),
        conditions: Some(vec![condition(conditions::SUCCESS_CRITERIA_MET), condition(conditions::COMPLETE)]),
        ..JobStatus::default()
    };
    println!("status::validate");
    for (what, old, new) in [("a counter moves", &running, &next), ("the Job completes", &running, &done)] {
        assert!(status::validate(&spec, old, new, rules).is_empty());
        report(&format!("  {what}"), verdict_microseconds(&spec, old, new, rules));
    }
    report("  refused, with its errors", verdict_microseconds(&spec, &done, &running, rules));

    println!("status::validate of an Indexed Job, every second index done, all others failed");
    for count in [1_000_u32, 10_000, 100_000] {
        indexed(count, rules);
    }

    println!("create");
    let job: Job = serde_json::from_str(
        r#"{"metadata": {"name": "train", "namespace": "ml", "uid": "7a0f"}, "spec": {"template": {"spec": {
            "containers": [{"name": "main", "image": "app:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}],
            "restartPolicy": "Never"}}}}"#,
    )
    .unwrap();
    let mut prepared = job.clone();
    create::prepare(&mut prepared);
    report("  create::validate", microseconds(|| drop(black_box(create::validate(black_box(&prepared), rules)))));
    let cost = microseconds(|| {
        let mut job = job.clone();
        defaults::apply(&mut job);
        drop(black_box(job));
    });
    report("  defaults::apply, with a copy of the Job", cost);
}

fn indexed(count: u32, rules: Rules) {
    let spec = SpecView {
        completions: i32::try_from(count).ok(),
        parallelism: Some(1),
        indexed: true,
        has_backoff_limit_per_index: true,
        ..SpecView::default()
    };
    let even: IndexSet = (0..count).step_by(2).collect();
    let odd: IndexSet = (1..count).step_by(2).collect();
    let old = JobStatus { start_time: Some(at(10)), ..JobStatus::default() };
    let new =
        JobStatus { completed_indexes: Some(even.to_string()), failed_indexes: Some(odd.to_string()), ..old.clone() };
    assert!(status::validate(&spec, &old, &new, rules).is_empty());
    let cost = verdict_microseconds(&spec, &old, &new, rules);
    report(&format!("  {count} indexes"), cost);
    report(&format!("  {count} indexes, per index"), cost / f64::from(count));
    let text = even.to_string();
    let completions = i32::try_from(count).unwrap();
    let cost = microseconds(|| drop(black_box(IndexSet::parse(black_box(&text), completions))));
    report(&format!("  {} ranges, IndexSet::parse", even.ranges().len()), cost);
    report(
        &format!("  {} ranges, union and format", even.ranges().len()),
        microseconds(|| drop(black_box(even.union(&odd).to_string()))),
    );
}
