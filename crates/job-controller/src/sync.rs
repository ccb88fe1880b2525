//! The next step of a Job.

use k8s_openapi::{api::batch::v1::JobStatus, jiff::Timestamp};

use crate::{
    backoff::Backoff,
    census::Census,
    job::JobView,
    outcome::{self, Outcome},
    pod::PodView,
    record::{self, Fate},
    workforce::{self, POD_ACTIONS_PER_STEP},
};

/// What is remembered of a Job between steps, in memory only. Losing it is safe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Failures since the last success. Take it over from [`Sync::backoff`] when a step was carried out.
    pub backoff: Backoff,
    /// Creating a pod failed (a quota, for example): not again before this time.
    pub create_not_before: Option<Timestamp>,
}

/// One step, and what goes with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sync {
    /// What to do now.
    pub step: Step,
    /// To be remembered once the step was carried out.
    pub backoff: Backoff,
    /// To be told to people once the step was carried out.
    pub notices: Vec<Notice>,
    /// Look again at this time even if nothing happens.
    pub wake_at: Option<Timestamp>,
}

/// A step. After carrying it out, look again: the next one builds on what the API server answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Write this status, guarded by the resourceVersion of the Job that was looked at.
    Record(Box<JobStatus>),
    /// Act on these pods; no two actions concern the same pod.
    Pods(Vec<PodAction>),
    /// Everything is as it should be.
    Rest,
}

/// An action on one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodAction {
    /// Create a pod.
    Create(PodPlan),
    /// Delete the pod; it keeps its finalizer until it is counted.
    Delete(PodRef),
    /// Remove the finalizer if the pod is still as it was seen, then delete it. In this order a pod that was stopped on
    /// purpose never looks failed; and one that ended meanwhile keeps its finalizer and is counted.
    Discard(PodRef),
    /// Remove the finalizer.
    Release(PodRef),
}

/// A pod by name and identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Its name, in the namespace of the Job.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version that was seen.
    pub resource_version: String,
}

/// What distinguishes a new pod from the template.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodPlan {
    /// The index it works on.
    pub index: Option<u32>,
    /// With a limit per index: the failures of the index so far.
    pub failures: Option<IndexFailures>,
}

/// Failures of one index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexFailures {
    /// Those that count towards the limit.
    pub counted: u32,
    /// Those that the pod failure policy ignored.
    pub ignored: u32,
}

/// A Kubernetes event on the Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Something went wrong.
    pub warning: bool,
    /// Machine-readable.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl Notice {
    pub(crate) fn normal(reason: &str, message: &str) -> Self {
        Self { warning: false, reason: reason.to_owned(), message: message.to_owned() }
    }

    pub(crate) fn warning(reason: &str, message: &str) -> Self {
        Self { warning: true, reason: reason.to_owned(), message: message.to_owned() }
    }
}

/// Decides the next step of a Job from the Job and the pods that it controls.
///
/// The views may lag behind the truth, but must contain the effect of every own write that was acknowledged; otherwise
/// a pod would be created or counted twice. The order of steps makes every crash between two of them harmless:
/// the end of a Job is announced before pods are stopped for it, a pod is promised to the counters
/// (`status.uncountedTerminatedPods`) before its finalizer goes, and counted only after.
pub fn sync(job: &JobView, pods: &[PodView], memory: &Memory, now: Timestamp) -> Sync {
    if job_api::conditions::is_finished(job.status.conditions.as_deref().unwrap_or_default()) {
        return after_the_end(job, pods);
    }
    let census = Census::take(job, pods);
    let outcome = Outcome::announced(&job.status).or_else(|| Outcome::reached(&census, now));
    let outcome = outcome.as_ref();
    let backoff_now = memory.backoff.after(&census.new_succeeded, &census.new_failed);

    let mut wake_at = outcome::deadline(job, now).filter(|_| outcome.is_none());
    let mut actions = release(&census, outcome);
    match outcome {
        Some(outcome) if !outcome.recorded => return write(&census, Some(outcome), memory, now, None),
        Some(outcome) => actions.extend(stop_all(&census, outcome)),
        None if job.deleting => {}
        None => {
            let excess = workforce::excess(&census);
            if excess.is_empty() {
                let missing = workforce::missing(&census, backoff_now, now);
                let blocked = memory.create_not_before.filter(|until| *until > now && !missing.pods.is_empty());
                if blocked.is_none() {
                    actions.extend(missing.pods.into_iter().map(PodAction::Create));
                }
                wake_at = [wake_at, missing.not_before, blocked].into_iter().flatten().min();
            }
            actions.extend(excess.into_iter().map(|pod| PodAction::Discard(pod_ref(pod))));
        }
    }
    if actions.is_empty() {
        return write(&census, outcome, memory, now, wake_at);
    }
    // Failures that a policy ignores never enter the status: they count for the back-off when they are let go.
    let ignored: Vec<&PodView> =
        census.new_failed.iter().copied().filter(|pod| record::fate(&census, outcome, pod) == Fate::Release).collect();
    Sync { step: Step::Pods(actions), backoff: memory.backoff.after(&[], &ignored), notices: Vec::new(), wake_at }
}

/// Writes the status if it has something new to say.
fn write(
    census: &Census<'_>,
    outcome: Option<&Outcome>,
    memory: &Memory,
    now: Timestamp,
    wake_at: Option<Timestamp>,
) -> Sync {
    let record = record::record(census, outcome, now);
    if record.status == census.job.status {
        return Sync { step: Step::Rest, backoff: memory.backoff, notices: Vec::new(), wake_at };
    }
    let backoff = memory.backoff.after(&record.succeeded, &record.failed);
    Sync { step: Step::Record(Box::new(record.status)), backoff, notices: record.notices, wake_at }
}

/// Pods that the status knows or has no interest in.
fn release(census: &Census<'_>, outcome: Option<&Outcome>) -> Vec<PodAction> {
    let released = census.pods.iter().filter(|pod| record::fate(census, outcome, pod) == Fate::Release);
    // At the end of a Job active pods are stopped as well: see `stop_all`.
    let released = released.filter(|pod| !(pod.active() && outcome.is_some()));
    released.take(POD_ACTIONS_PER_STEP).map(|pod| PodAction::Release(pod_ref(pod))).collect()
}

/// The end is announced: nobody works on.
fn stop_all<'a>(census: &'a Census<'_>, outcome: &'a Outcome) -> impl Iterator<Item = PodAction> + 'a {
    census.active.iter().map(|pod| match record::fate(census, Some(outcome), pod) {
        Fate::Release | Fate::Keep => PodAction::Discard(pod_ref(pod)),
        Fate::CountSuccess | Fate::CountFailure => PodAction::Delete(pod_ref(pod)),
    })
}

/// A finished Job has counted everything; a pod that still holds the finalizer came from a step that was cut short.
fn after_the_end(job: &JobView, pods: &[PodView]) -> Sync {
    let held: Vec<&PodView> = pods.iter().filter(|pod| pod.holds(job.finalizer())).collect();
    let actions: Vec<PodAction> = held.into_iter().map(|pod| PodAction::Release(pod_ref(pod))).collect();
    let step = if actions.is_empty() { Step::Rest } else { Step::Pods(actions) };
    Sync { step, backoff: Backoff::default(), notices: Vec::new(), wake_at: None }
}

fn pod_ref(pod: &PodView) -> PodRef {
    PodRef { name: pod.name.clone(), uid: pod.uid.clone(), resource_version: pod.resource_version.clone() }
}
