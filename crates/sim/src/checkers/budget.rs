//! write budget: what a dispatcher writes is bounded by what happens to a workload, not by how long it looks at it.

use std::collections::BTreeMap;

use http::Method;

use super::{Checker, Rest, Seen, Violation, words};
use crate::hub::Exchange;
use crate::truth::{Role, Truth, is_manager};

/// Writes on the manager beyond one for each change of the mirror or by the user: the placement, its renewals by a
/// dispatcher that takes over, the word to people while it waits.
const ALLOWANCE: u64 = 30;

/// Writes that one dispatcher may ask for at one path in a whole run, carried out or not. Back-off keeps an honest one far
/// below; a loop without a pause is above it within a second.
const STORM: u64 = 500;
/// The same for each workload, at the path where all of them are created.
const CREATES: u64 = 30;

#[derive(Default)]
pub(super) struct Budget {
    /// Writes that were carried out, by workload.
    written: BTreeMap<String, u64>,
    /// Writes that were asked for, by dispatcher, cluster and path.
    asked: BTreeMap<(String, String, String), u64>,
}

impl Checker for Budget {
    fn see(&mut self, seen: &Seen<'_>, truth: &Truth) -> Vec<Violation> {
        let Seen::Asked(exchange) = seen else { return Vec::new() };
        if exchange.role != Role::Dispatcher {
            return Vec::new();
        }
        let is_patch = is_manager(&exchange.cluster) && exchange.method == Method::PATCH && exchange.succeeded();
        if let Some(workload) = exchange.target.as_ref().filter(|_| is_patch) {
            *self.written.entry(workload.uid.clone()).or_default() += 1;
        }
        // A lease is renewed every few seconds, for as long as it is held; Events have a budget of their own and one path
        // for all.
        if exchange.path.contains("/leases") || exchange.path.contains("/events") {
            return Vec::new();
        }
        let key = (exchange.who.clone(), exchange.cluster.clone(), exchange.path.clone());
        let asked = self.asked.entry(key).or_default();
        *asked += 1;
        let creates = if exchange.method == Method::POST { CREATES * truth.histories().len() as u64 } else { 0 };
        if *asked < STORM + creates {
            return Vec::new();
        }
        let Exchange { who, method, path, cluster, .. } = *exchange;
        let what = format!("{who} asked {asked} times for writes like {method} {path} on {cluster}");
        vec![Violation { promise: "budget", about: vec![path.clone()], what }]
    }

    fn at_rest(&mut self, rest: Rest, truth: &Truth) -> Vec<Violation> {
        if rest != Rest::Emptied {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (uid, writes) in &self.written {
            let Some(history) = truth.history(uid) else { continue };
            let allowed = history.mirror_changes + history.user_changes + ALLOWANCE;
            if *writes > allowed {
                let what = format!("{writes} writes for workload {}, allowed {allowed}", history.name);
                found.push(Violation { promise: "budget", about: words(truth, uid), what });
            }
        }
        found
    }
}
