//! Figures: medians, their spread, and how far ahead the embedded server is.

use std::fmt;

use jobferry_testkit::Durability;
use serde_json::{Value, json};

use crate::servers::{Maker, Server};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    Create,
    StatusUpdate,
    Get,
    List,
    WatchFanOut,
    Memory,
    MemoryOfEtcd,
}

impl Measure {
    /// What is compared; etcd's memory is shown apart.
    const COMPARED: [Self; 6] =
        [Self::Create, Self::StatusUpdate, Self::Get, Self::List, Self::WatchFanOut, Self::Memory];

    const fn title(self) -> &'static str {
        match self {
            Self::Create => "create, Jobs/s",
            Self::StatusUpdate => "status update, Jobs/s",
            Self::Get => "get, Jobs/s",
            Self::List => "list of all Jobs, ms",
            Self::WatchFanOut => "100 watchers, events/s",
            Self::Memory => "memory of the API server, MiB",
            Self::MemoryOfEtcd => "memory of etcd, MiB",
        }
    }

    const fn less_is_better(self) -> bool {
        matches!(self, Self::List | Self::Memory | Self::MemoryOfEtcd)
    }
}

struct Sample {
    maker: Maker,
    durability: Durability,
    measure: Measure,
    value: f64,
}

pub(crate) struct Report {
    jobs: usize,
    rounds: usize,
    samples: Vec<Sample>,
}

/// A median and what it lies between.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Figure {
    median: f64,
    least: f64,
    most: f64,
}

impl Figure {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let middle = (values.len() - 1) / 2;
        let median = f64::midpoint(values[middle], values[values.len() / 2]);
        Self { median, least: values[0], most: values[values.len() - 1] }
    }

    fn json(self) -> Value {
        json!({"median": self.median, "least": self.least, "most": self.most})
    }
}

/// With as many digits as mean something.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = usize::from(self.median < 100.0);
        let Self { median, least, most } = self;
        let text = if least.total_cmp(most).is_eq() {
            format!("{median:.digits$}")
        } else {
            format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
        };
        f.pad(&text)
    }
}

impl Report {
    pub(crate) fn new(jobs: usize, rounds: usize) -> Self {
        Self { jobs, rounds, samples: Vec::new() }
    }

    pub(crate) fn note(&mut self, server: &Server, measure: Measure, value: f64) {
        self.samples.push(Sample { maker: server.maker, durability: server.durability, measure, value });
    }

    fn values(&self, maker: Maker, durability: Durability, measure: Measure) -> Vec<f64> {
        let wanted = (maker, durability, measure);
        let matching = self.samples.iter().filter(|it| (it.maker, it.durability, it.measure) == wanted);
        matching.map(|sample| sample.value).collect()
    }

    /// Both sides of a comparison, and how many times better the embedded server was, round by round.
    fn comparison(&self, durability: Durability, measure: Measure) -> (Figure, Figure, Figure) {
        let embedded = self.values(Maker::Embedded, durability, measure);
        let kubernetes = self.values(Maker::Kubernetes, durability, measure);
        let ahead = embedded
            .iter()
            .zip(&kubernetes)
            .map(|(ours, theirs)| if measure.less_is_better() { theirs / ours } else { ours / theirs });
        let ahead = Figure::of(ahead.collect());
        (Figure::of(embedded), Figure::of(kubernetes), ahead)
    }

    pub(crate) fn json(&self) -> Value {
        let mut rows = Vec::new();
        for (durability, name) in [(Durability::Fsync, "fsync"), (Durability::None, "none")] {
            for measure in Measure::COMPARED {
                let (embedded, kubernetes, ahead) = self.comparison(durability, measure);
                rows.push(json!({"durability": name, "measure": measure.title(), "embedded": embedded.json(),
                    "kubernetes": kubernetes.json(), "timesAhead": ahead.json()}));
            }
            let etcd = Figure::of(self.values(Maker::Kubernetes, durability, Measure::MemoryOfEtcd));
            rows.push(json!({"durability": name, "measure": Measure::MemoryOfEtcd.title(), "kubernetes": etcd.json()}));
        }
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        json!({"jobs": self.jobs, "rounds": self.rounds, "cores": cores, "rows": rows})
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} Jobs a server; medians of {} interleaved rounds (least to most)", self.jobs, self.rounds)?;
        for (durability, title) in [
            (Durability::Fsync, "fsync: durable store / etcd as it comes"),
            (Durability::None, "no fsync: in memory / etcd --unsafe-no-fsync"),
        ] {
            writeln!(f, "\n{title:<46}{:<28}{:<28}times ahead", "embedded", "kube-apiserver")?;
            for measure in Measure::COMPARED {
                let (embedded, kubernetes, ahead) = self.comparison(durability, measure);
                writeln!(f, "  {:<44}{embedded:<28}{kubernetes:<28}{ahead}", measure.title())?;
            }
            let etcd = Figure::of(self.values(Maker::Kubernetes, durability, Measure::MemoryOfEtcd));
            writeln!(f, "  {:<44}{:<28}{etcd}", Measure::MemoryOfEtcd.title(), "")?;
        }
        Ok(())
    }
}
