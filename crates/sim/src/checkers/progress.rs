//! progress: some time after the last fault every workload is finished and has stopped, or waits and says why, truly. What was
//! deleted is gone.
//!
//! Documented limits: what an old Job controller of the management cluster runs itself is left to it; edits do not reach a
//! mirror from which somebody took the mark that tells which ones it has.

use super::{Checker, Rest, Violation, words};
use crate::truth::Truth;

pub(super) struct Progress;

impl Checker for Progress {
    fn at_rest(&mut self, rest: Rest, truth: &Truth) -> Vec<Violation> {
        let stuck = truth.workloads().filter(|workload| match rest {
            Rest::Settled => !truth.has_settled(workload),
            Rest::Emptied => true,
        });
        stuck
            .map(|workload| {
                let left = match rest {
                    Rest::Settled => "has neither finished and stopped, nor waits for the reason that it tells",
                    Rest::Emptied => "was deleted, and is still there",
                };
                let what = format!("{} {left}: {workload:?}", workload.name);
                Violation { promise: "progress", about: words(truth, &workload.uid), what }
            })
            .collect()
    }
}
