//! never-lost: once a mirror has finished, its result reaches the manager: how it ended, why, and what it counted. And no
//! result is shown that no mirror came to.
//!
//! Documented limits: when somebody else deletes the mirror, its end may never have been seen; a workload whose worker was
//! lost for as long as its policy or its own deadline allows has failed, whatever its mirror comes to; what an old Job controller of the
//! management cluster runs itself is left to it; an end that somebody else wrote stands; what a management cluster that was
//! turned back has again, though it was deleted, begins anew; a mirror from which somebody took our mark is not found where no
//! Worker of the recorded name leads.

use std::collections::BTreeSet;

use http::Method;
use jobferry_api::conditions;
use jobferry_core::time::LOSS_NOTICED;

use super::{Checker, Rest, Seen, Violation, calm, words};
use crate::facts::JobFacts;
use crate::hub::Exchange;
use crate::truth::{DEADLINE_EXCEEDED, History, Role, Truth, is_manager};

#[derive(Default)]
pub(super) struct NeverLost {
    /// Workloads that were ended by a dispatcher which had missed their worker for a minute: past its deadline, or in the
    /// direction that was announced, a Job ends with what was counted when the worker was last seen.
    ended_unseen: BTreeSet<String>,
}

impl Checker for NeverLost {
    fn see(&mut self, seen: &Seen<'_>, truth: &Truth) -> Vec<Violation> {
        match seen {
            Seen::Asked(exchange) => self.ended_unseen.extend(ended_unseen(exchange, truth)),
            Seen::Changed { cluster, before, after: Some(after), by: Role::Dispatcher } if is_manager(cluster) => {
                let is_end = before.is_none_or(|before| before.ending.is_none());
                return invented(after, truth).filter(|_| is_end).into_iter().collect();
            }
            _ => {}
        }
        Vec::new()
    }

    fn at_rest(&mut self, rest: Rest, truth: &Truth) -> Vec<Violation> {
        if rest != Rest::Settled {
            return Vec::new();
        }
        let is_exempt = |history: &History| {
            let foreign = history.meddled || history.acted_on || history.ended_by_others || history.resurrected;
            foreign || history.was_given_up()
        };
        let mut found = Vec::new();
        for (uid, history) in truth.histories().iter().filter(|(_, history)| !is_exempt(history)) {
            let Some(expected) = &history.mirror_ending else { continue };
            let workload = truth.workloads().find(|workload| workload.uid == *uid);
            let shown = history.ending.as_ref().map(|(kind, _)| kind);
            let what = match (workload, shown) {
                // Whoever deletes it need not wait for its end.
                (_, None) if workload.is_none_or(|workload| workload.deleting) => continue,
                (Some(workload), Some(shown)) if shown == expected => {
                    let seen = !self.ended_unseen.contains(uid);
                    let Some(difference) = other_result(workload, history, truth).filter(|_| seen) else { continue };
                    format!("{} and its mirror ended as {expected}, but {difference}", workload.name)
                }
                (None, Some(shown)) if shown == expected => continue,
                (Some(workload), None) if is_out_of_sight(workload, truth) => continue,
                _ => {
                    let shown = shown.map_or("unfinished", String::as_str);
                    format!("the mirror of {} ended as {expected}, the workload shows {shown}", history.name)
                }
            };
            found.push(Violation { promise: "never-lost", about: words(truth, uid), what });
        }
        found
    }
}

/// A mirror without the mark that our watches go by, in a cluster that its Worker does not lead to: there was a time when
/// Secrets were mixed up.
fn is_out_of_sight(workload: &JobFacts, truth: &Truth) -> bool {
    let Some(at) = &workload.placement else { return false };
    truth.on_workers(&workload.uid).any(|(cluster, mirror)| !mirror.is_mirror() && cluster != at.worker)
}

/// Ends that are the dispatcher's own: `calm` watches these.
const OWN_ENDS: [&str; 3] = [conditions::REASON_WORKER_LOST, conditions::REASON_MIRROR_DELETED, DEADLINE_EXCEEDED];

/// An end that no mirror of this workload came to, or announced. (Those of other kinds have no reasons: any failure of them
/// may be the dispatcher's own.)
fn invented(workload: &JobFacts, truth: &Truth) -> Option<Violation> {
    let end @ (kind, reason) = workload.ending.as_ref()?;
    let is_own = kind == "Failed" && (reason.is_empty() || OWN_ENDS.contains(&reason.as_str()));
    let was_said = truth.history(&workload.uid)?.mirrors_said.contains(end);
    let what = || format!("{} is shown as {kind} ({reason}), which no mirror of it says", workload.name);
    let found = || Violation { promise: "never-lost", about: words(truth, &workload.uid), what: what() };
    (!is_own && !was_said).then(found)
}

/// The workload that this ends, if its worker was out of sight then.
fn ended_unseen(exchange: &Exchange, truth: &Truth) -> Option<String> {
    let is_patch = exchange.method == Method::PATCH && is_manager(&exchange.cluster) && exchange.succeeded();
    let workload = exchange.target.as_ref().filter(|_| exchange.role == Role::Dispatcher && is_patch)?;
    let ends = workload.ending.is_none() && truth.history(&workload.uid)?.ending.is_some();
    let missed = calm::missed(exchange, workload.placement.as_ref()?, truth);
    (ends && missed.is_none_or(|missed| missed >= LOSS_NOTICED)).then(|| workload.uid.clone())
}

/// What a Job counts.
const COUNTS: [&str; 4] = ["succeeded", "failed", "completedIndexes", "failedIndexes"];

/// In what a workload differs from its mirror: of those that had one only, which is still there.
fn other_result(workload: &JobFacts, history: &History, truth: &Truth) -> Option<String> {
    let (_, mirror) = truth.on_workers(&workload.uid).find(|(_, mirror)| mirror.ending.is_some())?;
    if history.mirrors.len() != 1 {
        return None;
    }
    if mirror.ending != workload.ending {
        return Some(format!("it says {:?}, its mirror {:?}", workload.ending, mirror.ending));
    }
    // It may have ended without hearing that it was to shrink: what is shown is the user's size.
    if history.resized {
        return None;
    }
    let differs = |count: &&str| workload.status[*count] != mirror.status[*count];
    let count = COUNTS.into_iter().find(|count| differs(count))?;
    Some(format!("it has {count} {}, its mirror {}", workload.status[count], mirror.status[count]))
}
