//! The mirror's status turned into the next status of the user's Job: legal for the manager's API server, whatever the
//! worker wrote, and nothing at all when nothing changed.
//!
//! The rules behind each step are the API server's (see `job-api`). In short: a finished Job is frozen; an interim
//! condition (`FailureTarget`, `SuccessCriteriaMet`) once copied fixes the direction; counters never fall; times are
//! whole seconds; what only means something on the worker (uncounted pods) stays there.

use job_api::{
    Errors, IndexSet, Rules, SpecView,
    conditions::{
        self, COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, SUSPENDED, find, is_finished, is_true, reason,
        whole_seconds,
    },
    status::validate,
};
use k8s_openapi::{
    api::batch::v1::{JobCondition, JobStatus},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};

use crate::record::Carried;

/// How a Job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Success,
    Failure,
}

impl Direction {
    const fn interim(self) -> &'static str {
        match self {
            Self::Success => SUCCESS_CRITERIA_MET,
            Self::Failure => FAILURE_TARGET,
        }
    }

    const fn terminal(self) -> &'static str {
        match self {
            Self::Success => COMPLETE,
            Self::Failure => FAILED,
        }
    }

    /// The direction that these conditions have taken, if any. The terminal one speaks first: workers older than 1.31
    /// end a Job without an interim condition.
    fn of(conditions: &[JobCondition]) -> Option<Self> {
        [FAILED, FAILURE_TARGET, COMPLETE, SUCCESS_CRITERIA_MET]
            .iter()
            .find(|type_| is_true(conditions, type_))
            .map(|type_| if [FAILED, FAILURE_TARGET].contains(type_) { Self::Failure } else { Self::Success })
    }
}

/// The next status of the user's Job, or `None` when there is nothing to write.
///
/// `stored` is the status on the manager without our own conditions, `carried` what earlier epochs counted. An `Err`
/// names the rules that the result would break: a bug of this function, to be reported and never to be written.
pub fn project(
    spec: &SpecView,
    stored: &JobStatus,
    mirror: &JobStatus,
    carried: Carried,
    rules: Rules,
    now: Timestamp,
) -> Result<Option<JobStatus>, Errors> {
    let now = whole_seconds(now);
    let old = stored.conditions.as_deref().unwrap_or_default();
    if is_finished(old) {
        return Ok(None);
    }
    let seen = mirror.conditions.as_deref().unwrap_or_default();
    let mut next = counters(spec, stored, mirror, carried);
    next.conditions = Some(old.to_vec());
    let conditions = next.conditions.get_or_insert_default();

    match find(seen, SUSPENDED) {
        // Never from nothing to False: the built-in controller does not write that either.
        Some(suspended) if suspended.status == conditions::TRUE || find(old, SUSPENDED).is_some() => {
            copy(conditions, suspended, now);
        }
        // It waited here suspended, was resumed, and started on the worker, which never knew of the suspension.
        None if is_true(old, SUSPENDED) && !spec.suspended && mirror.start_time.is_some() => {
            let resumed = conditions::new(SUSPENDED, false, reason::JOB_RESUMED, conditions::message::JOB_RESUMED, now);
            copy(conditions, &resumed, now);
        }
        _ => {}
    }
    // What was copied once cannot be taken back: then the mirror's own direction no longer counts.
    let direction = Direction::of(old).or_else(|| Direction::of(seen));
    if let Some(direction) = direction {
        copy_outcome(conditions, seen, direction, now);
    }
    next.start_time = start_time(spec, stored, mirror, conditions, rules);
    if is_finished(next.conditions.as_deref().unwrap_or_default()) {
        finish(&mut next, stored, mirror, now);
    }
    if same(stored, &next) {
        return Ok(None);
    }
    validate(spec, stored, &next, rules).into_result().map(|()| Some(next))
}

/// A status in which the dispatcher itself ends the Job as failed, for `reason`.
pub fn fail(stored: &JobStatus, reason: &str, message: &str, now: Timestamp) -> Option<JobStatus> {
    let now = whole_seconds(now);
    let old = stored.conditions.as_deref().unwrap_or_default();
    if is_finished(old) {
        return None;
    }
    let mut next = stored.clone();
    let conditions = next.conditions.get_or_insert_default();
    if Direction::of(old).is_none() {
        conditions.push(conditions::new(FAILURE_TARGET, true, reason, message, now));
    }
    // If the point of no return was passed before, it is finished in that direction and for that reason.
    let direction = Direction::of(conditions).unwrap_or(Direction::Failure);
    finish_as_recorded(conditions, direction, now);
    finish(&mut next, stored, stored, now);
    Some(next)
}

fn counters(spec: &SpecView, stored: &JobStatus, mirror: &JobStatus, carried: Carried) -> JobStatus {
    let active = mirror.active.unwrap_or(0).max(0);
    let failed = carried.failed.saturating_add(mirror.failed.unwrap_or(0)).max(stored.failed.unwrap_or(0));
    let mut succeeded = mirror.succeeded.unwrap_or(0);
    if !spec.is_elastic() {
        succeeded = succeeded.max(stored.succeeded.unwrap_or(0));
    }
    let completions = spec.completions.unwrap_or(0);
    let indexes = |text: Option<&String>| -> Option<IndexSet> {
        // The worker may run with other completions than the manager for a moment: clip to the manager's.
        IndexSet::parse(text?, i32::MAX).ok().map(|set| set.clip(u32::try_from(completions).unwrap_or(0)))
    };
    let completed = indexes(mirror.completed_indexes.as_ref()).filter(|_| spec.indexed);
    let failed_indexes = spec.has_backoff_limit_per_index.then(|| {
        let failed = indexes(mirror.failed_indexes.as_ref()).unwrap_or_default();
        completed.as_ref().map_or_else(|| failed.clone(), |completed| failed.subtract(completed))
    });
    JobStatus {
        active: none_if_zero(active),
        failed: none_if_zero(failed),
        succeeded: none_if_zero(succeeded),
        ready: mirror.ready.map(|ready| ready.clamp(0, active)),
        terminating: mirror.terminating.map(|terminating| terminating.max(0)),
        completed_indexes: completed.filter(|set| !set.is_empty()).map(|set| set.to_string()),
        failed_indexes: failed_indexes
            .filter(|_| mirror.failed_indexes.is_some() || stored.failed_indexes.is_some())
            .map(|set| set.to_string()),
        completion_time: stored.completion_time.clone(),
        ..JobStatus::default()
    }
}

/// Copies the interim and, if it is reached, the terminal condition of the direction that counts.
fn copy_outcome(conditions: &mut Vec<JobCondition>, seen: &[JobCondition], direction: Direction, now: Timestamp) {
    let ended = is_finished(seen);
    let terminal = find(seen, direction.terminal()).filter(|c| c.status == conditions::TRUE);
    if let Some(interim) = find(seen, direction.interim()).filter(|c| c.status == conditions::TRUE) {
        copy(conditions, interim, now);
    } else if let Some(terminal) = terminal
        && !is_true(conditions, direction.interim())
    {
        // A worker older than 1.31 ends a Job without it; our API server wants it.
        conditions.push(JobCondition { type_: direction.interim().into(), ..terminal.clone() });
    }
    match terminal {
        Some(terminal) => copy(conditions, &JobCondition { last_transition_time: None, ..terminal.clone() }, now),
        None if ended => finish_as_recorded(conditions, direction, now),
        None => {}
    }
}

/// Adds the terminal condition that an interim one announced, with its reason.
fn finish_as_recorded(conditions: &mut Vec<JobCondition>, direction: Direction, now: Timestamp) {
    let interim = find(conditions, direction.interim()).cloned();
    let (reason, message) = interim.map(|c| (c.reason, c.message)).unwrap_or_default();
    let (reason, message) = (reason.unwrap_or_default(), message.unwrap_or_default());
    conditions.push(conditions::new(direction.terminal(), true, &reason, &message, now));
}

/// Takes a condition over, unless the stored one says the same already.
fn copy(conditions: &mut Vec<JobCondition>, seen: &JobCondition, now: Timestamp) {
    let says = |c: &JobCondition| {
        (c.type_ == seen.type_, c.status == seen.status, c.reason == seen.reason, c.message == seen.message)
    };
    if conditions.iter().any(|c| says(c) == (true, true, true, true)) {
        return;
    }
    // A worker's clock may be ahead of ours, and the TTL of a finished Job counts from this time.
    let at = seen.last_transition_time.as_ref().map_or(now, |time| whole_seconds(time.0).min(now));
    let copied =
        JobCondition { last_probe_time: Some(Time(now)), last_transition_time: Some(Time(at)), ..seen.clone() };
    conditions.retain(|c| c.type_ != seen.type_);
    conditions.push(copied);
}

fn start_time(
    spec: &SpecView,
    stored: &JobStatus,
    mirror: &JobStatus,
    next: &[JobCondition],
    rules: Rules,
) -> Option<Time> {
    let seen = mirror.start_time.as_ref().map(|time| Time(whole_seconds(time.0)));
    let Some(kept) = &stored.start_time else { return seen };
    if spec.suspended {
        return seen;
    }
    let old = stored.conditions.as_deref().unwrap_or_default();
    let resumes = is_true(old, SUSPENDED) && find(next, SUSPENDED).is_some_and(|c| c.status == conditions::FALSE);
    if resumes && rules.resume_moves_start_time { seen.or_else(|| Some(kept.clone())) } else { Some(kept.clone()) }
}

/// What every finished status has: no pods left, a startTime, and a completionTime only when complete.
fn finish(next: &mut JobStatus, stored: &JobStatus, mirror: &JobStatus, now: Timestamp) {
    next.active = None;
    next.ready = next.ready.map(|_| 0);
    next.terminating = next.terminating.map(|_| 0);
    next.uncounted_terminated_pods = None;
    let start = next.start_time.get_or_insert_with(|| mirror.completion_time.clone().unwrap_or(Time(now)));
    *start = Time(whole_seconds(start.0));
    let start = start.0;
    let complete = is_true(next.conditions.as_deref().unwrap_or_default(), COMPLETE);
    next.completion_time = complete.then(|| {
        let ended = mirror.completion_time.as_ref().map_or(now, |time| whole_seconds(time.0));
        stored.completion_time.clone().unwrap_or(Time(ended.max(start)))
    });
}

const fn none_if_zero(count: i32) -> Option<i32> {
    if count == 0 { None } else { Some(count) }
}

fn same(stored: &JobStatus, next: &JobStatus) -> bool {
    let counts = |s: &JobStatus| [s.active, s.failed, s.succeeded].map(|count| count.unwrap_or(0));
    let empty = Vec::new();
    counts(stored) == counts(next)
        && (stored.ready, stored.terminating) == (next.ready, next.terminating)
        && (&stored.start_time, &stored.completion_time) == (&next.start_time, &next.completion_time)
        && stored.completed_indexes.as_deref().unwrap_or_default()
            == next.completed_indexes.as_deref().unwrap_or_default()
        && stored.failed_indexes == next.failed_indexes
        && stored.uncounted_terminated_pods.is_none()
        && stored.conditions.as_ref().unwrap_or(&empty) == next.conditions.as_ref().unwrap_or(&empty)
}
