//! How many pods a Job should have now, which of them are too many, and which are missing.

use std::{cmp::Reverse, collections::BTreeSet};

use job_api::IndexSet;
use k8s_openapi::jiff::Timestamp;

use crate::{
    IndexFailures, PodPlan,
    backoff::{self, Backoff},
    census::{Census, failures_with},
    pod::PodView,
};

/// At most so many pods are created or deleted in one step, so that a huge Job does not keep others waiting.
pub(crate) const POD_ACTIONS_PER_STEP: usize = 500;

/// What is missing, and when to look again for what may not be created yet.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    pub(crate) pods: Vec<PodPlan>,
    pub(crate) not_before: Option<Timestamp>,
}

/// How many pods should be active.
fn wanted(census: &Census<'_>) -> usize {
    let spec = &census.job.spec;
    let parallelism = spec.parallelism as usize;
    match spec.completions {
        // The pods of a work queue know when the work is done: after the first success nobody is added or stopped.
        None if census.succeeded > 0 => census.active.len(),
        None => parallelism,
        Some(completions) => {
            let open = u64::from(completions).saturating_sub(census.succeeded);
            usize::try_from(open).unwrap_or(usize::MAX).min(parallelism)
        }
    }
}

/// Active pods to be stopped without counting them as failed: all of a suspended Job; pods under a doubled or invalid
/// index; pods whose finalizer is gone (a stop that was cut short); and whatever exceeds the wanted number.
pub(crate) fn excess<'a>(census: &Census<'a>) -> Vec<&'a PodView> {
    if census.job.spec.suspend {
        return census.active.clone();
    }
    let (mut stopped, mut kept): (Vec<_>, Vec<_>) =
        census.active.iter().copied().partition(|pod| !census.tracks(pod) || !census.has_valid_index(pod));
    kept.sort_by_key(|pod| Worth::of(pod));
    if census.job.spec.indexed {
        let mut taken = BTreeSet::new();
        // The most valuable pod of each index is met first and keeps it.
        let (mut alone, doubled): (Vec<_>, Vec<_>) = kept.into_iter().rev().partition(|pod| taken.insert(pod.index));
        stopped.extend(doubled);
        alone.reverse();
        kept = alone;
    }
    let surplus = kept.len().saturating_sub(wanted(census));
    stopped.extend(kept.into_iter().take(surplus));
    stopped.truncate(POD_ACTIONS_PER_STEP);
    stopped
}

/// Pods to be created now. `backoff` is the record with every pod that has ended.
pub(crate) fn missing(census: &Census<'_>, backoff: Backoff, now: Timestamp) -> Missing {
    let spec = &census.job.spec;
    if spec.suspend {
        return Missing::default();
    }
    let waiting_for = if spec.replace_only_failed { census.terminating.len() } else { 0 };
    let number = wanted(census).saturating_sub(census.active.len() + waiting_for).min(POD_ACTIONS_PER_STEP);
    if number == 0 {
        return Missing::default();
    }
    if spec.backoff_limit_per_index.is_none()
        && let Some(over) = backoff.over_at().filter(|over| *over > now)
    {
        return Missing { pods: Vec::new(), not_before: Some(over) };
    }
    let Some(width) = census.job.indexes() else {
        return Missing { pods: vec![PodPlan::default(); number], not_before: None };
    };
    let mut missing = Missing::default();
    for index in open_indexes(census, width).take(number) {
        let predecessor = census.awaiting_replacement.get(&index);
        let over = predecessor.and_then(|pod| backoff::over_at(failures_with(pod) + 1, pod.finished));
        match over.filter(|over| *over > now) {
            Some(over) => missing.not_before = Some(missing.not_before.map_or(over, |other| other.min(over))),
            None => missing.pods.push(plan(census, index, predecessor.copied())),
        }
    }
    missing
}

/// The lowest indexes that nobody has finished, failed or holds.
fn open_indexes(census: &Census<'_>, width: u32) -> impl Iterator<Item = u32> {
    let held = census.active.iter().chain(census.terminating.iter().filter(|_| census.job.spec.replace_only_failed));
    let held: IndexSet = held.filter_map(|pod| pod.index).collect();
    let mut closed = census.completed_indexes.union(&held);
    if let Some(failed) = &census.failed_indexes {
        closed = closed.union(failed);
    }
    let ranges = closed.ranges().to_vec();
    let starts = std::iter::once(0).chain(ranges.clone().into_iter().map(|(_, last)| last.saturating_add(1)));
    let ends = ranges.into_iter().map(|(first, _)| first).chain(std::iter::once(width));
    starts.zip(ends).flat_map(move |(start, end)| start..end.min(width))
}

/// The pod of an index. With a limit per index it carries on the counts of the pod that it replaces.
fn plan(census: &Census<'_>, index: u32, predecessor: Option<&PodView>) -> PodPlan {
    let inherited = predecessor.map_or_else(IndexFailures::default, |pod| {
        let (counted, ignored) = (pod.index_failures, pod.index_ignored_failures);
        if census.verdict(pod).counts() {
            IndexFailures { counted: counted.saturating_add(1), ignored }
        } else {
            IndexFailures { counted, ignored: ignored.saturating_add(1) }
        }
    });
    PodPlan { index: Some(index), failures: census.job.spec.backoff_limit_per_index.map(|_| inherited) }
}

/// What would be lost with a pod; the least valuable goes first: unscheduled before scheduled, pending before running,
/// not ready before ready, the younger before the older.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Worth<'a> {
    scheduled: bool,
    phase: crate::pod::Phase,
    ready: bool,
    ready_since: Option<Reverse<Timestamp>>,
    restarts: Reverse<u32>,
    created: Reverse<Timestamp>,
    name: &'a str,
}

impl<'a> Worth<'a> {
    fn of(pod: &'a PodView) -> Self {
        Self {
            scheduled: pod.scheduled,
            phase: pod.phase,
            ready: pod.ready(),
            ready_since: pod.ready_since.map(Reverse),
            restarts: Reverse(pod.restarts.most),
            created: Reverse(pod.created),
            name: &pod.name,
        }
    }
}
