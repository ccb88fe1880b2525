//! The result, for people and for programs.

use std::{fmt, time::Duration};

use serde_json::{Map, Value, json};

use crate::{
    contender::Contender,
    fleet::{Mode, Writes},
    load::Burst,
    measure::{
        spread::{Quantiles, Spread},
        timeline::{Life, between},
        usage::ServersCpu,
    },
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
const FIGURES: [Figure; 12] = [
    Figure { name: "Jobs/s, create -> mirror", key: "mirrorsPerSecond", of: |round| round.burst.mirrors_per_second },
    Figure { name: "Jobs/s, create -> end", key: "endsPerSecond", of: |round| round.burst.ends_per_second },
    Figure { name: "CPU ms/Job, itself", key: "ownCpuMillisecondsPerJob", of: |round| round.per_job(round.own_cpu) },
    Figure {
        name: "CPU ms/Job, API servers + etcd",
        key: "serversCpuMillisecondsPerJob",
        of: |round| round.per_job(round.servers_cpu.api()),
    },
    Figure {
        name: "  the manager's",
        key: "managerServersCpuMillisecondsPerJob",
        of: |round| round.per_job(round.servers_cpu.manager),
    },
    Figure {
        name: "  the workers'",
        key: "workerServersCpuMillisecondsPerJob",
        of: |round| round.per_job(round.servers_cpu.workers),
    },
    Figure {
        name: "CPU ms/Job, controller managers",
        key: "controllersCpuMillisecondsPerJob",
        of: |round| round.per_job(round.servers_cpu.controllers),
    },
    Figure {
        name: "itself in % of API servers + etcd",
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
            "{:?}, {}: {mirrors_per_second:.1} mirrors/s, {ends_per_second:.1} ends/s, CPU {:.2} ms/Job itself, {:.2} servers",
            self.mode,
            self.contender.name(),
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

impl Column<'_> {
    fn spread(&self, figure: &Figure) -> Option<Spread> {
        Spread::of(self.rounds.iter().map(|round| (figure.of)(round)).collect())
    }

    /// How many times that of another contender the median is.
    fn ratio(&self, other: &Self, figure: &Figure) -> Option<f64> {
        let (ours, theirs) = (self.spread(figure)?, other.spread(figure)?);
        (theirs.median > 0.0).then(|| ours.median / theirs.median)
    }

    fn quantiles(&self, latency: &Latency) -> Option<Quantiles> {
        let lives = self.rounds.iter().flat_map(|round| &round.singles);
        Quantiles::of(lives.filter_map(latency.of))
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
                let quantiles = column.quantiles(latency).map(|quantiles| quantiles.json());
                figures.insert(format!("{}Milliseconds", latency.key), quantiles.into());
            }
            (column.contender.name(), Value::from(figures))
        };
        let mode = |(mode, columns): &(Mode, Vec<Column<'_>>)| {
            let ours = columns.iter().find(|column| column.contender == Contender::Jobferry);
            let ratios = |ours: &Column<'_>, other: &Column<'_>| {
                let all = FIGURES.iter().map(|figure| (figure.key.to_owned(), json!(ours.ratio(other, figure))));
                (other.contender.name(), Value::from(all.collect::<Map<_, _>>()))
            };
            let others = columns.iter().filter(|column| column.contender != Contender::Jobferry);
            let ratios: Map<String, Value> =
                ours.into_iter().flat_map(|ours| others.clone().map(|other| ratios(ours, other))).collect();
            let columns: Map<String, Value> = columns.iter().map(column).collect();
            (format!("{mode:?}").to_lowercase(), json!({"contenders": columns, "jobferryTo": ratios}))
        };
        let modes: Map<String, Value> = self.modes().iter().map(mode).collect();
        json!({"jobs": self.jobs, "workers": self.workers, "modes": modes})
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (mode, columns) in self.modes() {
            let others = || columns.iter().filter(|column| column.contender != Contender::Jobferry);
            let ours = columns.iter().find(|column| column.contender == Contender::Jobferry);
            let title = format!("{mode:?}, {} Jobs, {} workers", self.jobs, self.workers);
            write!(f, "{title:<34}")?;
            for column in &columns {
                write!(f, "{:>24}", column.contender.name())?;
            }
            for column in others().filter(|_| ours.is_some()) {
                write!(f, "{:>16}", format!(": {}", column.contender.name()))?;
            }
            writeln!(f)?;
            for figure in &FIGURES {
                write!(f, "{:<34}", figure.name)?;
                for column in &columns {
                    let spread = column.spread(figure).map(|spread| spread.to_string());
                    write!(f, "{:>24}", spread.unwrap_or_default())?;
                }
                for column in others() {
                    match ours.and_then(|ours| ours.ratio(column, figure)) {
                        Some(ratio) => write!(f, "{ratio:>16.2}")?,
                        None => write!(f, "{:>16}", "")?,
                    }
                }
                writeln!(f)?;
            }
            for latency in &LATENCIES {
                write!(f, "{:<34}", format!("idle ms, {}", latency.name))?;
                for column in &columns {
                    let quantiles = column.quantiles(latency).map(|quantiles| quantiles.to_string());
                    write!(f, "{:>24}", quantiles.unwrap_or_else(|| "-".into()))?;
                }
                writeln!(f)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
