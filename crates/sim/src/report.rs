//! What many runs came to, for people and for machines.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use crate::run::Outcome;

/// The sum of many runs.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    /// Runs.
    pub seeds: u64,
    /// The first seed.
    pub first_seed: u64,
    /// Workloads that were submitted.
    pub jobs: u64,
    /// How often each kind of trouble happened.
    pub faults: BTreeMap<&'static str, u64>,
    /// Requests and other events that were logged.
    pub events: u64,
    /// How long it was for those inside.
    pub simulated_hours: f64,
    /// How long it took.
    pub seconds: f64,
    /// Workloads for each minute that it took.
    pub jobs_per_minute: f64,
    /// How often a promise was broken.
    pub violations: u64,
    /// Each of them.
    pub findings: Vec<Finding>,
}

/// A broken promise.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The seed that leads there.
    pub seed: u64,
    /// The promise.
    pub promise: &'static str,
    /// What was seen.
    pub what: String,
    /// The last events that led there.
    pub events: Vec<String>,
    /// The command that shows it again.
    pub replay: String,
}

impl Summary {
    /// Adds a run.
    pub fn add(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.jobs += outcome.jobs;
        self.events += outcome.digest.0;
        self.simulated_hours += outcome.simulated.as_secs_f64() / 3600.0;
        for (fault, count) in outcome.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        for (violation, events) in outcome.violations {
            let replay = format!("cargo run --release -p jobferry-sim -- --replay {}{}", outcome.seed, outcome.flags);
            let (promise, what) = (violation.promise, violation.what);
            self.violations += 1;
            self.findings.push(Finding { seed: outcome.seed, promise, what, events, replay });
        }
    }

    /// Notes how long all runs took.
    pub fn took(&mut self, time: Duration) {
        self.seconds = time.as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "a rate for people; there are far fewer than 2^52 Jobs")]
        let jobs = self.jobs as f64;
        self.jobs_per_minute = jobs / self.seconds.max(0.001) * 60.0;
    }

    /// A table for people, the findings first.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let _ = writeln!(text, "seed {} breaks {}: {}", finding.seed, finding.promise, finding.what);
            for event in &finding.events {
                let _ = writeln!(text, "    {event}");
            }
            let _ = writeln!(text, "  {}\n", finding.replay);
        }
        let _ = writeln!(text, "seeds               {} from {}", self.seeds, self.first_seed);
        let _ = writeln!(text, "jobs                {}", self.jobs);
        let _ = writeln!(text, "events              {}", self.events);
        let _ = writeln!(text, "simulated hours     {:.1}", self.simulated_hours);
        let _ = writeln!(text, "took                {:.1} s, {:.0} jobs a minute", self.seconds, self.jobs_per_minute);
        for (fault, count) in &self.faults {
            let _ = writeln!(text, "  {fault:<18}{count}");
        }
        let _ = writeln!(text, "violations          {}", self.violations);
        text
    }
}
