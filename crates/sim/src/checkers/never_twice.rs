//! never-twice: no workload runs in two clusters at once.
//!
//! Documented limits: a worker that is restored from a backup runs again what it had then; an old Job controller of the
//! management cluster runs what is delegated; a management cluster that was turned back has forgotten what runs on a worker
//! that the dispatcher has not seen yet when it places it again; one whose record was wiped off, and whose mirror admission
//! hid, is not found.

use std::collections::BTreeSet;

use http::Method;

use super::{Checker, Seen, Violation, words};
use crate::facts::JobFacts;
use crate::hub::Exchange;
use crate::truth::{Role, Truth, is_manager};

#[derive(Default)]
pub(super) struct NeverTwice {
    /// Workloads whose manager had forgotten where they run, and that were created by somebody who could not see it.
    created_blindly: BTreeSet<String>,
}

impl Checker for NeverTwice {
    fn see(&mut self, seen: &Seen<'_>, truth: &Truth) -> Vec<Violation> {
        if let Seen::Asked(exchange) = seen {
            self.created_blindly.extend(created_blindly(exchange, truth));
        }
        let Seen::Started { workload, .. } = seen else { return Vec::new() };
        let clusters = truth.running_in(workload);
        let limit = truth
            .history(workload)
            .is_some_and(|history| history.turned_back || history.acted_on || history.untraceable);
        if clusters.len() < 2 || limit || self.created_blindly.contains(*workload) {
            return Vec::new();
        }
        let what = format!("workload {workload} runs in {} at once", clusters.join(" and "));
        vec![Violation { promise: "never-twice", about: words(truth, workload), what }]
    }
}

/// The workload that this creates, if its manager was turned back, and it is in another cluster as well which this dispatcher
/// has not seen since it started.
fn created_blindly(exchange: &Exchange, truth: &Truth) -> Option<String> {
    let is_create = exchange.method == Method::POST && !is_manager(&exchange.cluster) && exchange.succeeded();
    if exchange.role != Role::Dispatcher || !is_create {
        return None;
    }
    let workload = JobFacts::of(&serde_json::from_slice(&exchange.body).ok()?).origin_uid?;
    let was_forgotten = truth.history(&workload)?.forgotten;
    let unseen = |cluster: &str| cluster != exchange.cluster && !truth.was_seen(cluster, &exchange.who, exchange.sent);
    let runs_unseen = truth.on_workers(&workload).any(|(cluster, _)| unseen(cluster));
    (was_forgotten && runs_unseen).then_some(workload)
}
