//! The status that says everything we know.

use std::collections::BTreeSet;

use job_api::conditions::{self, message, reason};
use k8s_openapi::{
    api::batch::v1::{JobStatus, UncountedTerminatedPods},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};

use crate::{
    Notice,
    census::Census,
    job::{count, wire_count},
    outcome::Outcome,
    pod::{Phase, PodView},
};

/// At most so many UIDs are promised at once; it bounds the size of the status (about 20 KB) and of one step.
pub(crate) const PROMISES: usize = 500;

/// What becomes of a pod that holds our finalizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It stays as it is.
    Keep,
    /// It goes into the status first, as a success.
    CountSuccess,
    /// It goes into the status first, as a failure.
    CountFailure,
    /// The status knows it, or has no interest in it: the finalizer goes.
    Release,
}

/// Decides the fate of one pod.
pub(crate) fn fate(census: &Census<'_>, outcome: Option<&Outcome>, pod: &PodView) -> Fate {
    if !census.tracks(pod) {
        return Fate::Keep;
    }
    if census.promised.contains(pod) {
        return Fate::Release;
    }
    let failed = census.counts_as_ended(pod);
    let waiting = pod.index.and_then(|index| census.awaiting_replacement.get(&index));
    let replaced_first = waiting.is_some_and(|waiting| waiting.uid == pod.uid);
    let over = pod.phase == Phase::Succeeded || (failed && !replaced_first);
    if !(over || outcome.is_some() || census.job.deleting) {
        return Fate::Keep;
    }
    if !census.has_valid_index(pod) {
        return Fate::Release;
    }
    if pod.phase == Phase::Succeeded {
        let known = census.job.spec.indexed && pod.index.is_some_and(|index| census.recorded_indexes.contains(index));
        return if known { Fate::Release } else { Fate::CountSuccess };
    }
    // When a Job fails, pods that still run count as failed with it.
    if (failed || outcome.is_some_and(|outcome| !outcome.success)) && census.verdict(pod).counts() {
        return Fate::CountFailure;
    }
    Fate::Release
}

/// A status, and what follows once it is stored.
pub(crate) struct Record<'a> {
    pub(crate) status: JobStatus,
    pub(crate) notices: Vec<Notice>,
    /// Pods that enter the status with it.
    pub(crate) succeeded: Vec<&'a PodView>,
    pub(crate) failed: Vec<&'a PodView>,
}

/// The status after everything that is known now.
pub(crate) fn record<'a>(census: &Census<'a>, outcome: Option<&Outcome>, now: Timestamp) -> Record<'a> {
    let now = conditions::whole_seconds(now);
    let job = census.job;
    let mut record =
        Record { status: job.status.clone(), notices: Vec::new(), succeeded: Vec::new(), failed: Vec::new() };
    if record.status.start_time.is_none() && !job.spec.suspend {
        record.status.start_time = Some(Time(now));
    }
    record.status.active = counter(census.active.len());
    record.status.ready = Some(wire_count(census.ready()));
    record.status.terminating = Some(wire_count(census.terminating.len()));
    settle_promises(census, outcome, &mut record);
    if job.spec.indexed {
        record_indexes(census, &mut record.status);
    }
    match outcome {
        Some(outcome) => announce(census, outcome, now, &mut record),
        None if !job.deleting => mark_suspension(census, now, &mut record),
        None => {}
    }
    record
}

/// The API server does not store counters that are zero.
fn counter(value: usize) -> Option<i32> {
    Some(wire_count(value)).filter(|count| *count != 0)
}

/// Promised pods whose finalizer is gone move into the counters; pods that have ended are promised.
fn settle_promises<'a>(census: &Census<'a>, outcome: Option<&Outcome>, record: &mut Record<'a>) {
    let tracked: BTreeSet<&str> =
        census.pods.iter().filter(|pod| census.tracks(pod)).map(|pod| pod.uid.as_str()).collect();
    let settle = |promised: &BTreeSet<&str>, counted: Option<i32>| {
        let open: Vec<String> = promised.intersection(&tracked).map(|uid| (*uid).to_owned()).collect();
        let counted = count(counted) as usize + promised.len() - open.len();
        (open, counter(counted))
    };
    let (mut succeeded, counted) = settle(&census.promised.succeeded, record.status.succeeded);
    record.status.succeeded = counted;
    let (mut failed, counted) = settle(&census.promised.failed, record.status.failed);
    record.status.failed = counted;

    for pod in census.pods.iter().copied() {
        match fate(census, outcome, pod) {
            Fate::Keep | Fate::Release => {}
            // The index set remembers the successes of an Indexed Job.
            Fate::CountSuccess if census.job.spec.indexed => record.succeeded.push(pod),
            _ if succeeded.len() + failed.len() >= PROMISES => break,
            Fate::CountSuccess => {
                succeeded.push(pod.uid.clone());
                record.succeeded.push(pod);
            }
            Fate::CountFailure => {
                failed.push(pod.uid.clone());
                record.failed.push(pod);
            }
        }
    }
    let listed = |uids: Vec<String>| Some(uids).filter(|uids| !uids.is_empty());
    record.status.uncounted_terminated_pods =
        Some(UncountedTerminatedPods { succeeded: listed(succeeded), failed: listed(failed) });
}

fn record_indexes(census: &Census<'_>, status: &mut JobStatus) {
    let total = wire_count(usize::try_from(census.completed_indexes.len()).unwrap_or(usize::MAX));
    // Only the counter of an elastic Job may shrink.
    let floor = if census.job.elastic() { 0 } else { census.job.status.succeeded.unwrap_or(0) };
    status.succeeded = Some(total.max(floor)).filter(|count| *count != 0);
    status.completed_indexes = Some(census.completed_indexes.to_string()).filter(|text| !text.is_empty());
    status.failed_indexes = census.failed_indexes.as_ref().map(ToString::to_string);
}

fn announce(census: &Census<'_>, outcome: &Outcome, now: Timestamp, record: &mut Record<'_>) {
    let Record { status, notices, .. } = record;
    let list = status.conditions.get_or_insert_default();
    if !outcome.recorded {
        conditions::set(list, outcome.interim(), true, &outcome.reason, &outcome.message, now);
    }
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let all_counted = uncounted.is_none_or(|pods| pods.succeeded.is_none() && pods.failed.is_none());
    let all_gone = census.active.is_empty() && census.terminating.is_empty();
    if !all_counted || !all_gone || census.pods.iter().any(|pod| census.tracks(pod)) {
        return;
    }
    conditions::set(list, outcome.terminal(), true, &outcome.reason, &outcome.message, now);
    // Suspended before its start was ever recorded, and yet a pod of it got through: it has started all the same.
    if status.start_time.is_none() && census.job.spec.completions != Some(0) {
        status.start_time = Some(Time(now));
    }
    if outcome.success {
        // A clock that was set back must not make the Job end before it began.
        let ended = status.start_time.as_ref().map_or(now, |start| start.0.max(now));
        status.completion_time = Some(Time(ended));
        if census.job.spec.completions.is_some_and(|wanted| count(status.succeeded) > wanted) {
            notices.push(Notice::warning(
                "TooManySucceededPods",
                "Too many succeeded pods running after completion count reached",
            ));
        }
        notices.push(Notice::normal("Completed", "Job completed"));
    } else {
        notices.push(Notice::warning(&outcome.reason, &outcome.message));
    }
}

fn mark_suspension(census: &Census<'_>, now: Timestamp, record: &mut Record<'_>) {
    let Record { status, notices, .. } = record;
    let mut list = status.conditions.take().unwrap_or_default();
    if census.job.spec.suspend {
        if conditions::set(&mut list, conditions::SUSPENDED, true, reason::JOB_SUSPENDED, message::JOB_SUSPENDED, now) {
            notices.push(Notice::normal("Suspended", message::JOB_SUSPENDED));
        }
    // A Job that was never suspended does not say that it is not.
    } else if conditions::find(&list, conditions::SUSPENDED).is_some()
        && conditions::set(&mut list, conditions::SUSPENDED, false, reason::JOB_RESUMED, message::JOB_RESUMED, now)
    {
        notices.push(Notice::normal("Resumed", message::JOB_RESUMED));
        // The deadline counts the time that a Job is active without a break.
        status.start_time = Some(Time(now));
    }
    status.conditions = Some(list).filter(|list| !list.is_empty());
}
