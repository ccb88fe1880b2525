//! never-lost: once a mirror has finished, its result reaches the manager.
//!
//! Documented limits: when somebody else deletes the mirror, its end may never have been seen; a workload whose worker was
//! lost for as long as its policy or its own deadline allows has failed, whatever its mirror comes to; what an old Job controller of the
//! management cluster runs itself is left to it; an end that somebody else wrote stands; what a management cluster that was
//! turned back has again, though it was deleted, begins anew.

use super::{Checker, Rest, Violation, words};
use crate::truth::{History, Truth};

pub(super) struct NeverLost;

impl Checker for NeverLost {
    fn at_rest(&mut self, rest: Rest, truth: &Truth) -> Vec<Violation> {
        if rest != Rest::Settled {
            return Vec::new();
        }
        let mut found = Vec::new();
        for workload in truth.workloads().filter(|workload| !workload.deleting) {
            let exempt = |history: &&History| {
                let foreign = history.meddled || history.acted_on || history.ended_by_others || history.resurrected;
                foreign || history.was_given_up()
            };
            let Some(history) = truth.history(&workload.uid).filter(|history| !exempt(history)) else { continue };
            let Some(expected) = &history.mirror_ending else { continue };
            let shown = history.ending.as_ref().map_or("unfinished", |(kind, _)| kind.as_str());
            if shown == expected {
                continue;
            }
            let what = format!("the mirror of {} ended as {expected}, the workload shows {shown}", workload.name);
            found.push(Violation { promise: "never-lost", about: words(truth, &workload.uid), what });
        }
        found
    }
}
