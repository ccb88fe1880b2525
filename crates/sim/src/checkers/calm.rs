//! calm: nothing that runs as it should is stopped by a disconnect, a restart or a doubt of ours.

use http::Method;

use super::{Checker, Seen, Violation, words};
use crate::facts::JobFacts;
use crate::truth::{Role, Truth, is_manager};

pub(super) struct Calm;

impl Checker for Calm {
    fn see(&mut self, seen: &Seen<'_>, truth: &Truth) -> Vec<Violation> {
        let Seen::Asked(exchange) = seen else { return Vec::new() };
        let is_delete = exchange.role == Role::Dispatcher && exchange.method == Method::DELETE;
        if !is_delete || is_manager(&exchange.cluster) || !exchange.succeeded() {
            return Vec::new();
        }
        // What the worker's admission made unusable is taken back.
        let altered = |mirror: &JobFacts| !mirror.is_mirror() || mirror.epoch.is_none() || mirror.delegated;
        let live = |mirror: &&JobFacts| mirror.ending.is_none() && !mirror.deleting && !altered(mirror);
        let Some(mirror) = exchange.target.as_ref().filter(live) else { return Vec::new() };
        let Some(uid) = &mirror.origin_uid else { return Vec::new() };
        let workload = truth.workloads().find(|workload| workload.uid == *uid);
        let Some(workload) = workload.filter(|workload| !workload.deleting && workload.ending.is_none()) else {
            return Vec::new();
        };
        // One that came after the recorded mirror was deleted by somebody is a second run.
        let is_current = workload.placement.as_ref().is_some_and(|at| {
            at.worker == exchange.cluster
                && Some(at.epoch) == mirror.epoch
                && at.mirror.as_ref().is_none_or(|recorded| *recorded == mirror.uid)
        });
        if !is_current {
            return Vec::new();
        }
        let what = format!("{} deleted the running mirror of {} on {}", exchange.who, workload.name, exchange.cluster);
        vec![Violation { promise: "calm", about: words(truth, uid), what }]
    }
}
