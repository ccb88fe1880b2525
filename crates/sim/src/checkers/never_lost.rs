//! never-lost: once a mirror has finished, its result reaches the manager.
//!
//! Documented limit: when somebody else deletes the mirror, its end may never have been seen.

use super::{Checker, Rest, Violation, words};
use crate::truth::Truth;

pub(super) struct NeverLost;

impl Checker for NeverLost {
    fn at_rest(&mut self, rest: Rest, truth: &Truth) -> Vec<Violation> {
        if rest != Rest::Settled {
            return Vec::new();
        }
        let mut found = Vec::new();
        for workload in truth.workloads().filter(|workload| !workload.deleting) {
            let Some(history) = truth.history(&workload.uid).filter(|history| !history.meddled) else { continue };
            let Some(expected) = &history.mirror_ending else { continue };
            if history.ending.as_ref() == Some(expected) {
                continue;
            }
            let shown = history.ending.as_deref().unwrap_or("unfinished");
            let what = format!("the mirror of {} ended as {expected}, the workload shows {shown}", workload.name);
            found.push(Violation { promise: "never-lost", about: words(truth, &workload.uid), what });
        }
        found
    }
}
