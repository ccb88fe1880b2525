//! The result, for people and for programs.

use std::{fmt, fs, path::Path, time::Duration};

use serde_json::{Map, Value, json};

use crate::{
    hung::Hung,
    measure::plot::{Line, Plot},
    standing::Standing,
    sustain::{Step, Sustained},
};

#[derive(Default)]
pub(crate) struct Report {
    /// From few Jobs to many.
    pub(crate) by_jobs: Vec<Standing>,
    /// From few workers to many.
    pub(crate) by_workers: Vec<Standing>,
    pub(crate) hung: Option<Hung>,
    pub(crate) sustained: Option<Sustained>,
}

/// A figure of a standing fleet.
struct Figure {
    name: &'static str,
    key: &'static str,
    /// `None`: it was not measured.
    of: fn(&Standing) -> Option<f64>,
}

#[allow(clippy::cast_precision_loss, reason = "what is counted here fits")]
const FIGURES: [Figure; 11] = [
    Figure { name: "placed a second", key: "placedPerSecond", of: |s| Some(s.placed_per_second) },
    Figure {
        name: "CPU ms to place and follow one",
        key: "cpuMillisecondsPerJob",
        of: |s| Some(millis(s.cpu_per_job)),
    },
    Figure { name: "start to steady, s", key: "startSeconds", of: |s| Some(s.start.as_secs_f64()) },
    Figure { name: "  CPU s of it", key: "startCpuSeconds", of: |s| Some(s.start_cpu.as_secs_f64()) },
    Figure { name: "  writes to Jobs", key: "startWrites", of: |s| Some(s.start_writes as f64) },
    Figure { name: "memory, MiB", key: "memoryMebibytes", of: |s| Some(mebibytes(s.memory)) },
    Figure { name: "  at its peak", key: "peakMemoryMebibytes", of: |s| Some(mebibytes(s.peak_memory)) },
    Figure { name: "one event, CPU ms", key: "cpuMillisecondsPerEvent", of: |s| Some(millis(s.cpu_per_event)) },
    Figure { name: "  ms to its copy, p50", key: "eventMillisecondsP50", of: |s| Some(s.event.p50) },
    Figure { name: "  ms to its copy, p99", key: "eventMillisecondsP99", of: |s| Some(s.event.p99) },
    Figure {
        name: "  instructions",
        key: "instructionsPerEvent",
        of: |s| s.instructions_per_event.map(|count| count as f64),
    },
];

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[allow(clippy::cast_precision_loss, reason = "memory of a process fits")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}

impl Report {
    pub(crate) fn json(&self) -> Value {
        let standing = |standing: &Standing| {
            let figures = FIGURES.iter().map(|figure| (figure.key.to_owned(), json!((figure.of)(standing))));
            let mut figures: Map<String, Value> = figures.collect();
            figures.insert("jobs".into(), standing.jobs.into());
            figures.insert("workers".into(), standing.workers.into());
            Value::from(figures)
        };
        let growth = |columns: &[Standing]| {
            let all = FIGURES.iter().map(|figure| (figure.key.to_owned(), json!(growth(columns, figure))));
            Value::from(all.collect::<Map<_, _>>())
        };
        json!({
            "growthByJobs": growth(&self.by_jobs),
            "growthByWorkers": growth(&self.by_workers),
            "byJobs": self.by_jobs.iter().map(standing).collect::<Vec<_>>(),
            "byWorkers": self.by_workers.iter().map(standing).collect::<Vec<_>>(),
            "hung": self.hung.as_ref().map(Hung::json),
            "sustained": self.sustained.as_ref().map(Sustained::json),
        })
    }

    /// Writes an SVG for each part that was measured.
    pub(crate) fn plot(&self, directory: &Path) {
        fs::create_dir_all(directory).unwrap();
        if !self.by_jobs.is_empty() {
            #[allow(clippy::cast_precision_loss, reason = "a hundred thousand")]
            let over_jobs =
                |of: fn(&Standing) -> f64| self.by_jobs.iter().map(|s| (s.jobs as f64, of(s))).collect::<Vec<_>>();
            let plot = Plot {
                title: "Memory of the dispatcher",
                x: "placed, unfinished Jobs",
                y: "MiB",
                lines: vec![
                    Line { name: "after the start", points: over_jobs(|s| mebibytes(s.memory)) },
                    Line { name: "at its peak", points: over_jobs(|s| mebibytes(s.peak_memory)) },
                ],
            };
            fs::write(directory.join("memory.svg"), plot.svg()).unwrap();
        }
        if let Some(sustained) = &self.sustained {
            let over_rates = |of: fn(&Step) -> f64| sustained.search().map(|step| (step.rate, of(step))).collect();
            let plot = Plot {
                title: "Jobs that come, and mirrors that are made",
                x: "Jobs a second",
                y: "a second",
                lines: vec![
                    Line { name: "Jobs", points: over_rates(|step| step.rate) },
                    Line { name: "mirrors", points: over_rates(|step| step.mirrored_per_second) },
                ],
            };
            fs::write(directory.join("throughput.svg"), plot.svg()).unwrap();
            let plot = Plot {
                title: "Create to mirror at a steady rate",
                x: "Jobs a second",
                y: "ms",
                lines: vec![
                    Line { name: "p50", points: over_rates(|step| step.mirror.p50) },
                    Line { name: "p99", points: over_rates(|step| step.mirror.p99) },
                ],
            };
            fs::write(directory.join("latency.svg"), plot.svg()).unwrap();
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        table(f, "with 10 workers, by Jobs", &self.by_jobs, |standing| standing.jobs)?;
        let jobs = self.by_workers.first().map_or(0, |standing| standing.jobs);
        table(f, &format!("with {jobs} Jobs, by workers"), &self.by_workers, |standing| standing.workers)?;
        if let Some(hung) = &self.hung {
            writeln!(f, "{:<34}{:>24}", "create -> mirror, all workers well", hung.all_well)?;
            writeln!(f, "{:<34}{:>24}", "  one of five hangs, the others", hung.beside_it)?;
            writeln!(f, "{:<34}{:>24.2}", "  p99, as a ratio", hung.beside_it.p99 / hung.all_well.p99)?;
            writeln!(f, "{:<34}{:>24}\n", "  Jobs that it collected", hung.stuck)?;
        }
        if let Some(sustained) = &self.sustained {
            let title = format!("{} workers, steady Jobs/s", sustained.workers);
            writeln!(
                f,
                "{title:<34}{:>10}{:>24}{:>10}{:>10}{:>10}{:>10}",
                "mirrors/s", "create -> mirror, ms", "missing", "seconds", "and more", "CPUs"
            )?;
            for step in &sustained.steps {
                let (rate, made, mirror, missing) = (step.rate, step.mirrored_per_second, step.mirror, step.missing);
                writeln!(
                    f,
                    "{rate:<34.0}{made:>10.0}{mirror:>24}{missing:>10}{:>10}{:>10.1}{:>10.2}",
                    step.seconds,
                    step.drained.as_secs_f64(),
                    step.cpu
                )?;
            }
            match sustained.held() {
                Some(step) => writeln!(f, "{:.0} Jobs/s held for {} s", step.rate, step.seconds)?,
                None => writeln!(f, "no rate held")?,
            }
        }
        Ok(())
    }
}

/// How many times that of the first column a figure of the last one is.
fn growth(columns: &[Standing], figure: &Figure) -> Option<f64> {
    let (first, last) = ((figure.of)(columns.first()?)?, (figure.of)(columns.last()?)?);
    (first > 0.0).then(|| last / first)
}

fn table(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    columns: &[Standing],
    heading: fn(&Standing) -> usize,
) -> fmt::Result {
    if columns.is_empty() {
        return Ok(());
    }
    write!(f, "{title:<34}")?;
    for column in columns {
        write!(f, "{:>12}", heading(column))?;
    }
    writeln!(f, "{:>14}", "last : first")?;
    for figure in &FIGURES {
        write!(f, "{:<34}", figure.name)?;
        for column in columns {
            match (figure.of)(column) {
                Some(value) => write!(f, "{value:>12.3}")?,
                None => write!(f, "{:>12}", "-")?,
            }
        }
        match growth(columns, figure) {
            Some(factor) => writeln!(f, "{factor:>14.2}")?,
            None => writeln!(f)?,
        }
    }
    writeln!(f)
}
