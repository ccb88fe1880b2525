//! Which worker: filters give a verdict on each one, scores choose among those that fit.
//!
//! The verdicts are values; words are made from them in one place, for the condition, the table and the JSON alike.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use jobferry_api::{MissingKind, annotations::WORKER_SELECTOR};
use k8s_openapi::jiff::Timestamp;

use crate::{
    custom::KindRef,
    fingerprint::fingerprint,
    kind::in_queue,
    policy::{Policies, Policy, PolicyError},
    refusal::Refusal,
    selector::{Selector, SelectorError},
    workload::Workload,
};

/// How many creates may be under way to one worker. A worker that hangs collects this many workloads and no more.
pub const CREATE_SLOTS: u32 = 64;

/// The same, to one whose server failed at a mirror, until it takes one or its time as the last choice is over: otherwise a
/// burst that fills the others would pour into it.
const SLOTS_WHILE_FAILING: u32 = 1;

/// So long a worker whose server failed at a mirror is the last choice: whoever is placed there finds out how it is, and loses
/// a few minutes if it is no better.
pub const LAST_CHOICE: Duration = Duration::from_secs(300);

/// A worker as placement sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerView {
    /// The labels of its `Worker` object.
    pub labels: BTreeMap<String, String>,
    /// Closed for new workloads.
    pub cordoned: bool,
    /// Its `Worker` is deleted, and goes when nothing is placed there any more.
    pub leaving: bool,
    /// The namespaces that it takes workloads of; `None`: all.
    pub namespaces: Option<BTreeSet<String>>,
    /// The minor version of its Kubernetes, once known.
    pub minor: Option<u32>,
    /// It does not answer what is asked of it, though it can be watched.
    pub struggling: bool,
    /// Its server failed at a mirror, and has taken none since: until then (monotonic) it is the last choice.
    pub failing_until: Option<Duration>,
    /// Whether we can talk to it.
    pub link: Link,
    /// What it has of kinds other than Job, by the name of the kind.
    pub kinds: BTreeMap<String, KindLink>,
    /// Mirrors that were placed there and whose creation has not been acknowledged yet.
    pub unacknowledged: u32,
    /// Unfinished workloads placed there.
    pub unfinished: u32,
}

/// The connection to a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Link {
    /// No answer yet since this process started, or none from which anything was concluded.
    #[default]
    Connecting,
    /// Its identity is known and its mirrors are listed and watched.
    Live {
        /// UID of its kube-system namespace.
        identity: String,
    },
    /// It does not answer.
    Away {
        /// Since when, as recorded on its `Worker`, whoever led at that time.
        since: Timestamp,
        /// Since when (monotonic) this process itself could not reach it.
        noticed: Duration,
    },
    /// It must not be used.
    Unfit {
        /// Why, for its condition `Accepted`.
        why: String,
    },
}

/// What a worker has of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KindLink {
    /// Its mirrors are listed and watched.
    Listed,
    /// They were, and are out of sight.
    Unlisted,
    /// It has nothing of this kind.
    Missing {
        /// Its words.
        why: String,
    },
    /// It does not let us look: there may be mirrors all the same.
    Forbidden {
        /// Its words.
        why: String,
    },
}

impl KindLink {
    /// Why the kind cannot be used, in the worker's words.
    pub fn why_not(&self) -> Option<&str> {
        match self {
            Self::Missing { why } | Self::Forbidden { why } => Some(why),
            Self::Listed | Self::Unlisted => None,
        }
    }
}

impl WorkerView {
    /// Whether it may get one more create.
    pub fn has_free_slot(&self, now: Duration) -> bool {
        self.unacknowledged < if self.is_failing(now) { SLOTS_WHILE_FAILING } else { CREATE_SLOTS }
    }

    fn is_failing(&self, now: Duration) -> bool {
        self.failing_until.is_some_and(|until| until > now)
    }

    /// Its identity, if it is live and the mirrors of this kind are in sight.
    pub fn live_for(&self, kind: &KindRef) -> Option<&str> {
        self.live_identity().filter(|_| match kind {
            KindRef::Job => true,
            KindRef::Custom(_) => self.kinds.get(&kind.name()) == Some(&KindLink::Listed),
        })
    }

    /// Whether a mirror of this kind may be there that we do not see.
    pub fn may_hide(&self, kind: &KindRef) -> bool {
        let has_none = || matches!(self.kinds.get(&kind.name()), Some(KindLink::Missing { .. }));
        self.live_for(kind).is_none() && (self.live_identity().is_none() || !has_none())
    }

    /// Whether the first answer is still to come: what it will be is nobody's news.
    pub fn is_being_asked(&self, kind: &KindRef) -> bool {
        let unasked = || matches!(kind, KindRef::Custom(_)) && !self.kinds.contains_key(&kind.name());
        self.link == Link::Connecting || (self.live_identity().is_some() && unasked())
    }

    /// What it says of this kind, if it answers and the kind cannot be used there.
    pub fn lacks(&self, kind: &KindRef) -> Option<&KindLink> {
        self.live_identity()?;
        match kind {
            KindRef::Job => None,
            KindRef::Custom(_) => self.kinds.get(&kind.name()).filter(|link| link.why_not().is_some()),
        }
    }

    /// The kinds that it lacks, as people are told.
    pub fn missing_kinds(&self) -> Vec<MissingKind> {
        let why_not = |link: &KindLink| link.why_not().map(str::to_owned);
        let missing = self.kinds.iter().filter_map(|(name, link)| Some((name.clone(), why_not(link)?)));
        missing.map(|(name, why)| MissingKind { name, why }).collect()
    }

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
    /// Its `Worker` is deleted.
    Leaving,
    /// No live connection.
    NotConnected,
    /// It does not answer requests at the moment.
    Struggling,
    /// Its credentials or identity were refused.
    Unfit,
    /// The workload names other workers.
    NotNamed,
    /// The workload's selector does not match its labels.
    SelectorMismatch,
    /// The policy is for other workers.
    NotInPolicy,
    /// It takes workloads of other namespaces.
    NamespaceNotTaken,
    /// Its Kubernetes would drop fields of the workload's spec.
    TooOld {
        /// The minor version that is needed.
        needs: u32,
    },
    /// It cannot take workloads of this kind.
    NoSuchKind {
        /// Why.
        why: String,
    },
    /// Too many creates are under way already.
    NoFreeSlot,
    /// It refused this workload a while ago.
    Refused {
        /// Its words.
        why: String,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::Refused { why } => return write!(f, "refused it: {why}"),
            Self::NoSuchKind { why } => return f.write_str(why),
            Self::TooOld { needs } => return write!(f, "older than Kubernetes 1.{needs}, which its spec needs"),
            Self::Fits => "fits",
            Self::Cordoned => "cordoned",
            Self::Leaving => "being removed",
            Self::NotConnected => "not connected",
            Self::Struggling => "does not answer requests",
            Self::Unfit => "not accepted",
            Self::NotNamed => "not among the named workers",
            Self::SelectorMismatch => "labels do not match the selector",
            Self::NotInPolicy => "not in its policy",
            Self::NamespaceNotTaken => "does not take its namespace",
            Self::NoFreeSlot => "no free create slot",
        };
        f.write_str(words)
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

/// Why no worker can be chosen at all: the workload waits until somebody corrects it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unplaceable {
    /// The workload's own narrowing cannot be read.
    #[error("annotation {WORKER_SELECTOR}: {0}")]
    Narrowing(#[from] SelectorError),
    /// It has no policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// What a choice is made from.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// The workload that wants a worker.
    pub workload: &'a Workload,
    /// All workers, by name.
    pub workers: &'a BTreeMap<String, WorkerView>,
    /// Who may use which of them.
    pub policies: &'a Policies,
    /// Workers that refused the workload before.
    pub refusals: &'a BTreeMap<String, Refusal>,
    /// The (monotonic) time.
    pub now: Duration,
}

/// Why a workload that was handed to us goes nowhere, whatever the workers say.
pub fn must_stay(workload: &Workload, policies: &Policies) -> Option<String> {
    let custom = workload.custom.as_ref()?;
    // Without a policy there is something else to tell.
    let queues_are_others = policies.of(workload).is_ok_and(|policy| !policy.queues_are_the_workers);
    let queue = custom.queue.as_ref().filter(|_| queues_are_others);
    custom.refused.clone().or_else(|| queue.map(|queue| in_queue(queue)))
}

/// Chooses a worker. The same input always yields the same decision.
pub fn choose(choice: Choice<'_>) -> Result<Decision, Unplaceable> {
    let narrowing = Narrowed::of(choice.workload)?;
    let policy = choice.policies.of(choice.workload)?;
    let judge = |name: &str, worker: &WorkerView| verdict(name, worker, choice, policy, &narrowing);
    let verdicts: BTreeMap<_, _> =
        choice.workers.iter().map(|(name, worker)| (name.clone(), judge(name, worker))).collect();
    let fit = choice.workers.iter().filter(|(name, _)| verdicts.get(*name) == Some(&Verdict::Fits));
    let chosen = fit
        .filter_map(|(name, worker)| Some((name, worker, worker.live_identity()?)))
        .min_by_key(|(name, worker, _)| {
            // One that refused before, or has just failed at another one, is asked only where nobody else fits.
            let refused_before = choice.refusals.contains_key(*name);
            let failing = worker.is_failing(choice.now);
            let weight = Reverse(policy.weight(&worker.labels));
            (refused_before || failing, weight, worker.unfinished, tie_break(&choice.workload.uid, name))
        })
        .map(|(name, _, identity)| Chosen { worker: name.clone(), identity: identity.to_owned() });
    Ok(Decision { chosen, verdicts })
}

/// What the workload's annotations mean.
struct Narrowed<'a> {
    names: Option<BTreeSet<&'a str>>,
    selector: Option<Selector>,
}

impl<'a> Narrowed<'a> {
    fn of(workload: &'a Workload) -> Result<Self, SelectorError> {
        let names = workload.narrowing.workers.as_deref();
        let names = names.map(|names| names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect());
        Ok(Self { names, selector: workload.narrowing.selector.as_deref().map(Selector::parse).transpose()? })
    }
}

/// The filters, one after the other: what lasts comes before what passes.
fn verdict(name: &str, worker: &WorkerView, choice: Choice<'_>, policy: &Policy, narrowing: &Narrowed<'_>) -> Verdict {
    let needs = choice.workload.needs_minor;
    if narrowing.names.as_ref().is_some_and(|names| !names.contains(name)) {
        return Verdict::NotNamed;
    }
    if narrowing.selector.as_ref().is_some_and(|selector| !selector.matches(&worker.labels)) {
        return Verdict::SelectorMismatch;
    }
    if !policy.allows(&worker.labels) {
        return Verdict::NotInPolicy;
    }
    if worker.namespaces.as_ref().is_some_and(|taken| !taken.contains(&choice.workload.namespace)) {
        return Verdict::NamespaceNotTaken;
    }
    if worker.minor.is_some_and(|minor| minor < needs) {
        return Verdict::TooOld { needs };
    }
    if worker.leaving {
        return Verdict::Leaving;
    }
    if worker.cordoned {
        return Verdict::Cordoned;
    }
    match worker.link {
        Link::Unfit { .. } => return Verdict::Unfit,
        Link::Connecting | Link::Away { .. } => return Verdict::NotConnected,
        Link::Live { .. } if worker.struggling => return Verdict::Struggling,
        Link::Live { .. } => {}
    }
    let kind = choice.workload.kind();
    if worker.live_for(&kind).is_none() {
        let why = worker.lacks(&kind).and_then(KindLink::why_not);
        return why.map_or(Verdict::NotConnected, |why| Verdict::NoSuchKind { why: why.to_owned() });
    }
    if let Some(refusal) = choice.refusals.get(name).filter(|refusal| refusal.over_at() > choice.now) {
        return Verdict::Refused { why: refusal.why.clone() };
    }
    if worker.has_free_slot(choice.now) { Verdict::Fits } else { Verdict::NoFreeSlot }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_worker_takes_workloads_of_its_namespaces_only() {
        let workload = |namespace: &str| -> Workload {
            let metadata = json!({"name": "a", "namespace": namespace, "uid": "u", "resourceVersion": "1"});
            serde_json::from_value(json!({"metadata": metadata, "spec": {"template": {}}})).unwrap()
        };
        let link = Link::Live { identity: "i".into() };
        let namespaces = Some(BTreeSet::from(["ml".to_owned(), "web".to_owned()]));
        let workers = BTreeMap::from([("eu-1".to_owned(), WorkerView { namespaces, link, ..WorkerView::default() })]);
        for (namespace, verdict) in [("ml", Verdict::Fits), ("web", Verdict::Fits), ("hr", Verdict::NamespaceNotTaken)]
        {
            let decision = choose(Choice {
                workload: &workload(namespace),
                workers: &workers,
                policies: &Policies::default(),
                refusals: &BTreeMap::new(),
                now: Duration::ZERO,
            });
            assert_eq!(decision.unwrap().verdicts["eu-1"], verdict, "{namespace}");
        }
    }
}
