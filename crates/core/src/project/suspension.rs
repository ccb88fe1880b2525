//! The condition `Suspended`, and `startTime`, which may move only with it.
//!
//! While the user's spec is not suspended, the API server lets `startTime` change in one write only: the one that turns
//! `Suspended` from True to an explicit False (old servers: not even then). While it is suspended everything is free.

use job_api::{
    Rules, SpecView,
    conditions::{self, SUSPENDED, find, is_finished, is_true, message, reason, whole_seconds},
};
use k8s_openapi::{
    api::batch::v1::{JobCondition, JobStatus},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};

use super::{conditions_of, copy};

/// The condition of a Job that its user holds back, unless it is shown already. One with nothing to complete ends at once.
pub(super) fn suspended(spec: &SpecView, shown: &[JobCondition], now: Timestamp) -> Option<JobCondition> {
    (spec.suspended && !has_nothing_to_do(spec) && !is_true(shown, SUSPENDED))
        .then(|| conditions::new(SUSPENDED, true, reason::JOB_SUSPENDED, message::JOB_SUSPENDED, now))
}

/// The condition of a Job that is shown as held back, and is not any more.
pub(super) fn resumed(spec: &SpecView, shown: &[JobCondition], now: Timestamp) -> Option<JobCondition> {
    (!spec.suspended && is_true(shown, SUSPENDED) && !ends_at_once(spec))
        .then(|| conditions::new(SUSPENDED, false, reason::JOB_RESUMED, message::JOB_RESUMED, now))
}

/// Such a Job ends even while it is suspended, and is never shown as held back.
fn has_nothing_to_do(spec: &SpecView) -> bool {
    spec.completions == Some(0)
}

/// The first look at it after its resumption ends such a Job, before the resumption is noted.
fn ends_at_once(spec: &SpecView) -> bool {
    has_nothing_to_do(spec) || spec.active_deadline_seconds == Some(0)
}

/// Brings the condition up to date: it is what the mirror says. Whoever waits for it may rely on that its pods were told to
/// stop, or to start.
pub(super) fn follow(list: &mut Vec<JobCondition>, spec: &SpecView, mirror: &JobStatus, now: Timestamp) {
    let seen = conditions_of(mirror);
    let finished = is_finished(seen);
    // It was held back before it shrank to nothing: its end does not take that away.
    if spec.suspended && has_nothing_to_do(spec) && is_true(list, SUSPENDED) {
        return;
    }
    if let Some(suspended) = find(seen, SUSPENDED) {
        copy(list, suspended, now);
    } else if spec.suspended && finished {
        // It was shown before there was a mirror, which ended before it heard of that.
        list.retain(|condition| condition.type_ != SUSPENDED || condition.status == conditions::FALSE);
    } else if finished || mirror.start_time.is_some() {
        // It waited here suspended, and started on a worker that never knew of the suspension.
        if let Some(resumed) = resumed(spec, list, now) {
            copy(list, &resumed, now);
        }
    }
}

/// The next `startTime`, when the conditions will be `next`.
pub(super) fn start_time(
    spec: &SpecView,
    stored: &JobStatus,
    mirror: &JobStatus,
    next: &[JobCondition],
    rules: Rules,
) -> Option<Time> {
    let seen = conditions_of(mirror);
    let finished = is_finished(seen);
    let kept = stored.start_time.clone();
    // Workers older than 1.36 leave a suspended Job the startTime of the run that was stopped: it says nothing.
    let stopped = !finished && is_true(seen, SUSPENDED);
    let started = mirror.start_time.as_ref().filter(|_| !stopped).map(|time| Time(whole_seconds(time.0)));
    if spec.suspended {
        if finished {
            return started.or(kept);
        }
        // No start appears: a queue that took it away, to be able to edit the Job, does not get it back. Where one goes, it
        // goes when the pods were told to stop.
        return kept.filter(|_| rules.keeps_start_of_suspended() || !stopped);
    }
    let resumes = is_true(conditions_of(stored), SUSPENDED)
        && find(next, SUSPENDED).is_some_and(|condition| condition.status == conditions::FALSE);
    if kept.is_none() || (resumes && rules.resume_moves_start_time) { started.or(kept) } else { kept }
}
