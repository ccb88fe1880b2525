//! The result, for people and for programs.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

use crate::load::Figures;

/// All rounds.
pub(crate) struct Report {
    pub(crate) jobs: usize,
    pub(crate) embedded: Vec<Figures>,
    pub(crate) kubernetes: Vec<Figures>,
}

/// The round in the middle: half of the rounds were faster.
struct Median {
    jobs_per_second: f64,
    p50: Duration,
    p99: Duration,
}

impl Median {
    fn of(rounds: &[Figures]) -> Option<Self> {
        let mut rounds: Vec<&Figures> = rounds.iter().collect();
        rounds.sort_by(|one, other| one.jobs_per_second.total_cmp(&other.jobs_per_second));
        let middle = rounds.get(rounds.len() / 2)?;
        let quantile = |percent: usize| middle.took[(middle.took.len() * percent / 100).min(middle.took.len() - 1)];
        Some(Self { jobs_per_second: middle.jobs_per_second, p50: quantile(50), p99: quantile(99) })
    }

    fn json(&self, rounds: &[Figures]) -> Value {
        let all: Vec<f64> = rounds.iter().map(|round| round.jobs_per_second).collect();
        let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
        json!({
            "jobsPerSecond": self.jobs_per_second, "rounds": all,
            "createToCompleteMilliseconds": {"p50": milliseconds(self.p50), "p99": milliseconds(self.p99)},
        })
    }
}

impl Report {
    fn ratio(&self) -> Option<f64> {
        Some(Median::of(&self.embedded)?.jobs_per_second / Median::of(&self.kubernetes)?.jobs_per_second)
    }

    pub(crate) fn json(&self) -> Value {
        let of = |rounds: &[Figures]| Median::of(rounds).map(|median| median.json(rounds));
        json!({
            "jobs": self.jobs, "embedded": of(&self.embedded), "kubernetes": of(&self.kubernetes),
            "ratio": self.ratio(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_each = format!("{} one-pod Jobs of `true`", self.jobs);
        writeln!(f, "{of_each:<32} {:>8}   create -> Complete p50 / p99", "Jobs/s")?;
        for (name, rounds) in [("embedded", &self.embedded), ("kubernetes", &self.kubernetes)] {
            if let Some(median) = Median::of(rounds) {
                let times = format!("{:.2} s / {:.2} s", median.p50.as_secs_f64(), median.p99.as_secs_f64());
                writeln!(f, "{name:<32} {:>8.1}   {times:>28}", median.jobs_per_second)?;
            }
        }
        match self.ratio() {
            Some(ratio) => write!(f, "{:<32} {ratio:>8.2}", "embedded : kubernetes"),
            None => Ok(()),
        }
    }
}
