//! Planted bugs: protections of the protocol that are taken out one at a time, to see that their loss is found.

use super::time::Age;
use super::world::{Absent, Known, Mind, Record, Sight};

/// A protection that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// Writes to the workload carry no resourceVersion.
    NoVersion,
    /// Deletes carry no UID.
    NoUid,
    /// Deletes carry no resourceVersion: what has changed since it was seen is deleted all the same.
    DeleteByOldView,
    /// A refused create counts as proof that the worker has nothing of the workload.
    RefusalIsProof,
    /// Every fresh read of a mirror counts as proof of its absence, whatever it found.
    ReadIsProof,
    /// A proof of absence counts even if the record has changed since.
    OldProof,
    /// A move does not wait for the quarantine.
    NoQuarantine,
    /// A finished mirror is deleted as soon as its workload is gone.
    NoGuard,
    /// A create may be sent however long ago its placement was acknowledged.
    NoWindow,
    /// What is not in the dispatcher's view does not exist: orphans are deleted without proof.
    NoProofOfGone,
    /// Whoever leads takes all workloads for such as nobody has placed before: no create of an earlier leader is waited for.
    NoEarlierLeader,
    /// With a deleted workload its creates of unknown outcome are forgotten.
    ForgetsDoubt,
    /// The marks of mirrors are not compared with the record: one that is not where the record says is stale.
    NoMarks,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::NoVersion,
        Self::NoUid,
        Self::DeleteByOldView,
        Self::RefusalIsProof,
        Self::ReadIsProof,
        Self::OldProof,
        Self::NoQuarantine,
        Self::NoGuard,
        Self::NoWindow,
        Self::NoProofOfGone,
        Self::NoEarlierLeader,
        Self::ForgetsDoubt,
        Self::NoMarks,
    ];

    /// What the plan is told in place of what is known.
    pub(super) fn distort(self, mind: &mut Mind) {
        for known in &mut mind.known {
            match self {
                Self::NoQuarantine => {
                    known.placement = known.placement.map(|(epoch, since, _)| (epoch, since, Age::LONG));
                }
                Self::NoGuard => (known.in_doubt, known.placement) = (None, None),
                Self::NoEarlierLeader => known.placed_first = true,
                Self::ForgetsDoubt if known.job.is_none() => known.in_doubt = None,
                Self::NoWindow => known.acknowledged = always_acknowledged(known),
                Self::NoProofOfGone => known.gone = true,
                Self::RefusalIsProof => known.absent = refused_placement(known).or(known.absent),
                Self::OldProof => known.absent = renewed_proof(known),
                Self::NoMarks => forget_marks(known),
                _ => {}
            }
        }
        match self {
            Self::NoGuard => mind.leads = Age::LONG,
            Self::NoProofOfGone => mind.listed = true,
            _ => {}
        }
    }
}

fn refused_placement(known: &Known) -> Option<Absent> {
    let Record { worker, epoch, mirror, .. } = known.job?.record?;
    known.refused[usize::from(worker)].map(|_| Absent { epoch, mirror, name_taken: false })
}

fn renewed_proof(known: &Known) -> Option<Absent> {
    let mirror = known.job.and_then(|job| job.record?.mirror);
    known.absent.map(|absent| Absent { mirror, ..absent })
}

/// Those of mirrors elsewhere than the record says: they are from before the first placement.
fn forget_marks(known: &mut Known) {
    let Some(record) = known.job.and_then(|job| job.record) else { return };
    for (worker, sight) in known.mirrors.iter_mut().enumerate() {
        if let Some(Sight::Present(mirror) | Sight::Vanished(mirror)) = sight
            && worker != usize::from(record.worker)
        {
            (mirror.epoch, mirror.made_of) = (0, None);
        }
    }
}

fn always_acknowledged(known: &Known) -> Option<(u8, Age)> {
    let record = known.job?.record?;
    let seen = known.mirrors.iter().any(|sight| matches!(sight, Some(Sight::Present(_))));
    (!seen).then_some((record.epoch, Age::NOW))
}
