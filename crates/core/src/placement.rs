//! Which worker: filters give a verdict on each one, scores choose among those that fit.
//!
//! The verdicts are values; words are made from them in one place, for the condition, the table and the JSON alike.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use jobferry_api::annotations;
use k8s_openapi::jiff::Timestamp;

use crate::{
    fingerprint::fingerprint,
    selector::{Selector, SelectorError},
    workload::Workload,
};

/// How many creates may be under way to one worker. A worker that hangs collects this many workloads and no more.
pub const CREATE_SLOTS: u32 = 64;

/// A worker as placement sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerView {
    /// The labels of its `Worker` object.
    pub labels: BTreeMap<String, String>,
    /// Closed for new workloads.
    pub cordoned: bool,
    /// Whether we can talk to it.
    pub link: Link,
    /// Mirrors that were placed there and whose creation has not been acknowledged yet.
    pub unacknowledged: u32,
    /// Unfinished workloads placed there.
    pub unfinished: u32,
}

/// The connection to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// No answer yet since this process started.
    Connecting,
    /// Its identity is known and its mirrors are listed and watched.
    Live {
        /// UID of its kube-system namespace.
        identity: String,
    },
    /// It answered before and does not now.
    Away {
        /// Since when.
        since: Timestamp,
    },
    /// It must not be used.
    Unfit {
        /// Why, for its condition `Accepted`.
        why: String,
    },
}

impl WorkerView {
    /// Its identity, if it is live.
    pub fn live_identity(&self) -> Option<&str> {
        match &self.link {
            Link::Live { identity } => Some(identity),
            _ => None,
        }
    }
}

/// Why a worker was not chosen, or that it could be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It could take the workload.
    Fits,
    /// Closed for new workloads.
    Cordoned,
    /// No live connection.
    NotConnected,
    /// Its credentials or identity were refused.
    Unfit,
    /// The workload names other workers.
    NotNamed,
    /// The workload's selector does not match its labels.
    SelectorMismatch,
    /// Too many creates are under way already.
    NoFreeSlot,
    /// It refused this workload a while ago.
    Refused,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fits => "fits",
            Self::Cordoned => "cordoned",
            Self::NotConnected => "not connected",
            Self::Unfit => "not accepted",
            Self::NotNamed => "not among the named workers",
            Self::SelectorMismatch => "labels do not match the selector",
            Self::NoFreeSlot => "no free create slot",
            Self::Refused => "refused it",
        })
    }
}

/// The outcome of one placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The chosen worker, if any fits.
    pub chosen: Option<Chosen>,
    /// A verdict on every worker, by name.
    pub verdicts: BTreeMap<String, Verdict>,
}

/// A worker that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its name.
    pub worker: String,
    /// Its identity.
    pub identity: String,
}

/// The workload's own narrowing cannot be read: it is not placed until the user corrects it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("annotation {}: {source}", annotations::WORKER_SELECTOR)]
pub struct NarrowingError {
    source: SelectorError,
}

/// Chooses a worker, none that `refused` this workload. The same input always yields the same decision.
pub fn choose(
    workload: &Workload,
    workers: &BTreeMap<String, WorkerView>,
    refused: impl Fn(&str) -> bool,
) -> Result<Decision, NarrowingError> {
    let narrowing = Narrowed::of(workload)?;
    let judge = |name: &str, worker: &WorkerView| match verdict(name, worker, &narrowing) {
        Verdict::Fits if refused(name) => Verdict::Refused,
        verdict => verdict,
    };
    let verdicts: BTreeMap<_, _> = workers.iter().map(|(name, worker)| (name.clone(), judge(name, worker))).collect();
    let chosen = workers
        .iter()
        .filter(|(name, _)| verdicts.get(*name) == Some(&Verdict::Fits))
        .filter_map(|(name, worker)| Some((name, worker, worker.live_identity()?)))
        .min_by_key(|(name, worker, _)| (worker.unfinished, tie_break(&workload.uid, name)))
        .map(|(name, _, identity)| Chosen { worker: name.clone(), identity: identity.to_owned() });
    Ok(Decision { chosen, verdicts })
}

/// What the workload's annotations mean.
struct Narrowed<'a> {
    names: Option<BTreeSet<&'a str>>,
    selector: Option<Selector>,
}

impl<'a> Narrowed<'a> {
    fn of(workload: &'a Workload) -> Result<Self, NarrowingError> {
        let names = workload.narrowing.workers.as_deref();
        let names = names.map(|names| names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect());
        let selector = workload.narrowing.selector.as_deref().map(Selector::parse).transpose();
        Ok(Self { names, selector: selector.map_err(|source| NarrowingError { source })? })
    }
}

fn verdict(name: &str, worker: &WorkerView, narrowing: &Narrowed<'_>) -> Verdict {
    if narrowing.names.as_ref().is_some_and(|names| !names.contains(name)) {
        return Verdict::NotNamed;
    }
    if narrowing.selector.as_ref().is_some_and(|selector| !selector.matches(&worker.labels)) {
        return Verdict::SelectorMismatch;
    }
    if worker.cordoned {
        return Verdict::Cordoned;
    }
    match worker.link {
        Link::Unfit { .. } => Verdict::Unfit,
        Link::Connecting | Link::Away { .. } => Verdict::NotConnected,
        Link::Live { .. } if worker.unacknowledged >= CREATE_SLOTS => Verdict::NoFreeSlot,
        Link::Live { .. } => Verdict::Fits,
    }
}

/// Spreads workloads over equally loaded workers.
fn tie_break(uid: &str, worker: &str) -> u64 {
    fingerprint(uid.bytes().chain([0]).chain(worker.bytes()))
}

impl Decision {
    /// Why nothing was chosen, coarse enough to stay the same while single workers come and go: a count a reason.
    pub fn why_not(&self) -> String {
        if self.verdicts.is_empty() {
            return "no Worker is registered; add one with `jobferry worker join`".into();
        }
        let mut counts = BTreeMap::new();
        for verdict in self.verdicts.values() {
            *counts.entry(verdict).or_insert(0_u32) += 1;
        }
        let reasons: Vec<_> = counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
        format!("of {} workers none fits: {}", self.verdicts.len(), reasons.join(", "))
    }
}
