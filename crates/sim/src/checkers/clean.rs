//! clean: deleting a workload removes its mirror and its processes.

use super::{Checker, Rest, Violation, words};
use crate::truth::Truth;

pub(super) struct Clean;

impl Checker for Clean {
    fn at_rest(&mut self, _: Rest, truth: &Truth) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut report = |uid: &str, what: String| {
            found.push(Violation { promise: "clean", about: words(truth, uid), what });
        };
        for (cluster, mirror) in truth.mirrors() {
            let uid = mirror.origin_uid.as_deref().unwrap_or_default();
            if truth.workloads().all(|workload| workload.uid != uid) {
                report(uid, format!("{cluster} still has mirror {}, its workload {uid} is gone", mirror.name));
            }
        }
        for (uid, _) in truth.histories().iter().filter(|(_, history)| history.deleted) {
            let clusters = truth.running_in(uid);
            if !clusters.is_empty() {
                report(uid, format!("workload {uid} is gone and still runs in {}", clusters.join(", ")));
            }
        }
        found
    }
}
