//! What a decision is made from.

use std::{collections::BTreeMap, time::Duration};

use job_api::Rules;

use crate::{
    placement::WorkerView,
    time::Now,
    workload::{Mirror, Workload},
};

/// Everything that is known of one workload, keyed by its UID.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Knowledge {
    /// The workload, as long as the manager has it.
    pub workload: Option<Workload>,
    /// Its mirrors, by worker. More than one means that something went wrong before.
    pub mirrors: BTreeMap<String, Sighting>,
    /// What this process remembers of its own doings.
    pub memory: Memory,
}

/// What a worker's watch said of a mirror last.
#[derive(Debug, Clone, PartialEq)]
pub enum Sighting {
    /// It exists.
    Present(Mirror),
    /// It is no longer listed; this is its last state. Not a proof that it is gone.
    Vanished(Mirror),
}

/// What only this process knows. Lost with it; everything here can be found out again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// This process wrote the placement of that epoch, and the manager acknowledged it at that (monotonic) time.
    pub acknowledged: Option<(u32, Duration)>,
    /// ABSENT: the worker of that epoch answered a fresh read with 404.
    pub absent: Option<u32>,
    /// The manager answered a fresh read: this workload is gone.
    pub gone: bool,
    /// When (monotonic) its status was last written.
    pub status_written: Option<Duration>,
    /// A worker refused the mirror: what it said, and when (monotonic) to ask again.
    pub refused: Option<(String, Duration)>,
}

/// What a plan may look at besides the workload itself.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// All workers, by name.
    pub workers: &'a BTreeMap<String, WorkerView>,
    /// The status rules of the manager's API server.
    pub rules: Rules,
    /// The time.
    pub now: Now,
}

impl Knowledge {
    /// The mirrors that exist, as far as the watches tell, with their workers.
    pub fn present(&self) -> impl Iterator<Item = (&str, &Mirror)> {
        self.mirrors.iter().filter_map(|(worker, sighting)| match sighting {
            Sighting::Present(mirror) => Some((worker.as_str(), mirror)),
            Sighting::Vanished(_) => None,
        })
    }
}
