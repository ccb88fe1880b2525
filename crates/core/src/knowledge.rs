//! What a decision is made from.

mod load;
mod mirrors;

use std::{collections::BTreeMap, fmt, time::Duration};

use job_api::Rules;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    claim::Misfit,
    custom::KindRef,
    forward::Digest,
    halts::Halt,
    placement::{Link, WorkerView},
    policy::Policies,
    record::{Placement, Record},
    refusal::{Failures, Refusal},
    time::{Now, QUARANTINE},
    workload::{Mirror, Workload},
};

pub use load::Load;
pub use mirrors::Mirrors;

/// Everything that is known of one workload, keyed by its UID. There may be a hundred thousand of these: what is seldom there
/// is boxed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Knowledge {
    /// The workload, as long as the manager has it.
    pub workload: Option<Box<Workload>>,
    /// Its mirrors, by worker. More than one means that something went wrong before.
    pub mirrors: Mirrors,
    /// What this process remembers of its own doings.
    pub memory: Memory,
}

/// By what it shows that somebody else acts, on the manager, on a workload that was handed to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// A controller that writes by this name wrote its status.
    Status(String),
    /// This object was created for it.
    Child(String),
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(by) => {
                write!(f, "{by} writes the status of a workload that was handed to Jobferry, and may run it here")
            }
            Self::Child(child) => {
                write!(
                    f,
                    "{child} was created here for a workload that was handed to Jobferry, so somebody else runs it"
                )
            }
        }
    }
}

/// What a worker's watch said of a mirror last.
#[derive(Debug, Clone, PartialEq)]
pub enum Sighting {
    /// It exists.
    Present(Box<Mirror>),
    /// It is no longer listed; this is its last state. Not a proof that it is gone.
    Vanished(Box<Mirror>),
}

impl Sighting {
    /// Its last known state.
    pub const fn mirror(&self) -> &Mirror {
        let (Self::Present(mirror) | Self::Vanished(mirror)) = self;
        mirror
    }
}

/// What only this process knows. Lost with it; everything here can be found out again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The manager acknowledged a placement of that epoch, which this process sent at that (monotonic) time.
    pub acknowledged: Option<(u32, Duration)>,
    /// This process placed it before anybody else did.
    pub placed_first: bool,
    /// When (monotonic) the manager took a placement and did not keep it.
    pub unkept: Option<Duration>,
    /// ABSENT: the worker answered a fresh read with 404.
    pub absent: Option<Absence>,
    /// The identity of a cluster that took the place of its worker, and that has nothing of it.
    pub no_stray_in: Option<Box<str>>,
    /// A worker of that epoch has pods of this workload, though no mirror: there was one.
    pub evidence: Option<u32>,
    /// An object that somebody created for it on the manager, as people call it. Not forgotten when that object is gone: what
    /// has begun to run there must not begin anew elsewhere. (The next process does not know of it then.)
    pub local_child: Option<String>,
    /// When (monotonic) a create of ours was last left without an answer: it may still land.
    pub in_doubt: Option<Duration>,
    /// The manager answered a fresh read: this workload is gone.
    pub gone: Option<Gone>,
    /// The UID of a mirror that a worker made something unusable of, and what that is. We delete it: it never counted.
    pub discarded: Option<Box<(String, Misfit)>>,
    /// The version of the workload over which the manager refused a status as illegal. The same one is not sent again
    /// before the workload or its mirror has changed.
    pub status_refused: Option<String>,
    /// The fingerprint of what this process told people last, and when (monotonic) that was.
    pub told: Option<(u64, Duration)>,
    /// When (monotonic) its status was last written.
    pub status_written: Option<Duration>,
    /// The fingerprints of the status that was last written, of a kind other than Job, and of what the server made of it. The
    /// two may differ for ever: a definition drops fields that it does not know.
    pub status_copied: Option<(u64, u64)>,
    /// Workers that refused the mirror.
    pub refusals: BTreeMap<String, Refusal>,
    /// How often a worker has failed at its mirror, which is not the same.
    pub failures: Option<Failures>,
    /// A worker refused the edit with this fingerprint.
    pub edit_refused: Option<Box<(Digest, Refusal)>>,
    /// The last placement that this process saw, by epoch and time, and when (monotonic) it first saw it.
    pub placement_seen: Option<(u32, Time, Duration)>,
    /// This process knew the workload before it was gone: no orphan of unknown descent.
    pub owner_seen: bool,
    /// Since when (monotonic) it waits for a worker, or moves to another one.
    pub waiting_since: Option<Duration>,
    /// Since when (monotonic) its worker is not registered, or another cluster answers in its place.
    pub worker_missing: Option<Duration>,
    /// Since when (monotonic) its worker answers and has nothing of its kind any more, or does not let us look, or must not
    /// be used.
    pub worker_unusable: Option<Duration>,
}

impl Memory {
    /// Whether this process has seen the workload placed, whatever became of the record.
    pub fn knows_of_placement(&self) -> bool {
        self.acknowledged.is_some() || self.placement_seen.as_ref().is_some_and(|(epoch, ..)| *epoch > 0)
    }

    /// From when (monotonic) on no create of a placement that this process knows of can land any more.
    pub fn creates_landed_at(&self) -> Duration {
        let acknowledged = self.acknowledged.map(|(_, sent)| sent);
        let seen = self.placement_seen.as_ref().map(|(.., seen)| *seen);
        acknowledged.max(seen).max(self.in_doubt).map_or(Duration::ZERO, |last| last + QUARANTINE)
    }
}

/// ABSENT: proved for what the record said at that time. A record that meanwhile names a mirror wants a proof of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absence {
    epoch: u32,
    mirror: Option<String>,
    name_taken: bool,
}

impl Absence {
    /// Proved by a read that was made for this placement.
    pub fn proved_for(at: &Placement) -> Self {
        Self { epoch: at.epoch, mirror: at.mirror.clone(), name_taken: false }
    }

    /// The same read found another object under the mirror's name: there is no use in creating it yet.
    #[must_use]
    pub fn behind_another(self) -> Self {
        Self { name_taken: true, ..self }
    }

    /// Whether the name was free.
    pub const fn leaves_name_free(&self) -> bool {
        !self.name_taken
    }

    /// Whether it says anything about this placement.
    pub fn holds_for(&self, at: &Placement) -> bool {
        (self.epoch, &self.mirror) == (at.epoch, &at.mirror)
    }
}

/// That the manager has not had a workload any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// The manager's own version at that time.
    pub version: u64,
    /// When (monotonic) that was.
    pub at: Duration,
}

/// What a plan may look at besides the workload itself.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// All workers, by name.
    pub workers: &'a BTreeMap<String, WorkerView>,
    /// Who may use which of them.
    pub policies: &'a Policies,
    /// Why nothing new may be placed at all, if so.
    pub halted: Option<&'a Halt>,
    /// The status rules of the manager's API server.
    pub rules: Rules,
    /// Since when (monotonic) this process leads. Creates of the leader before it may still land for a while.
    pub leading_since: Duration,
    /// A lease keeps others from working at the same time. Without it their creates may be under way at any time.
    pub leads_alone: bool,
    /// A worker counts as lost only if this process itself could not reach it for so long.
    pub notice_loss_after: Duration,
    /// Whether one more mirror whose workload this process never saw may be deleted now.
    pub may_delete_orphan: bool,
    /// The time.
    pub now: Now,
}

impl Knowledge {
    /// What kind of workload it is; `None` if nothing is known of it.
    pub fn kind(&self) -> Option<KindRef> {
        let mirror = self.mirrors.values().next().map(Sighting::mirror);
        self.workload.as_deref().map(Workload::kind).or_else(|| mirror.map(Mirror::kind))
    }

    /// Whether there was a mirror of it: one was seen, or pods that only a mirror can have made.
    pub fn had_mirror(&self) -> bool {
        !self.mirrors.is_empty() || self.memory.evidence.is_some()
    }

    /// What shows that somebody else runs the workload on the manager, if anything does.
    pub fn activity(&self) -> Option<Activity> {
        let written = self.workload.as_ref().and_then(|workload| workload.acted_on.clone());
        written.map(Activity::Status).or_else(|| self.memory.local_child.clone().map(Activity::Child))
    }

    /// The manager does not have the workload any more.
    pub fn lose_workload(&mut self) {
        self.memory.owner_seen |= self.workload.take().is_some();
    }

    /// Notes since when it waits, when a placement was first seen, and when its worker was first missed. To be called before planning.
    pub fn notice(&mut self, workers: &BTreeMap<String, WorkerView>, now: Now) {
        if let Some(workload) = &mut self.workload {
            workload.settle(now.wall);
        }
        for Sighting::Present(mirror) | Sighting::Vanished(mirror) in self.mirrors.values_mut() {
            mirror.settle(now.wall);
        }
        let noted = self.memory.placement_seen.as_ref().is_some_and(|(epoch, ..)| *epoch == 0);
        if self.workload.is_none() && !noted {
            // It may have been placed anew, by another dispatcher, right before it was gone.
            self.memory.placement_seen = Some((0, Time(now.wall), now.monotonic));
        }
        self.memory.waiting_since = self.wants_worker().then(|| self.memory.waiting_since.unwrap_or(now.monotonic));
        let Some(workload @ Workload { record: Record::Placed(at), .. }) = self.workload.as_deref() else { return };
        let hides =
            |worker: &WorkerView| worker.lacks(&workload.kind()).is_some() || matches!(worker.link, Link::Unfit { .. });
        let lacks_kind = workers.get(&at.worker).is_some_and(hides);
        self.memory.worker_unusable = lacks_kind.then(|| self.memory.worker_unusable.unwrap_or(now.monotonic));
        let missed = self.memory.worker_missing.unwrap_or(now.monotonic);
        let recorded =
            |(worker, mirror): (&str, &Mirror)| worker == at.worker && at.mirror.as_ref() == Some(&mirror.uid);
        let in_sight = self.present().any(recorded);
        let replaced = |worker: &WorkerView| {
            let is_another = worker.live_identity().is_some_and(|identity| identity != at.identity);
            is_another && !(in_sight && worker.live_for(&workload.kind()).is_some())
        };
        self.memory.worker_missing = workers.get(&at.worker).is_none_or(replaced).then_some(missed);
        let seen = self.memory.placement_seen.as_ref();
        if seen.is_none_or(|(epoch, since, _)| (*epoch, since) != (at.epoch, &at.since)) {
            self.memory.placement_seen = Some((at.epoch, at.since.clone(), now.monotonic));
        }
    }

    /// Whether it is to be placed, as far as its user and its record tell.
    fn wants_worker(&self) -> bool {
        self.workload.as_ref().is_some_and(|workload| match &workload.record {
            Record::None => !workload.spec.suspended,
            Record::Placed(at) => at.moving,
            Record::Unreadable => false,
        })
    }

    /// The mirrors that exist, as far as the watches tell, with their workers.
    pub fn present(&self) -> impl Iterator<Item = (&str, &Mirror)> {
        self.mirrors.iter().filter_map(|(worker, sighting)| match sighting {
            Sighting::Present(mirror) => Some((worker, &**mirror)),
            Sighting::Vanished(_) => None,
        })
    }
}
