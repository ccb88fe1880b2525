//! What a decision is made from.

use std::{collections::BTreeMap, time::Duration};

use job_api::Rules;

use crate::{
    forward::Digest,
    placement::WorkerView,
    policy::Policies,
    record::Record,
    refusal::Refusal,
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
    /// A worker of that epoch has pods of this workload, though no mirror: there was one.
    pub evidence: Option<u32>,
    /// When (monotonic) a create of ours was last left without an answer: it may still land.
    pub in_doubt: Option<Duration>,
    /// The manager answered a fresh read: this workload is gone. The version is the manager's own at that time.
    pub gone: Option<u64>,
    /// When (monotonic) its status was last written.
    pub status_written: Option<Duration>,
    /// Workers that refused the mirror.
    pub refusals: BTreeMap<String, Refusal>,
    /// A worker refused the edit with this fingerprint: what it said.
    pub edit_refused: Option<(Digest, String)>,
    /// When (monotonic) this process first saw the intent to move with that epoch.
    pub intent_seen: Option<(u32, Duration)>,
    /// Since when (monotonic) its worker is not registered, or another cluster answers in its place.
    pub worker_missing: Option<Duration>,
}

/// What a plan may look at besides the workload itself.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// All workers, by name.
    pub workers: &'a BTreeMap<String, WorkerView>,
    /// Who may use which of them.
    pub policies: &'a Policies,
    /// Why nothing new may be placed at all, if so.
    pub halted: Option<&'a str>,
    /// The status rules of the manager's API server.
    pub rules: Rules,
    /// Since when (monotonic) this process leads. Creates of the leader before it may still land for a while.
    pub leading_since: Duration,
    /// The time.
    pub now: Now,
}

impl Knowledge {
    /// Notes when an intent to move was first seen, and when the worker was first missed. To be called before planning.
    pub fn notice(&mut self, workers: &BTreeMap<String, WorkerView>, now: Now) {
        let Some(Workload { record: Record::Placed(at), .. }) = &self.workload else { return };
        let missed = self.memory.worker_missing.unwrap_or(now.monotonic);
        let replaced = |worker: &WorkerView| worker.live_identity().is_some_and(|identity| identity != at.identity);
        self.memory.worker_missing = workers.get(&at.worker).is_none_or(replaced).then_some(missed);
        if at.moving && self.memory.intent_seen.is_none_or(|(epoch, _)| epoch != at.epoch) {
            self.memory.intent_seen = Some((at.epoch, now.monotonic));
        }
    }

    /// The mirrors that exist, as far as the watches tell, with their workers.
    pub fn present(&self) -> impl Iterator<Item = (&str, &Mirror)> {
        self.mirrors.iter().filter_map(|(worker, sighting)| match sighting {
            Sighting::Present(mirror) => Some((worker.as_str(), mirror)),
            Sighting::Vanished(_) => None,
        })
    }
}
