//! What processes took of the machine, as the kernel counts it.

use std::{fs, iter::Sum, ops::Sub, time::Duration};

/// The unit of times in `/proc/PID/stat`: USER_HZ, which Linux fixed at 100 for programs on all common machines.
const TICK: Duration = Duration::from_millis(10);

/// CPU time in all threads, those that have ended included.
pub(crate) fn cpu(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name, in parentheses, may hold anything. Behind it, user and system time are the 12th and 13th field.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks: u32 = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u32>().unwrap()).sum();
    TICK * ticks
}

/// What it has resident, in bytes.
pub(crate) fn memory(process: u32) -> u64 {
    status(process, "VmRSS:")
}

/// The most that it ever had resident, in bytes.
pub(crate) fn peak_memory(process: u32) -> u64 {
    status(process, "VmHWM:")
}

fn status(process: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
    kibibytes * 1024
}

/// CPU time of the clusters, by what spends it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServersCpu {
    /// kube-apiserver and etcd of the management cluster.
    pub(crate) manager: Duration,
    /// kube-apiserver and etcd of all workers.
    pub(crate) workers: Duration,
    /// kube-controller-manager of all clusters.
    pub(crate) controllers: Duration,
}

impl ServersCpu {
    /// All API servers and their stores.
    pub(crate) fn api(&self) -> Duration {
        self.manager + self.workers
    }
}

impl Sub for ServersCpu {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            manager: self.manager.saturating_sub(before.manager),
            workers: self.workers.saturating_sub(before.workers),
            controllers: self.controllers.saturating_sub(before.controllers),
        }
    }
}

impl Sum for ServersCpu {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |one, other| Self {
            manager: one.manager + other.manager,
            workers: one.workers + other.workers,
            controllers: one.controllers + other.controllers,
        })
    }
}
