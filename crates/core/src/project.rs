//! The mirror's status turned into the next status of the user's Job: legal for the manager's API server, whatever the
//! worker wrote, and nothing at all when nothing changed.
//!
//! ```text
//!   stored on the manager ─┐     outcome      which way it goes, and its end
//!   mirror on the worker  ─┼─►   suspension   the condition Suspended, startTime      ─► next status, or nothing
//!   the user's spec       ─┘     counts       pods and indexes
//! ```
//!
//! The rules behind each step are the API server's (see `job-api`). In short: a finished Job is frozen; an interim
//! condition (`FailureTarget`, `SuccessCriteriaMet`) once copied fixes the direction; counters never fall; `startTime`
//! moves only with a suspension; times are whole seconds; what only means something on the worker (uncounted pods)
//! stays there.

mod counts;
mod outcome;
mod suspension;

use job_api::{
    Errors, Rules, SpecView,
    conditions::{self, FAILURE_TARGET, find, is_finished, whole_seconds},
    status::validate,
};
use k8s_openapi::{
    api::batch::v1::{JobCondition, JobStatus},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};

use crate::record::Carried;
use outcome::Direction;

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
    let (stored_conditions, seen) = (conditions_of(stored), conditions_of(mirror));
    if is_finished(stored_conditions) {
        return Ok(None);
    }
    let now = whole_seconds(now);
    let mut list = stored_conditions.to_vec();
    suspension::follow(&mut list, spec, mirror, now);
    outcome::follow(&mut list, seen, now);

    let mut next = counts::project(spec, stored, mirror, carried);
    next.start_time = suspension::start_time(spec, stored, mirror, &list, rules);
    next.completion_time.clone_from(&stored.completion_time);
    next.conditions = Some(list);
    if is_finished(seen) {
        let unstarted = mirror.start_time.is_none() && rules.may_finish_unstarted(spec);
        outcome::settle(&mut next, mirror, unstarted, now);
    }
    if same(stored, &next) {
        return Ok(None);
    }
    validate(spec, stored, &next, rules).into_result().map(|()| Some(next))
}

/// The next status of a Job that has no mirror and never had one: whether it is suspended, with what the built-in controller
/// notes when it looks at a suspended Job for the first time. `None` when that is shown already.
pub fn unmirrored(
    spec: &SpecView,
    stored: &JobStatus,
    rules: Rules,
    now: Timestamp,
) -> Result<Option<JobStatus>, Errors> {
    let list = conditions_of(stored);
    let Some(condition) = suspension::suspended(spec, list, now).or_else(|| suspension::resumed(spec, list, now))
    else {
        return Ok(None);
    };
    let mut next = stored.clone();
    copy(next.conditions.get_or_insert_default(), &condition, whole_seconds(now));
    if spec.suspended {
        (next.active, next.ready, next.terminating) = (None, Some(0), Some(0));
        if spec.has_backoff_limit_per_index {
            next.failed_indexes.get_or_insert_default();
        }
    }
    validate(spec, stored, &next, rules).into_result().map(|()| Some(next))
}

/// The next status of a Job of which nothing runs any more, and of which no end will come: it is being deleted, and somebody's
/// finalizer keeps it. `None` when that is shown already.
pub fn stopped(spec: &SpecView, stored: &JobStatus, rules: Rules) -> Result<Option<JobStatus>, Errors> {
    let (ready, terminating) = (stored.ready.map(|_| 0), stored.terminating.map(|_| 0));
    let next = JobStatus { active: None, ready, terminating, ..stored.clone() };
    if same(stored, &next) {
        return Ok(None);
    }
    validate(spec, stored, &next, rules).into_result().map(|()| Some(next))
}

/// What is written along with a placement: it was shown as suspended, and is not any more.
pub(crate) fn resumption(spec: &SpecView, stored: &JobStatus, now: Timestamp) -> Option<JobCondition> {
    suspension::resumed(spec, conditions_of(stored), now).filter(|_| stored.start_time.is_none())
}

/// A status in which the dispatcher itself ends the Job as failed, for `reason`; `None` if it has ended already.
///
/// If the point of no return was passed before, the Job ends in that direction and for that reason instead.
pub fn fail(stored: &JobStatus, reason: &str, message: &str, now: Timestamp) -> Option<JobStatus> {
    let mut list = conditions_of(stored).to_vec();
    if is_finished(&list) {
        return None;
    }
    let now = whole_seconds(now);
    let direction = Direction::of(&list).unwrap_or_else(|| {
        copy(&mut list, &conditions::new(FAILURE_TARGET, true, reason, message, now), now);
        Direction::Failure
    });
    outcome::end(&mut list, direction, None, now);
    let mut next = JobStatus { conditions: Some(list), ..stored.clone() };
    outcome::settle(&mut next, &JobStatus::default(), false, now);
    Some(next)
}

/// The status of a finished mirror as it was when its end was certain, and not yet there: with the condition that announces
/// it, from which there is no way back.
pub fn announced(mirror: &JobStatus) -> JobStatus {
    let conditions = outcome::without_end(conditions_of(mirror));
    JobStatus { conditions: Some(conditions), completion_time: None, ..mirror.clone() }
}

fn conditions_of(status: &JobStatus) -> &[JobCondition] {
    status.conditions.as_deref().unwrap_or_default()
}

/// Takes a condition over, unless the known one says the same already.
///
/// Every field is written out, empty or not: the write merges by type, and would keep an old reason beside a new status.
fn copy(list: &mut Vec<JobCondition>, seen: &JobCondition, now: Timestamp) {
    let (reason, message) = (text(seen.reason.as_ref()), text(seen.message.as_ref()));
    if find(list, &seen.type_).is_some_and(|known| {
        (known.status.as_str(), text(known.reason.as_ref()), text(known.message.as_ref()))
            == (seen.status.as_str(), reason, message)
    }) {
        return;
    }
    // A worker's clock may be ahead of ours, and the TTL of a finished Job counts from this time.
    let since = seen.last_transition_time.as_ref().map_or(now, |time| whole_seconds(time.0).min(now));
    let copied = JobCondition {
        type_: seen.type_.clone(),
        status: seen.status.clone(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(since)),
    };
    match list.iter_mut().find(|known| known.type_ == seen.type_) {
        Some(known) => *known = copied,
        None => list.push(copied),
    }
}

/// The server stores an empty text as an absent one.
fn text(value: Option<&String>) -> &str {
    value.map(String::as_str).unwrap_or_default()
}

/// Whether a write would change nothing. Absent and zero are the same for counters and for `completedIndexes`, and
/// different for `ready`, `terminating` and `failedIndexes`.
fn same(stored: &JobStatus, next: &JobStatus) -> bool {
    let counters = |status: &JobStatus| [status.active, status.failed, status.succeeded].map(Option::unwrap_or_default);
    counters(stored) == counters(next)
        && (stored.ready, stored.terminating) == (next.ready, next.terminating)
        && (&stored.start_time, &stored.completion_time) == (&next.start_time, &next.completion_time)
        && text(stored.completed_indexes.as_ref()) == text(next.completed_indexes.as_ref())
        && stored.failed_indexes == next.failed_indexes
        && stored.uncounted_terminated_pods == next.uncounted_terminated_pods
        && conditions_of(stored) == conditions_of(next)
}
