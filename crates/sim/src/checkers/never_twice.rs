//! never-twice: no workload runs in two clusters at once.

use super::{Checker, Seen, Violation, words};
use crate::truth::Truth;

pub(super) struct NeverTwice;

impl Checker for NeverTwice {
    fn see(&mut self, seen: &Seen<'_>, truth: &Truth) -> Vec<Violation> {
        let Seen::Started { workload, .. } = seen else { return Vec::new() };
        let clusters = truth.running_in(workload);
        if clusters.len() < 2 {
            return Vec::new();
        }
        let what = format!("workload {workload} runs in {} at once", clusters.join(" and "));
        vec![Violation { promise: "never-twice", about: words(truth, workload), what }]
    }
}
