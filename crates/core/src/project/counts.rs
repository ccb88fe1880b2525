//! Pods and indexes, counted.

use job_api::{IndexSet, SpecView};
use k8s_openapi::api::batch::v1::JobStatus;

use crate::record::Carried;

/// A status with the counters and index lists that come next, and nothing else.
///
/// Uncounted pods are the worker's book-keeping and stay there. `stored` and `carried` keep counters from falling when
/// the mirror is a new one that starts at zero.
pub(super) fn project(spec: &SpecView, stored: &JobStatus, mirror: &JobStatus, carried: Carried) -> JobStatus {
    let active = count(mirror.active);
    let failed = count(mirror.failed).saturating_add(carried.failed).max(count(stored.failed));
    // A scaled-down elastic Job may have fewer successes than before; no other Job may.
    let least = if spec.is_elastic() { 0 } else { count(stored.succeeded) };
    let completed = indexes(spec, mirror.completed_indexes.as_deref().filter(|_| spec.indexed));
    // The successes of an Indexed Job are its indexes that are done. One that shrinks loses some at once, as long as it is
    // elastic; when the worker has followed it may not be any more.
    let succeeded = if spec.indexed { counted(&completed) } else { count(mirror.succeeded) };
    JobStatus {
        active: none_if_zero(active),
        failed: none_if_zero(failed),
        succeeded: none_if_zero(succeeded.max(least)),
        // Some workers count a pod as ready that they no longer count as active.
        ready: mirror.ready.map(|ready| ready.clamp(0, active)),
        terminating: mirror.terminating.map(|terminating| terminating.max(0)),
        failed_indexes: failed_indexes(spec, stored, mirror, &completed),
        completed_indexes: Some(completed).filter(|set| !set.is_empty()).map(|set| set.to_string()),
        ..JobStatus::default()
    }
}

/// Null without `backoffLimitPerIndex`; with it a text, empty or not, as soon as the worker has one.
fn failed_indexes(spec: &SpecView, stored: &JobStatus, mirror: &JobStatus, completed: &IndexSet) -> Option<String> {
    let known = mirror.failed_indexes.as_deref().or(stored.failed_indexes.as_ref().map(|_| ""))?;
    spec.has_backoff_limit_per_index.then(|| indexes(spec, Some(known)).subtract(completed).to_string())
}

/// The worker may run with other completions than the manager for a moment: clip to the manager's.
fn indexes(spec: &SpecView, list: Option<&str>) -> IndexSet {
    let completions = spec.completions.and_then(|completions| u32::try_from(completions).ok()).unwrap_or_default();
    IndexSet::parse(list.unwrap_or_default(), i32::MAX).unwrap_or_default().clip(completions)
}

fn count(counter: Option<i32>) -> i32 {
    counter.unwrap_or_default().max(0)
}

fn counted(indexes: &IndexSet) -> i32 {
    i32::try_from(indexes.len()).unwrap_or(i32::MAX)
}

const fn none_if_zero(count: i32) -> Option<i32> {
    if count == 0 { None } else { Some(count) }
}
