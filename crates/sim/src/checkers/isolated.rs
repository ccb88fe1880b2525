//! isolated: a slow, hung or broken worker delays nothing on the others.
//!
//! When neither the worker nor the manager nor a dispatcher is in trouble, a placement is followed by its mirror at once,
//! and the end of a mirror by the end of its workload, whatever the other workers do. A name that is taken on the worker is
//! another matter.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{Checker, Seen, Violation, words};
use crate::facts::JobFacts;
use crate::truth::{MANAGER, Truth, is_manager};

/// A healthy way takes milliseconds.
const AT_ONCE: Duration = Duration::from_secs(20);
/// What was in trouble is given this time to come round: back-off reaches half a minute, a term of leadership begins with
/// lists.
const CONVALESCENCE: Duration = Duration::from_secs(120);

#[derive(Default)]
pub(super) struct Isolated {
    /// When each workload was placed where it is, by UID.
    placed: BTreeMap<String, (String, u32, Instant)>,
    /// When and where the mirror of each workload ended, by UID.
    ended: BTreeMap<String, (String, Instant)>,
}

impl Checker for Isolated {
    fn see(&mut self, seen: &Seen<'_>, truth: &Truth) -> Vec<Violation> {
        let Seen::Changed { cluster, before, after: Some(after), .. } = seen else { return Vec::new() };
        let found = if is_manager(cluster) {
            self.see_workload(*before, after, truth)
        } else {
            self.see_mirror(cluster, *before, after, truth)
        };
        found.into_iter().collect()
    }
}

impl Isolated {
    fn see_workload(&mut self, before: Option<&JobFacts>, after: &JobFacts, truth: &Truth) -> Option<Violation> {
        let known = before.and_then(|before| before.placement.as_ref());
        if let Some(at) = after.placement.as_ref().filter(|placement| Some(*placement) != known) {
            // A name that an earlier mirror still guards is waited for.
            let is_free = truth.job(&at.worker, &after.name).is_none();
            self.placed.remove(&after.uid);
            if is_free {
                self.placed.insert(after.uid.clone(), (at.worker.clone(), at.epoch, Instant::now()));
            }
        }
        after.ending.as_ref()?;
        let (worker, since) = self.ended.remove(&after.uid)?;
        late(&after.uid, &worker, since, "the end of its mirror was shown", truth)
    }

    fn see_mirror(
        &mut self,
        cluster: &str,
        before: Option<&JobFacts>,
        after: &JobFacts,
        truth: &Truth,
    ) -> Option<Violation> {
        let uid = after.origin_uid.as_ref()?;
        let living = truth.workloads().any(|workload| workload.uid == *uid && workload.ending.is_none());
        if living && after.ending.is_some() && before.is_none_or(|before| before.ending.is_none()) {
            self.ended.insert(uid.clone(), (cluster.to_owned(), Instant::now()));
        }
        if before.is_some() {
            return None;
        }
        let (worker, epoch, since) = self.placed.remove(uid)?;
        let expected = worker == cluster && Some(epoch) == after.epoch;
        late(uid, cluster, since, "its mirror was created", truth).filter(|_| expected)
    }
}

fn late(uid: &str, worker: &str, since: Instant, what: &str, truth: &Truth) -> Option<Violation> {
    let passed = since.elapsed();
    let from = since.checked_sub(CONVALESCENCE).unwrap_or(since);
    if passed <= AT_ONCE || truth.was_trouble_since(from, [worker, MANAGER]) {
        return None;
    }
    let what = format!("{passed:?} passed until {what}, though {worker} was well all the time");
    Some(Violation { promise: "isolated", about: words(truth, uid), what })
}
