//! never-twice: no workload runs in two clusters at once.
//!
//! Documented limits: a worker that is restored from a backup runs again what it had then; an old Job controller of the
//! management cluster runs what is delegated; a management cluster that was turned back has forgotten what runs on a worker
//! that is out of reach just then; one whose record was wiped off, and whose mirror admission hid, is not found.

use super::{Checker, Seen, Violation, words};
use crate::truth::Truth;

pub(super) struct NeverTwice;

impl Checker for NeverTwice {
    fn see(&mut self, seen: &Seen<'_>, truth: &Truth) -> Vec<Violation> {
        let Seen::Started { workload, .. } = seen else { return Vec::new() };
        let clusters = truth.running_in(workload);
        let exempt = truth
            .history(workload)
            .is_some_and(|history| history.turned_back || history.acted_on || history.forgotten || history.untraceable);
        if clusters.len() < 2 || exempt {
            return Vec::new();
        }
        let what = format!("workload {workload} runs in {} at once", clusters.join(" and "));
        vec![Violation { promise: "never-twice", about: words(truth, workload), what }]
    }
}
