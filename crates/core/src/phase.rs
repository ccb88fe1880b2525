//! Where a workload stands.

use std::collections::BTreeMap;

use crate::{
    custom::KindRef,
    knowledge::{Knowledge, Sighting},
    placement::WorkerView,
    record::{Placement, Record},
    workload::{Mirror, Workload},
};

/// Where a workload stands. Derived from the objects on every event, never stored beside them.
#[derive(Debug, PartialEq)]
pub enum Phase<'a> {
    /// Somebody else's, or nothing is known of it.
    NotOurs,
    /// The manager no longer has it; its mirrors are orphans.
    Gone,
    /// Its deletion was asked for.
    Leaving,
    /// It has ended, for good.
    Finished,
    /// Its record cannot be read, or is missing though it was placed once: nothing may be assumed.
    Unknown,
    /// A mirror was seen, but the record is missing: the manager was restored, or somebody wiped the record off.
    Recovering {
        /// The worker that has the mirror, or had it.
        worker: &'a str,
        /// The mirror of the highest epoch.
        mirror: &'a Mirror,
    },
    /// Nobody has chosen a worker yet, because the user suspended it.
    Suspended,
    /// Nobody has chosen a worker yet.
    Waiting,
    /// The record is written; its mirror is not to be seen.
    Placed {
        /// The record.
        at: &'a Placement,
        /// The worker, if it is live and still the same cluster.
        reachable: bool,
        /// The mirror's last state, if it was seen before it vanished.
        last_seen: Option<&'a Mirror>,
    },
    /// It leaves a worker; the next one is chosen when nothing of it can be left there.
    Moving {
        /// The intent.
        at: &'a Placement,
        /// Whether the worker that it leaves is live and still the same cluster.
        reachable: bool,
    },
    /// The mirror is there.
    Running {
        /// The record.
        at: &'a Placement,
        /// The mirror.
        mirror: &'a Mirror,
    },
}

/// Where a workload stands.
pub fn phase<'a>(known: &'a Knowledge, workers: &BTreeMap<String, WorkerView>) -> Phase<'a> {
    let Some(workload) = &known.workload else {
        return if known.mirrors.is_empty() { Phase::NotOurs } else { Phase::Gone };
    };
    if !workload.is_ours() {
        // Somebody took it back from us: its mirror goes, and nothing is copied any more.
        let released = workload.custom.is_some() && known.present().next().is_some();
        return if released { Phase::Leaving } else { Phase::NotOurs };
    }
    if workload.deleting {
        return Phase::Leaving;
    }
    if workload.is_finished() {
        return Phase::Finished;
    }
    let kind = workload.kind();
    match &workload.record {
        Record::Unreadable => Phase::Unknown,
        Record::None => {
            // The worker that it was placed on was gone, or another cluster, when the record was last seen.
            let worker_missing = known.memory.worker_missing.is_some();
            let out_of_sight = worker_missing || workers.values().any(|worker| worker.may_hide(&kind));
            let ended = || last_vanished(known).filter(|(_, mirror)| mirror.is_finished() && !worker_missing);
            match known.present().max_by_key(|(_, mirror)| mirror.epoch).or_else(ended) {
                Some((worker, mirror)) => Phase::Recovering { worker, mirror },
                // It has run, and nobody knows where, or how it ended. Where a mirror was seen last there may be another
                // cluster now.
                None if workload.status.start_time.is_some() || known.had_mirror() => Phase::Unknown,
                // It was placed once, and a worker that we cannot see may run it.
                None if out_of_sight && (known.memory.knows_of_placement() || workload.is_said_to_be_placed()) => {
                    Phase::Unknown
                }
                None if workload.is_held_back() => Phase::Suspended,
                None if hiding_place(workload, workers).is_some() => Phase::Unknown,
                None => Phase::Waiting,
            }
        }
        Record::Placed(at) => match known.mirrors.get(&at.worker) {
            _ if at.moving => Phase::Moving { at, reachable: is_reachable(at, workers, &kind) },
            Some(Sighting::Present(mirror)) => Phase::Running { at, mirror },
            sighting => {
                let last_seen = match sighting {
                    Some(Sighting::Vanished(mirror)) if mirror.belongs_to(at) => Some(&**mirror),
                    _ => None,
                };
                Phase::Placed { at, reachable: is_reachable(at, workers, &kind), last_seen }
            }
        },
    }
}

/// The last mirror that was there. Its end, if that was seen, is the workload's.
fn last_vanished(known: &Knowledge) -> Option<(&str, &Mirror)> {
    let vanished = known.mirrors.iter().filter_map(|(worker, sighting)| match sighting {
        Sighting::Vanished(mirror) => Some((worker, &**mirror)),
        Sighting::Present(_) => None,
    });
    vanished.max_by_key(|(_, mirror)| mirror.epoch)
}

/// Whether the placement's worker is live and still the same cluster.
fn is_reachable(at: &Placement, workers: &BTreeMap<String, WorkerView>, kind: &KindRef) -> bool {
    workers.get(&at.worker).and_then(|worker| worker.live_for(kind)) == Some(&at.identity)
}

/// The worker that the label of a workload without a record names, if a mirror may be there that we do not see: somebody may
/// have wiped the record off. The label alone may also come from a copy of a manifest; then the wait is needless, and over when
/// that worker is seen.
pub(crate) fn hiding_place<'a>(
    workload: &'a Workload,
    workers: &'a BTreeMap<String, WorkerView>,
) -> Option<(&'a str, &'a WorkerView)> {
    let (name, worker) = workers.get_key_value(workload.worker_label.as_ref()?)?;
    worker.may_hide(&workload.kind()).then_some((name, worker))
}
