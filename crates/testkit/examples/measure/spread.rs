//! Many values of one figure.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

/// A figure of several rounds: half of them had less than the median.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        // Of an even number of values the mean of the two in the middle.
        let middle = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self { least, median: middle, most })
    }

    pub(crate) fn json(&self) -> Value {
        json!({"least": self.least, "median": self.median, "most": self.most})
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.2} ({:.2}-{:.2})", self.median, self.least, self.most))
    }
}

/// Times in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) worst: f64,
}

impl Quantiles {
    pub(crate) fn of(times: impl IntoIterator<Item = Duration>) -> Option<Self> {
        let mut times: Vec<Duration> = times.into_iter().collect();
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        let at = |percent: usize| times[(times.len() * percent / 100).min(last)].as_secs_f64() * 1000.0;
        Some(Self { p50: at(50), p99: at(99), worst: at(100) })
    }

    pub(crate) fn json(&self) -> Value {
        json!({"p50": self.p50, "p99": self.p99, "worst": self.worst})
    }
}

impl fmt::Display for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("p50 {:.1} p99 {:.1}", self.p50, self.p99))
    }
}
