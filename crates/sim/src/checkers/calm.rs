//! calm: nothing that runs as it should is stopped, or given up, because of a disconnect, a restart or a doubt of ours.
//!
//! A workload may be given up when its worker is lost and a policy has asked for that, or past its deadline then, but not before
//! the dispatcher that does it has missed that worker for a minute; or when somebody deleted its mirror, but not because another cluster has none, nor when
//! nobody did.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use jobferry_api::conditions;
use jobferry_core::time::LOSS_NOTICED;
use serde_json::Value;

use super::{Checker, Seen, Violation, words};
use crate::facts::{JobFacts, PlacementFacts};
use crate::hub::Exchange;
use crate::truth::{DEADLINE_EXCEEDED, Role, Truth, is_manager};

/// From a decision to its write, at most: what a dispatcher hears meanwhile comes too late for it.
const DECISION_TAKES: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Calm {
    /// Workloads that were given up. Once that is decided, whoever leads then brings it to its end.
    given_up: BTreeSet<String>,
}

impl Checker for Calm {
    fn see(&mut self, seen: &Seen<'_>, truth: &Truth) -> Vec<Violation> {
        let Seen::Asked(exchange) = seen else { return Vec::new() };
        if exchange.role != Role::Dispatcher || !exchange.succeeded() {
            return Vec::new();
        }
        match (is_manager(&exchange.cluster), &exchange.method) {
            (false, &Method::DELETE) => deleted_while_it_ran(exchange, truth).into_iter().collect(),
            (true, &Method::PATCH) => self.given_up_too_soon(exchange, truth).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

fn deleted_while_it_ran(exchange: &Exchange, truth: &Truth) -> Option<Violation> {
    let live = |mirror: &&JobFacts| mirror.ending.is_none() && !mirror.deleting && !mirror.is_altered();
    let mirror = exchange.target.as_ref().filter(live)?;
    let uid = mirror.origin_uid.as_ref()?;
    let workload = truth.workloads().find(|workload| workload.uid == *uid)?;
    if workload.deleting || workload.ending.is_some() {
        return None;
    }
    // One that came after the recorded mirror was deleted by somebody is a second run.
    let is_current = workload.placement.as_ref().is_some_and(|at| {
        at.worker == exchange.cluster
            && Some(at.epoch) == mirror.epoch
            && at.mirror.as_ref().is_none_or(|recorded| *recorded == mirror.uid)
    });
    let what = format!("{} deleted the running mirror of {} on {}", exchange.who, workload.name, exchange.cluster);
    is_current.then(|| Violation { promise: "calm", about: words(truth, uid), what })
}

impl Calm {
    fn given_up_too_soon(&mut self, exchange: &Exchange, truth: &Truth) -> Option<Violation> {
        let workload = exchange.target.as_ref().filter(|workload| workload.ending.is_none())?;
        let (reason, at) = (failure(&exchange.body)?, workload.placement.as_ref()?);
        if !self.given_up.insert(workload.uid.clone()) {
            return None;
        }
        let why_not = match reason.as_str() {
            conditions::REASON_WORKER_LOST => {
                let unasked =
                    (!truth.gives_up(&exchange.cluster)).then(|| "no policy has ever asked for that".to_owned());
                unasked.or_else(|| still_in_touch(exchange, at, truth))
            }
            DEADLINE_EXCEEDED if !truth.history(&workload.uid)?.overran => still_in_touch(exchange, at, truth),
            conditions::REASON_MIRROR_DELETED => asked_another_cluster(workload, at, truth)
                .or_else(|| still_there(workload, at, truth))
                .or_else(|| nobody_deleted_it(workload, truth)),
            _ => None,
        }?;
        let what = format!("{} gave {} up ({reason}), and {why_not}", exchange.who, workload.name);
        Some(Violation { promise: "calm", about: words(truth, &workload.uid), what })
    }
}

/// For which reason this write fails a Job, if it does.
fn failure(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let fails = |condition: &&Value| {
        let is_end = ["FailureTarget", "Failed"].iter().any(|kind| condition["type"] == *kind);
        is_end && condition["status"] == "True"
    };
    let failed = body["status"]["conditions"].as_array()?.iter().find(fails)?;
    failed["reason"].as_str().map(str::to_owned)
}

/// For how long the dispatcher that decided this had missed the worker. A decision is judged by what its dispatcher had heard
/// when it made it; its write may have been under way for long.
pub(super) fn missed(exchange: &Exchange, at: &PlacementFacts, truth: &Truth) -> Option<Duration> {
    let decided = exchange.sent.checked_sub(DECISION_TAKES)?;
    Some(exchange.sent - truth.last_in_touch(&exchange.who, &at.worker, &at.identity, decided)?)
}

fn still_in_touch(exchange: &Exchange, at: &PlacementFacts, truth: &Truth) -> Option<String> {
    let missed = missed(exchange, at, truth)?;
    let what = || format!("has missed {} for {:.1} s only", at.worker, missed.as_secs_f64());
    (missed < LOSS_NOTICED).then(what)
}

/// The very mirror that was recorded is there, and nobody deletes it. (A restore may have brought it back.)
fn still_there(workload: &JobFacts, at: &PlacementFacts, truth: &Truth) -> Option<String> {
    let recorded =
        at.mirror.as_ref().filter(|_| truth.history(&workload.uid).is_some_and(|known| !known.turned_back))?;
    let is_it = |(cluster, job): (&str, &JobFacts)| cluster == at.worker && job.uid == *recorded && !job.deleting;
    truth.on_workers(&workload.uid).any(is_it).then(|| format!("its mirror is still on {}", at.worker))
}

/// What had ended, or was deleted by its user, before the manager was turned back may have lost its mirror as it should.
fn nobody_deleted_it(workload: &JobFacts, truth: &Truth) -> Option<String> {
    let known = truth.history(&workload.uid)?;
    let may_be_gone = known.taken_away || known.resurrected || known.forgotten_end;
    (!may_be_gone).then(|| "nobody deleted its mirror".to_owned())
}

/// Where the mirror was, there is another cluster now: that it has none says nothing.
fn asked_another_cluster(workload: &JobFacts, at: &PlacementFacts, truth: &Truth) -> Option<String> {
    let lost_with = truth.history(&workload.uid)?.lost_with.as_ref()?;
    (*lost_with == at.worker).then(|| format!("{} is another cluster now", at.worker))
}
