//! The result, for people and for programs.

use std::{fmt, time::Duration};

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::{
    contender::Contender,
    fleet::{Mode, Writes},
    load::Burst,
    timeline::Life,
    usage::ServersCpu,
};

/// One contender, once.
pub(crate) struct Round {
    pub(crate) mode: Mode,
    pub(crate) contender: Contender,
    pub(crate) jobs: usize,
    pub(crate) burst: Burst,
    /// Jobs that were alone.
    pub(crate) singles: Vec<Life>,
    /// Of the contender, during the burst.
    pub(crate) own_cpu: Duration,
    pub(crate) servers_cpu: ServersCpu,
    pub(crate) writes: Writes,
    /// Of the contender, in bytes.
    pub(crate) peak_memory: u64,
}

/// A figure that every round has.
struct Figure {
    name: &'static str,
    key: &'static str,
    of: fn(&Round) -> f64,
}

#[allow(clippy::cast_precision_loss, reason = "counts of a bench fit")]
const FIGURES: [Figure; 9] = [
    Figure {
        name: "Jobs/s, create -> mirror",
        key: "mirrorsPerSecond",
        of: |round| round.burst.mirrors_per_second,
    },
    Figure { name: "Jobs/s, create -> end", key: "endsPerSecond", of: |round| round.burst.ends_per_second },
    Figure { name: "CPU ms/Job, itself", key: "ownCpuMillisecondsPerJob", of: |round| round.per_job(round.own_cpu) },
    Figure {
        name: "CPU ms/Job, API servers + etcd",
        key: "serversCpuMillisecondsPerJob",
        of: |round| round.per_job(round.servers_cpu.api()),
    },
    Figure {
        name: "  itself in % of them",
        key: "ownCpuPercentOfServers",
        of: |round| 100.0 * round.own_cpu.as_secs_f64() / round.servers_cpu.api().as_secs_f64(),
    },
    Figure {
        name: "writes/Job to the manager",
        key: "managerWritesPerJob",
        of: |round| round.writes.manager as f64 / round.jobs as f64,
    },
    Figure {
        name: "writes/Job to workers",
        key: "workerWritesPerJob",
        of: |round| round.writes.workers as f64 / round.jobs as f64,
    },
    Figure {
        name: "other writes/Job (Events, lease)",
        key: "otherWritesPerJob",
        of: |round| round.writes.other as f64 / round.jobs as f64,
    },
    Figure {
        name: "peak memory, MiB",
        key: "peakMemoryMebibytes",
        of: |round| round.peak_memory as f64 / (1024.0 * 1024.0),
    },
];

/// A time between two moments of a Job that was alone.
struct Latency {
    name: &'static str,
    key: &'static str,
    of: fn(&Life) -> Option<Duration>,
}

const LATENCIES: [Latency; 3] = [
    Latency { name: "create -> mirror", key: "createToMirror", of: |life| between(life.sent, life.mirror) },
    Latency {
        name: "mirror active -> Job active",
        key: "activeToActive",
        of: |life| between(life.mirror_active, life.user_active),
    },
    Latency { name: "mirror ended -> Job ended", key: "endToEnd", of: |life| between(life.mirror_end, life.user_end) },
];

fn between(from: Option<Instant>, to: Option<Instant>) -> Option<Duration> {
    Some(to?.saturating_duration_since(from?))
}

impl Round {
    fn per_job(&self, cpu: Duration) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
        let jobs = self.jobs as f64;
        cpu.as_secs_f64() * 1000.0 / jobs
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Burst { mirrors_per_second, ends_per_second } = self.burst;
        write!(
            f,
            "{:?}, {:?}: {mirrors_per_second:.1} mirrors/s, {ends_per_second:.1} ends/s, CPU {:.2} ms/Job itself, {:.2} servers",
            self.mode,
            self.contender,
            self.per_job(self.own_cpu),
            self.per_job(self.servers_cpu.api()),
        )
    }
}

/// All rounds.
pub(crate) struct Report {
    pub(crate) jobs: usize,
    pub(crate) workers: usize,
    pub(crate) rounds: Vec<Round>,
}

/// The rounds of one contender in one mode.
struct Column<'a> {
    contender: Contender,
    rounds: Vec<&'a Round>,
}

/// Half of the rounds had less.
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        Some(Self { least, median: values[values.len() / 2], most })
    }

    fn json(&self) -> Value {
        json!({"least": self.least, "median": self.median, "most": self.most})
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.2} ({:.2}-{:.2})", self.median, self.least, self.most))
    }
}

impl Column<'_> {
    fn spread(&self, figure: &Figure) -> Option<Spread> {
        Spread::of(self.rounds.iter().map(|round| (figure.of)(round)).collect())
    }

    /// p50, p99 and the worst, in milliseconds.
    fn quantiles(&self, latency: &Latency) -> Option<[f64; 3]> {
        let lives = self.rounds.iter().flat_map(|round| &round.singles);
        let mut times: Vec<Duration> = lives.filter_map(latency.of).collect();
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        let at = |percent: usize| times[(times.len() * percent / 100).min(last)].as_secs_f64() * 1000.0;
        Some([at(50), at(99), at(100)])
    }
}

impl Report {
    fn modes(&self) -> Vec<(Mode, Vec<Column<'_>>)> {
        let mut modes: Vec<(Mode, Vec<Column<'_>>)> = Vec::new();
        for round in &self.rounds {
            if modes.last().is_none_or(|(mode, _)| *mode != round.mode) {
                modes.push((round.mode, Vec::new()));
            }
            let Some((_, columns)) = modes.last_mut() else { continue };
            match columns.iter_mut().find(|column| column.contender == round.contender) {
                Some(column) => column.rounds.push(round),
                None => columns.push(Column { contender: round.contender, rounds: vec![round] }),
            }
        }
        modes
    }

    pub(crate) fn json(&self) -> Value {
        let column = |column: &Column<'_>| {
            let mut figures: Map<String, Value> = Map::new();
            for figure in &FIGURES {
                figures.insert(figure.key.into(), column.spread(figure).map(|spread| spread.json()).into());
            }
            for latency in &LATENCIES {
                let quantiles = column.quantiles(latency);
                let quantiles = quantiles.map(|[p50, p99, worst]| json!({"p50": p50, "p99": p99, "worst": worst}));
                figures.insert(format!("{}Milliseconds", latency.key), quantiles.into());
            }
            (format!("{:?}", column.contender).to_lowercase(), Value::from(figures))
        };
        let mode = |(mode, columns): &(Mode, Vec<Column<'_>>)| {
            let columns: Map<String, Value> = columns.iter().map(column).collect();
            (format!("{mode:?}").to_lowercase(), Value::from(columns))
        };
        let modes: Map<String, Value> = self.modes().iter().map(mode).collect();
        json!({"jobs": self.jobs, "workers": self.workers, "modes": modes})
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (mode, columns) in self.modes() {
            let title = format!("{mode:?}, {} Jobs, {} workers", self.jobs, self.workers);
            write!(f, "{title:<34}")?;
            for column in &columns {
                write!(f, "{:>28}", format!("{:?}", column.contender).to_lowercase())?;
            }
            writeln!(f, "{:>10}", "ratio")?;
            for figure in &FIGURES {
                write!(f, "{:<34}", figure.name)?;
                let spreads: Vec<Spread> = columns.iter().filter_map(|column| column.spread(figure)).collect();
                for spread in &spreads {
                    write!(f, "{spread:>28}")?;
                }
                // Jobferry beside whatever comes first.
                let ours = columns.iter().position(|column| column.contender == Contender::Jobferry);
                match (spreads.first(), ours.and_then(|ours| spreads.get(ours))) {
                    (Some(first), Some(ours)) if first.median > 0.0 => {
                        writeln!(f, "{:>10.2}", ours.median / first.median)?;
                    }
                    _ => writeln!(f)?,
                }
            }
            for latency in &LATENCIES {
                write!(f, "{:<34}", format!("idle ms, {}", latency.name))?;
                for column in &columns {
                    let quantiles = column.quantiles(latency);
                    let text = quantiles.map(|[p50, p99, _]| format!("p50 {p50:.1} p99 {p99:.1}"));
                    write!(f, "{:>28}", text.unwrap_or_else(|| "-".into()))?;
                }
                writeln!(f)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
