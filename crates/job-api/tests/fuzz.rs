//! Nothing panics, whatever the JSON: a deterministic random driver.
//!
//! A normal run is short. `JOB_API_FUZZ_EXECUTIONS=1000000 cargo test --release -p job-api --test fuzz -- --nocapture`
//! makes the million and prints the figures.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and prints figures")]

#[path = "support/random_json.rs"]
mod random_json;

use job_api::{IndexSet, Rules, SpecView, create, cron_job, defaults, managed_by, status, update};
use k8s_openapi::api::batch::v1::{CronJob, Job, JobStatus};
use random_json::{Random, disturb, wild};
use serde_json::{Value, json};

const EXECUTIONS_VARIABLE: &str = "JOB_API_FUZZ_EXECUTIONS";
const EXECUTIONS: u64 = 20_000;

/// A Job that has something of everything.
const FULL_JOB: &str = include_str!("support/full_job.json");

/// How far the driver got.
#[derive(Default)]
struct Reached {
    /// JSON that could be read as a Job.
    readable: u64,
    /// Status writes that a server would accept.
    legal: u64,
}

/// Calls everything that takes input.
fn exercise(job: &Value, status: &Value, text: &str, reached: &mut Reached) {
    let rules = [Rules::for_server(1, 32, Some(0)), Rules::for_server(1, 36, Some(0)), Rules::newest()];
    let _ = managed_by::validate(text);
    if let Ok(set) = IndexSet::parse(text, 10) {
        assert_eq!(IndexSet::parse(&set.to_string(), 10), Ok(set));
    }
    if let Ok(mut cron_job) = serde_json::from_value::<CronJob>(json!({"spec": {"jobTemplate": job}})) {
        defaults::apply_to_cron_job(&mut cron_job);
        let _ = cron_job::validate(&cron_job, rules[2]);
    }
    let (Ok(job), Ok(status)) =
        (serde_json::from_value::<Job>(job.clone()), serde_json::from_value::<JobStatus>(status.clone()))
    else {
        return;
    };
    reached.readable += 1;
    let mut prepared = job.clone();
    create::prepare(&mut prepared);
    let mut again = prepared.clone();
    defaults::apply(&mut again);
    defaults::apply(&mut prepared);
    assert_eq!(prepared, again, "defaults are idempotent");
    let mut edited = job.clone();
    defaults::apply(&mut edited);
    update::prepare(&mut edited, &prepared);
    let view = job.spec.as_ref().map(SpecView::of).unwrap_or_default();
    let old = job.status.unwrap_or_default();
    for rules in rules {
        let _ = create::validate(&prepared, rules).to_status("Job", "x");
        let _ = update::validate(&edited, &prepared, rules).to_string();
        let errors = status::validate(&view, &old, &status, rules);
        if errors.is_empty() {
            reached.legal += 1;
            let again = status::validate(&view, &status, &status, rules);
            assert!(again.is_empty(), "legal once, illegal when written again: {again}");
        }
    }
}

#[test]
fn no_json_makes_it_panic() {
    let wanted = std::env::var(EXECUTIONS_VARIABLE).ok().and_then(|text| text.parse().ok());
    let executions: u64 = wanted.unwrap_or(EXECUTIONS);
    let full_job: Value = serde_json::from_str(FULL_JOB).unwrap();
    let mut reached = Reached::default();
    for seed in 0..executions {
        let random = &mut Random::new(seed);
        let (mut job, mut status) = (full_job.clone(), full_job["status"].clone());
        if random.below(10) == 0 {
            (job, status) = (wild(random, 6), wild(random, 4));
        }
        for _ in 0..random.below(6) {
            disturb(random, &mut job);
            disturb(random, &mut status);
        }
        let text = wild(random, 0);
        exercise(&job, &status, text.as_str().unwrap_or("0-2,5"), &mut reached);
    }
    let Reached { readable, legal } = reached;
    println!(
        "{executions} executions, {readable} with JSON that could be read as a Job, {legal} legal status writes, no panic"
    );
    assert!(readable > executions / 4 && legal > executions / 50, "the driver must get past decoder and rules");
}
