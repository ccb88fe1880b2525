//! progress: some time after the last fault every workload is finished, or waits and says why.
//!
//! Documented limits: what an old Job controller of the management cluster runs itself is left to it; edits do not reach a
//! mirror from which somebody took the mark that tells which ones it has.

use super::{Checker, Rest, Violation, words};
use crate::truth::Truth;

pub(super) struct Progress;

impl Checker for Progress {
    fn at_rest(&mut self, rest: Rest, truth: &Truth) -> Vec<Violation> {
        if rest != Rest::Settled {
            return Vec::new();
        }
        let stuck = truth.workloads().filter(|workload| {
            let waits = matches!(&workload.told, Some((false, _))) || truth.waits_for_lost_worker(workload);
            let waits = waits || truth.waits_for_record(workload) || truth.waits_for_edit(workload);
            let acted_on = truth.history(&workload.uid).is_some_and(|history| history.acted_on);
            workload.ending.is_none() && !workload.deleting && !workload.suspended && !waits && !acted_on
        });
        stuck
            .map(|workload| {
                let what = format!("{} is neither finished nor waiting with a reason: {:?}", workload.name, workload);
                Violation { promise: "progress", about: words(truth, &workload.uid), what }
            })
            .collect()
    }
}
