//! What is known of mirrors: what the workers' watches say, and what fresh reads prove.

use std::collections::BTreeSet;

use jobferry_core::{
    claim::Misfit,
    custom::KindRef,
    knowledge::{Absence, Knowledge, Sighting},
    record::Placement,
    workload::{Mirror, Workload},
};

use super::{Index, Kept, State, Uid, is_older, uid_of};

impl Index {
    /// A worker's whole list of mirrors of one kind, in one namespace or in all. Those that were known and are not in it have vanished;
    /// workloads that are placed there without a mirror want a look as well.
    pub(crate) fn reset_mirrors(
        &self,
        worker: &str,
        kind: &KindRef,
        namespace: Option<&str>,
        mirrors: Vec<Kept<Mirror>>,
    ) -> Vec<Uid> {
        let mut state = self.lock();
        *state.lists.entry(worker.to_owned()).or_default().entry(kind.name()).or_default() += 1;
        let listed: BTreeSet<&str> = mirrors.iter().map(|m| m.origin_uid.as_str()).collect();
        let concerned = |known: &Knowledge| {
            (known.mirrors.is_known_on(worker) || known.placed_on() == Some(worker))
                && known.kind().is_some_and(|known| known.is(kind))
                && namespace.is_none_or(|namespace| namespace_of(known, worker) == Some(namespace))
        };
        let missing = state.workloads.iter().filter(|(uid, known)| !listed.contains(uid.as_str()) && concerned(known));
        let mut touched: Vec<Uid> = missing.map(|(uid, _)| uid.clone()).collect();
        touched.sort_unstable();
        for uid in &touched {
            state.change(uid, |known| {
                vanish(known, worker);
                forget_version(known, worker);
            });
        }
        for mirror in mirrors {
            // A list is the truth, even if its versions went back.
            touched.extend(state.take_over(worker, mirror));
        }
        touched
    }

    /// How many lists of mirrors of a workload's kind a worker has given.
    pub(crate) fn lists_of(&self, worker: &str, uid: &str) -> u64 {
        let state = self.lock();
        let kind = state.workloads.get(uid).and_then(|known| known.kind());
        kind.map_or(0, |kind| state.lists_of(worker, &kind))
    }

    /// The watch says that a mirror was created or changed.
    pub(crate) fn apply_mirror(&self, worker: &str, mirror: impl Into<Box<Mirror>>) -> Vec<Uid> {
        let mut state = self.lock();
        state.see(worker, mirror.into()).into_iter().collect()
    }

    /// A mirror is in the answer to a request, before which so many `lists` of the worker had come. What a later list does
    /// not have is gone, or the watch that follows it will show it: a fresh read tells.
    pub(crate) fn hear_of_mirror(&self, worker: &str, mirror: impl Into<Box<Mirror>>, lists: u64) -> Vec<Uid> {
        let mirror = mirror.into();
        let mut state = self.lock();
        let outlisted = state.is_outlisted(worker, &mirror, lists);
        let touched = if outlisted { state.doubt(worker, mirror) } else { state.see(worker, mirror) };
        touched.into_iter().collect()
    }

    /// A fresh read, made because the worker did not know the version `before` that a decision was made on. If its versions
    /// went back (a backup was restored) the answer is the truth nevertheless, as long as nothing else was seen meanwhile.
    pub(crate) fn correct_mirror(
        &self,
        worker: &str,
        mirror: impl Into<Box<Mirror>>,
        before: &str,
        lists: u64,
    ) -> Vec<Uid> {
        let mirror = mirror.into();
        let mut state = self.lock();
        let outlisted = state.is_outlisted(worker, &mirror, lists);
        let known = state.workloads.get(&mirror.origin_uid).and_then(|known| known.mirrors.get(worker));
        let unchanged = known
            .map(Sighting::mirror)
            .is_some_and(|seen| (seen.uid.as_str(), seen.resource_version.as_str()) == (&mirror.uid, before));
        let touched = match (outlisted, unchanged) {
            (true, _) => state.doubt(worker, mirror),
            (false, true) => state.take_over(worker, mirror),
            (false, false) => state.see(worker, mirror),
        };
        touched.into_iter().collect()
    }

    /// A mirror is no longer to be seen; `last` is its last state.
    pub(crate) fn delete_mirror(&self, worker: &str, last: impl Into<Box<Mirror>>) -> Vec<Uid> {
        let mut state = self.lock();
        let touched = state.lose(worker, last.into());
        touched.into_iter().collect()
    }

    /// A delete of ours was accepted: no need to send it again before the watch tells.
    pub(crate) fn mark_deleting(&self, uid: &str, worker: &str, mirror_uid: &str) {
        self.change_mirror(uid, worker, mirror_uid, |sighting| {
            if let Sighting::Present(mirror) = sighting {
                mirror.deleting = true;
            }
        });
    }

    /// A fresh read says that the mirror is not there any more.
    pub(crate) fn mark_vanished(&self, uid: &str, worker: &str, mirror_uid: &str) {
        self.change_mirror(uid, worker, mirror_uid, |sighting| {
            if let Sighting::Present(mirror) = sighting {
                *sighting = Sighting::Vanished(mirror.clone());
            }
        });
    }

    fn change_mirror(&self, uid: &str, worker: &str, mirror_uid: &str, change: impl FnOnce(&mut Sighting)) {
        let mut state = self.lock();
        if state.workloads.contains_key(uid) {
            state.change(uid, |known| {
                if let Some(sighting) = known.mirrors.get_mut(worker).filter(|seen| uid_of(seen) == mirror_uid) {
                    change(sighting);
                }
            });
        }
    }

    /// The UID of the mirror that was last seen on a worker.
    pub(crate) fn last_seen(&self, uid: &str, worker: &str) -> Option<String> {
        self.lock().workloads.get(uid)?.mirrors.get(worker).map(|sighting| uid_of(sighting).to_owned())
    }

    /// A fresh read for this placement found nothing; `before` is what had been seen when it was sent. A mirror that
    /// showed up in between is younger than the answer.
    pub(crate) fn prove_absent(&self, uid: &str, at: &Placement, before: Option<&str>, pods: bool) {
        let mut state = self.lock();
        let Some(known) = state.workloads.get(uid) else { return };
        if known.mirrors.get(&at.worker).map(uid_of) == before {
            state.change(uid, |known| {
                known.memory.absent = Some(Absence::proved_for(at));
                known.memory.evidence = pods.then_some(at.epoch);
                vanish(known, &at.worker);
            });
        }
    }

    /// The worker made something unusable of the mirror: it is deleted, and what is seen of it until then does not count.
    pub(crate) fn discard(&self, uid: &str, worker: &str, mirror_uid: &str, misfit: &Misfit) {
        let mut state = self.lock();
        if state.workloads.contains_key(uid) {
            state.change(uid, |known| {
                known.memory.discarded = Some(Box::new((mirror_uid.to_owned(), misfit.clone())));
                let Some(seen) = known.mirrors.get(worker).map(Sighting::mirror) else { return };
                // What has come to its end is a result.
                if seen.uid == mirror_uid && !seen.is_finished() {
                    known.mirrors.remove(worker);
                }
            });
        }
    }

    /// Somebody has put the discarded mirror right: it counts from now on.
    pub(crate) fn keep(&self, uid: &str) {
        self.remember(uid, |memory| memory.discarded = None);
    }

    /// Whether something runs on this worker, as far as is seen, that has to be removed: of workloads that are gone, were ended
    /// without their mirror, or are placed elsewhere.
    pub(crate) fn has_leftovers_on(&self, worker: &str) -> bool {
        let runs = |known: &Knowledge| {
            let seen = known.mirrors.get(worker);
            matches!(seen, Some(Sighting::Present(mirror)) if !mirror.is_finished() && !mirror.deleting)
        };
        self.lock().workloads.values().any(|known| known.placed_on() != Some(worker) && runs(known))
    }

    /// Whether no mirror of it was ever seen.
    pub(crate) fn has_no_mirror(&self, uid: &str) -> bool {
        self.lock().workloads.get(uid).is_none_or(|known| known.mirrors.is_empty())
    }

    /// What was wrong with a mirror, if it was discarded.
    pub(crate) fn discarded(&self, uid: &str, mirror_uid: &str) -> Option<Misfit> {
        let state = self.lock();
        let discarded = state.workloads.get(uid)?.memory.discarded.as_ref();
        discarded.filter(|discarded| discarded.0 == mirror_uid).map(|discarded| discarded.1.clone())
    }
}

impl State {
    /// Whether a list has come since that does not have it. Taken for the present, it would stay so: of what a list left
    /// out no watch tells the end.
    fn is_outlisted(&self, worker: &str, mirror: &Mirror, lists: u64) -> bool {
        let sighting = self.workloads.get(&mirror.origin_uid).and_then(|known| known.mirrors.get(worker));
        let in_sight = matches!(sighting, Some(Sighting::Present(seen)) if seen.uid == mirror.uid);
        !in_sight && self.lists_of(worker, &mirror.kind()) != lists
    }

    fn lists_of(&self, worker: &str, kind: &KindRef) -> u64 {
        self.lists.get(worker).and_then(|lists| lists.get(&kind.name())).copied().unwrap_or_default()
    }

    /// One state of a mirror. An answer that the watch has overtaken is the past.
    fn see(&mut self, worker: &str, mirror: Box<Mirror>) -> Option<Uid> {
        let known = self.workloads.get(&mirror.origin_uid).and_then(|known| known.mirrors.get(worker));
        if known.is_some_and(|sighting| overtakes(sighting, &mirror)) {
            return None;
        }
        self.take_over(worker, mirror)
    }

    /// The last state of a mirror that is gone.
    fn lose(&mut self, worker: &str, last: Box<Mirror>) -> Option<Uid> {
        let uid = last.origin_uid.clone();
        let known = self.workloads.get(&uid)?;
        // What never counted was not there.
        if is_discarded(known, &last) || !bears_name(known, &last) {
            return None;
        }
        // The end of an old mirror says nothing about a new one of the same name; and a result that was seen stays one.
        let is_past = |seen: &Sighting| overtakes(seen, &last) || (seen.mirror().is_finished() && !last.is_finished());
        if known.mirrors.get(worker).is_some_and(|seen| uid_of(seen) != last.uid || is_past(seen)) {
            return None;
        }
        self.change(&uid, |known| {
            known.mirrors.insert(worker, Sighting::Vanished(last));
        });
        Some(uid)
    }

    /// A mirror that was there, and may be gone. A proof of its absence may be from before it came.
    fn doubt(&mut self, worker: &str, last: Box<Mirror>) -> Option<Uid> {
        let uid = self.lose(worker, last)?;
        self.change(&uid, |known| {
            known.memory.absent = None;
            forget_version(known, worker);
        });
        Some(uid)
    }

    /// The present state of a mirror. What is remembered of its workload stays, also if there is nothing else of it.
    fn take_over(&mut self, worker: &str, mirror: Box<Mirror>) -> Option<Uid> {
        // Without the UID of its origin it is not ours, whatever its labels say.
        let uid = Some(mirror.origin_uid.clone()).filter(|uid| !uid.is_empty())?;
        let known = self.workloads.get(&uid);
        if known.is_some_and(|known| !bears_name(known, &mirror)) {
            return None;
        }
        if known.is_some_and(|known| is_discarded(known, &mirror)) {
            return None;
        }
        self.change(&uid, |known| {
            known.memory.absent = None;
            known.memory.gone = None;
            known.memory.status_refused = None;
            known.memory.refusals.remove(worker);
            if !known.mirrors.is_known_on(worker) {
                known.memory.failures = None;
            }
            known.mirrors.insert(worker, Sighting::Present(mirror));
        });
        Some(uid)
    }
}

/// The namespace of a workload or, when it is gone, of the mirror that it left on this worker.
fn namespace_of<'a>(known: &'a Knowledge, worker: &str) -> Option<&'a str> {
    let mirror = known.mirrors.get(worker).map(Sighting::mirror);
    let workload = known.workload.as_ref().map(|workload| workload.namespace.as_str());
    workload.or(mirror.map(|mirror| mirror.namespace.as_str()))
}

fn vanish(known: &mut Knowledge, worker: &str) {
    if let Some(sighting) = known.mirrors.get_mut(worker)
        && let Sighting::Present(mirror) = sighting
    {
        *sighting = Sighting::Vanished(mirror.clone());
    }
}

/// A list is the truth: whatever is seen after it is later than a mirror that it does not have, also if the worker's versions
/// went back (a backup was restored).
fn forget_version(known: &mut Knowledge, worker: &str) {
    if let Some(Sighting::Vanished(mirror)) = known.mirrors.get_mut(worker) {
        mirror.resource_version.clear();
    }
}

/// Whether it is called as its workload. One that is not was copied from a mirror by somebody, marks and all.
fn bears_name(known: &Knowledge, mirror: &Mirror) -> bool {
    let is_its = |workload: &Workload| workload.namespace == mirror.namespace && workload.name == mirror.name;
    known.workload.as_deref().is_none_or(is_its)
}

/// Whether it is being deleted, because it never counted; unless it was faster and has come to its end: that is a result.
fn is_discarded(known: &Knowledge, mirror: &Mirror) -> bool {
    known.memory.discarded.as_ref().is_some_and(|discarded| discarded.0 == mirror.uid) && !mirror.is_finished()
}

/// Whether a sighting says more than this state of a mirror: it is of the same object and later.
fn overtakes(sighting: &Sighting, mirror: &Mirror) -> bool {
    let known = sighting.mirror();
    known.uid == mirror.uid && is_older(&mirror.resource_version, &known.resource_version)
}
