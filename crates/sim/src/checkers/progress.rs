//! progress: some time after the last fault every workload is finished, or waits and says why.

use super::{Checker, Rest, Violation, words};
use crate::truth::Truth;

pub(super) struct Progress;

impl Checker for Progress {
    fn at_rest(&mut self, rest: Rest, truth: &Truth) -> Vec<Violation> {
        if rest != Rest::Settled {
            return Vec::new();
        }
        let stuck = truth.workloads().filter(|workload| {
            let explained = workload.suspended || matches!(&workload.told, Some((false, _)));
            workload.ending.is_none() && !workload.deleting && !explained
        });
        stuck
            .map(|workload| {
                let what = format!("{} is neither finished nor waiting with a reason: {:?}", workload.name, workload);
                Violation { promise: "progress", about: words(truth, &workload.uid), what }
            })
            .collect()
    }
}
