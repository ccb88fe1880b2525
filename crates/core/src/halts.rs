//! Whether anything new of a kind may be placed at all. Where that is not known, or would not be safe, what runs goes on and
//! nothing is added to it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    custom::KindRef,
    placement::{KindLink, WorkerView},
};

/// The workers, by name.
type Workers = BTreeMap<String, WorkerView>;

/// Why nothing new may be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// Whether anything may be is being found out: nobody needs to be told.
    Undecided,
    /// It would not be safe.
    Because(String),
}

/// All that may stop the placing of something.
#[derive(Debug, Default)]
pub struct Halts {
    /// What the [canary](crate::canary) tells.
    pub canary: Option<Halt>,
    /// The manager was restored from a backup.
    restored: Option<Restored>,
    /// The first looks at the mirrors of each kind that are not over.
    first_looks: Vec<FirstLook>,
}

/// Any mirror may tell of a restore: nothing of its kind is placed before the workers were asked.
#[derive(Debug)]
struct FirstLook {
    kind: KindRef,
    /// Workers that were there when it began, and have not answered yet.
    unasked: BTreeSet<String>,
}

/// It may have forgotten placements, so a workload without one may still have a mirror somewhere.
#[derive(Debug)]
struct Restored {
    /// A mirror that is younger than the manager's own version.
    mirror: String,
    /// The workers that there were when that was found.
    workers: BTreeSet<String>,
    /// Which of them have shown their mirrors of which kind since. Other kinds may come into use at any time.
    seen: BTreeSet<(String, String)>,
}

impl Halts {
    /// Why nothing of this kind may be placed, if so.
    pub fn of(&self, kind: &KindRef, workers: &Workers) -> Option<Halt> {
        // Mostly there is nothing at all, and every plan asks.
        if self.canary.is_none() && self.restored.is_none() && self.first_looks.is_empty() {
            return None;
        }
        self.of_name(&kind.name(), workers)
    }

    fn of_name(&self, kind: &str, workers: &Workers) -> Option<Halt> {
        let forgotten = || self.restored.as_ref()?.halt(workers, kind);
        let mut looks = self.first_looks.iter();
        let undecided = looks.any(|look| look.kind.name() == kind && !look.unasked.is_empty());
        self.canary.clone().or_else(forgotten).or(undecided.then_some(Halt::Undecided))
    }

    /// Whether placing is stopped, of any kind.
    pub fn stop_something(&self, workers: &Workers) -> bool {
        let kinds: BTreeSet<&String> = workers.values().flat_map(|worker| worker.kinds.keys()).collect();
        let stopped = |kind: &str| matches!(self.of_name(kind, workers), Some(Halt::Because(_)));
        stopped(&KindRef::Job.name()) || kinds.into_iter().any(|kind| stopped(kind))
    }

    /// The manager is older than this mirror: all workers must be seen before anything is placed.
    pub fn find_restored(&mut self, mirror: String, workers: &Workers) {
        let over = |restored: &Restored| restored.unseen(workers, &KindRef::Job.name()).is_none();
        if self.restored.as_ref().is_none_or(over) {
            let (seen, there) = (BTreeSet::new(), workers.keys().cloned().collect());
            self.restored = Some(Restored { mirror, workers: there, seen });
            self.settle(workers);
        }
    }

    /// Before these workers were asked, it is not known whether the manager was restored.
    pub fn await_first_look(&mut self, kind: &KindRef, workers: &Workers) {
        self.end_first_look(kind);
        self.first_looks.push(FirstLook { kind: kind.clone(), unasked: workers.keys().cloned().collect() });
        self.settle(workers);
    }

    /// All workers are known: those that have not been asked are waited for.
    pub fn await_first_looks(&mut self, workers: &Workers) {
        let begun: Vec<KindRef> = self.first_looks.iter().map(|look| look.kind.clone()).collect();
        for kind in begun.iter().chain([&KindRef::Job]) {
            self.await_first_look(kind, workers);
        }
    }

    /// Workers that have not shown their mirrors of this kind by now are not waited for.
    pub fn end_first_look(&mut self, kind: &KindRef) {
        self.first_looks.retain(|look| !look.kind.is(kind));
    }

    /// Nobody looks at the mirrors of the kind of this name any more.
    pub fn forget_kind(&mut self, name: &str) {
        self.first_looks.retain(|look| look.kind.name() != name);
    }

    /// To be called when a worker has changed.
    pub fn settle(&mut self, workers: &Workers) {
        for FirstLook { kind, unasked } in &mut self.first_looks {
            unasked.retain(|name| workers.get(name).is_some_and(|worker| worker.is_being_asked(kind)));
        }
        let Some(Restored { workers: there, seen, .. }) = &mut self.restored else { return };
        for (name, worker) in workers.iter().filter(|(name, _)| there.contains(*name)) {
            seen.extend(kinds_in_sight(worker).into_iter().map(|kind| (name.clone(), kind)));
        }
    }
}

impl Restored {
    /// A worker that has not shown its mirrors of this kind yet.
    fn unseen<'a>(&'a self, workers: &Workers, kind: &str) -> Option<&'a str> {
        let unseen = |name: &&String| !self.seen.contains(&((*name).clone(), kind.to_owned()));
        self.workers.iter().filter(|name| workers.contains_key(*name)).find(unseen).map(String::as_str)
    }

    fn halt(&self, workers: &Workers, kind: &str) -> Option<Halt> {
        let worker = self.unseen(workers, kind)?;
        let view = workers.get(worker)?;
        let mirror = &self.mirror;
        let what = match view.kinds.get(kind) {
            _ if view.live_identity().is_none() => "is not connected",
            Some(KindLink::Forbidden { why }) => why.as_str(),
            _ => "has not shown its mirrors of this kind",
        };
        Some(Halt::Because(format!(
            "the management cluster is older than the mirror {mirror}: it was restored from a backup, and may have \
             forgotten what it placed; placing goes on when every worker was seen, and {worker} {what}"
        )))
    }
}

/// The kinds of which this worker hides no mirror from us.
fn kinds_in_sight(worker: &WorkerView) -> Vec<String> {
    if worker.live_identity().is_none() {
        return Vec::new();
    }
    let in_sight = |link: &KindLink| matches!(link, KindLink::Listed | KindLink::Missing { .. });
    let others = worker.kinds.iter().filter(|(_, link)| in_sight(link)).map(|(name, _)| name.clone());
    others.chain([KindRef::Job.name()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Link;

    fn live() -> WorkerView {
        WorkerView { link: Link::Live { identity: "an-identity".into() }, ..WorkerView::default() }
    }

    fn workers<const N: usize>(workers: [(&str, WorkerView); N]) -> Workers {
        workers.into_iter().map(|(name, worker)| (name.to_owned(), worker)).collect()
    }

    #[test]
    fn nothing_is_placed_before_every_worker_has_answered_once() {
        let (mut halts, kind) = (Halts::default(), KindRef::Job);
        let connecting = workers([("eu-1", live()), ("us-1", WorkerView::default())]);
        halts.await_first_looks(&connecting);
        assert_eq!(halts.of(&kind, &connecting), Some(Halt::Undecided));
        assert!(!halts.stop_something(&connecting), "it will be known in a moment");
        let connected = workers([("eu-1", live()), ("us-1", live())]);
        halts.settle(&connected);
        assert_eq!(halts.of(&kind, &connected), None);
    }

    #[test]
    fn a_worker_that_does_not_answer_is_not_waited_for_longer_than_the_first_look_lasts() {
        let (mut halts, connecting) = (Halts::default(), workers([("us-1", WorkerView::default())]));
        halts.await_first_looks(&connecting);
        halts.end_first_look(&KindRef::Job);
        assert_eq!(halts.of(&KindRef::Job, &connecting), None);
    }

    #[test]
    fn after_a_restore_the_worker_that_was_not_seen_yet_is_named() {
        let (mut halts, away) = (Halts::default(), workers([("eu-1", live()), ("us-1", WorkerView::default())]));
        halts.find_restored("ml/train".into(), &away);
        let Some(Halt::Because(why)) = halts.of(&KindRef::Job, &away) else { panic!("it may have forgotten things") };
        assert!(why.contains("older than the mirror ml/train") && why.ends_with("us-1 is not connected"), "{why}");
        assert!(halts.stop_something(&away));
        let back = workers([("eu-1", live()), ("us-1", live())]);
        halts.settle(&back);
        assert_eq!(halts.of(&KindRef::Job, &back), None);
    }

    #[test]
    fn after_a_restore_a_worker_that_is_no_longer_registered_is_not_waited_for() {
        let (mut halts, away) = (Halts::default(), workers([("us-1", WorkerView::default())]));
        halts.find_restored("ml/train".into(), &away);
        assert_eq!(halts.of(&KindRef::Job, &workers([])), None);
    }

    #[test]
    fn what_the_canary_tells_comes_first() {
        let (mut halts, away) = (Halts::default(), workers([("us-1", WorkerView::default())]));
        halts.find_restored("ml/train".into(), &away);
        halts.canary = Some(Halt::Because("somebody acts on delegated Jobs".into()));
        assert_eq!(halts.of(&KindRef::Job, &away), halts.canary);
    }
}
