//! The rules for a status, each with the change that makes the server look at it.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{JobStatus, UncountedTerminatedPods};

use crate::conditions::{COMPLETE, FAILED, FAILURE_TARGET, Summary};
use crate::{Errors, Rules, SpecView, index_set, path::Path};

const ACTIVE: Path<'static> = Path::root("status.active");
const SUCCEEDED: Path<'static> = Path::root("status.succeeded");
const FAILED_COUNT: Path<'static> = Path::root("status.failed");
const READY: Path<'static> = Path::root("status.ready");
const TERMINATING: Path<'static> = Path::root("status.terminating");
const UNCOUNTED: Path<'static> = Path::root("status.uncountedTerminatedPods");
const CONDITIONS: Path<'static> = Path::root("status.conditions");
const START_TIME: Path<'static> = Path::root("status.startTime");
const COMPLETION_TIME: Path<'static> = Path::root("status.completionTime");
const COMPLETED_INDEXES: Path<'static> = Path::root("status.completedIndexes");
const FAILED_INDEXES: Path<'static> = Path::root("status.failedIndexes");

/// One transition: the stored status, the one to be written, and what differs between them.
struct Transition<'a> {
    spec: &'a SpecView,
    old: &'a JobStatus,
    new: &'a JobStatus,
    was: Summary,
    is: Summary,
    changed: Changes,
}

/// Which fields a write changes. Absent and zero (or empty) are the same for counters and `completedIndexes`, and
/// different for `ready`, `terminating` and `failedIndexes`.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "one flag a field")]
struct Changes {
    active: bool,
    ready: bool,
    terminating: bool,
    uncounted: bool,
    start_time: bool,
    completion_time: bool,
    completed_indexes: bool,
    failed_indexes: bool,
}

impl Changes {
    fn between(old: &JobStatus, new: &JobStatus) -> Self {
        Self {
            active: count(old.active) != count(new.active),
            ready: old.ready != new.ready,
            terminating: old.terminating != new.terminating,
            uncounted: !same_uncounted(old.uncounted_terminated_pods.as_ref(), new.uncounted_terminated_pods.as_ref()),
            start_time: old.start_time != new.start_time,
            completion_time: old.completion_time != new.completion_time,
            completed_indexes: completed_indexes(old) != completed_indexes(new),
            failed_indexes: old.failed_indexes != new.failed_indexes,
        }
    }
}

pub(super) fn check(spec: &SpecView, old: &JobStatus, new: &JobStatus, rules: Rules, errors: &mut Errors) {
    let transition = Transition {
        spec,
        old,
        new,
        was: Summary::of(old.conditions.as_deref()),
        is: Summary::of(new.conditions.as_deref()),
        changed: Changes::between(old, new),
    };
    counters_are_not_negative(new, errors);
    uncounted_pods_are_named_once(new, errors);
    if rules.strict_status {
        outcome_is_consistent(&transition, errors);
        finished_job_is_at_rest(&transition, rules, errors);
        indexes_fit_the_spec(&transition, errors);
        pods_add_up(&transition, errors);
    }
    success_criteria_exclude_failure(&transition, rules, errors);
    if rules.strict_status {
        outcome_is_kept(&transition, errors);
        counters_do_not_fall(&transition, errors);
        times_are_kept(&transition, rules, errors);
    }
    success_criteria_are_kept(&transition, errors);
}

fn count(counter: Option<i32>) -> i32 {
    counter.unwrap_or(0)
}

fn completed_indexes(status: &JobStatus) -> &str {
    status.completed_indexes.as_deref().unwrap_or_default()
}

fn uids(list: Option<&Vec<String>>) -> &[String] {
    list.map(Vec::as_slice).unwrap_or_default()
}

fn same_uncounted(old: Option<&UncountedTerminatedPods>, new: Option<&UncountedTerminatedPods>) -> bool {
    match (old, new) {
        (None, None) => true,
        (Some(old), Some(new)) => {
            uids(old.succeeded.as_ref()) == uids(new.succeeded.as_ref())
                && uids(old.failed.as_ref()) == uids(new.failed.as_ref())
        }
        _ => false,
    }
}

fn counters_are_not_negative(new: &JobStatus, errors: &mut Errors) {
    for (field, counter) in [
        (ACTIVE, new.active),
        (SUCCEEDED, new.succeeded),
        (FAILED_COUNT, new.failed),
        (READY, new.ready),
        (TERMINATING, new.terminating),
    ] {
        errors.non_negative(&field, count(counter));
    }
}

fn uncounted_pods_are_named_once(new: &JobStatus, errors: &mut Errors) {
    let Some(uncounted) = &new.uncounted_terminated_pods else { return };
    let mut seen = BTreeSet::new();
    for (name, list) in [("succeeded", uncounted.succeeded.as_ref()), ("failed", uncounted.failed.as_ref())] {
        let field = UNCOUNTED.child(name);
        for (index, uid) in uids(list).iter().enumerate() {
            if uid.is_empty() {
                errors.invalid_text(&field.index(index), uid, "must not be empty");
            } else if !seen.insert(uid) {
                errors.duplicate(&field.index(index), uid);
            }
        }
    }
}

/// How conditions and completion time fit together.
fn outcome_is_consistent(transition: &Transition<'_>, errors: &mut Errors) {
    let Transition { was, is, changed, new, .. } = transition;
    let complete_changed = was.complete != is.complete;
    let failed_changed = was.failed != is.failed;
    if (complete_changed || failed_changed) && is.complete && is.failed {
        errors.invalid(&CONDITIONS, "a Job cannot be both Complete and Failed");
    }
    if (complete_changed || was.failure_target != is.failure_target) && is.complete && is.failure_target {
        errors.invalid(&CONDITIONS, "a Complete Job cannot have the FailureTarget condition");
    }
    if complete_changed || changed.completion_time {
        match &new.completion_time {
            Some(_) if !is.complete => {
                errors.invalid(&COMPLETION_TIME, "cannot be set while there is no Complete=True condition");
            }
            None if is.complete => errors.required(&COMPLETION_TIME, "a Complete Job needs its completionTime"),
            _ => {}
        }
    }
    if (changed.start_time || changed.completion_time)
        && let (Some(start), Some(completion)) = (&new.start_time, &new.completion_time)
        && completion.0 < start.0
    {
        errors.invalid_text(&COMPLETION_TIME, &completion.0.to_string(), "must not be before startTime");
    }
    if (failed_changed || changed.failed_indexes) && is.failed && !is.failure_target {
        errors.invalid(&CONDITIONS, "Failed=True needs the FailureTarget=True condition beside it");
    }
    if (complete_changed || was.success_criteria_met != is.success_criteria_met)
        && is.complete
        && !is.success_criteria_met
    {
        errors.invalid(&CONDITIONS, "Complete=True needs the SuccessCriteriaMet=True condition beside it");
    }
}

fn finished_job_is_at_rest(transition: &Transition<'_>, rules: Rules, errors: &mut Errors) {
    let Transition { spec, was, is, changed, new, .. } = transition;
    if !is.finished() {
        return;
    }
    let just_finished = !was.finished();
    let active = count(new.active);
    if (just_finished || changed.active) && active > 0 {
        errors.invalid_number(&ACTIVE, active, "a finished Job cannot have active pods");
    }
    if (just_finished || changed.start_time) && !rules.may_finish_unstarted(spec) && new.start_time.is_none() {
        errors.required(&START_TIME, "a finished Job needs its startTime");
    }
    let has_uncounted = new.uncounted_terminated_pods.as_ref().is_some_and(|uncounted| {
        !uids(uncounted.succeeded.as_ref()).is_empty() || !uids(uncounted.failed.as_ref()).is_empty()
    });
    if (just_finished || changed.uncounted) && has_uncounted {
        errors.invalid(&UNCOUNTED, "must be empty for a finished Job");
    }
}

fn indexes_fit_the_spec(transition: &Transition<'_>, errors: &mut Errors) {
    let Transition { spec, changed, new, .. } = transition;
    if !changed.completed_indexes && !changed.failed_indexes {
        return;
    }
    let completed = completed_indexes(new);
    if changed.completed_indexes
        && let Some(completions) = spec.completions
        && let Err(error) = index_set::count(completed, completions)
    {
        errors.invalid_text(&COMPLETED_INDEXES, completed, error.to_string());
    }
    if changed.failed_indexes
        && spec.has_backoff_limit_per_index
        && let (Some(completions), Some(failed)) = (spec.completions, &new.failed_indexes)
        && let Err(error) = index_set::count(failed, completions)
    {
        errors.invalid_text(&FAILED_INDEXES, failed, error.to_string());
    }
    if changed.completed_indexes && !completed.is_empty() && !spec.indexed {
        errors.invalid_text(&COMPLETED_INDEXES, completed, "must be empty when the completion mode is not Indexed");
    }
    if changed.failed_indexes
        && !spec.has_backoff_limit_per_index
        && let Some(failed) = &new.failed_indexes
    {
        errors.invalid_text(&FAILED_INDEXES, failed, "must be null when backoffLimitPerIndex is null");
    }
    if let (Some(completions), Some(failed)) = (spec.completions, &new.failed_indexes)
        && let Some(index) = index_set::overlap(completed, failed, completions)
    {
        errors.invalid_text(&FAILED_INDEXES, failed, format!("index {index} is also in completedIndexes"));
    }
}

fn pods_add_up(transition: &Transition<'_>, errors: &mut Errors) {
    let Transition { was, is, changed, new, .. } = transition;
    let (terminating, ready) = (count(new.terminating), count(new.ready));
    if (was.finished() != is.finished() || changed.terminating) && is.finished() && terminating > 0 {
        errors.invalid_number(&TERMINATING, terminating, "a finished Job cannot have terminating pods");
    }
    if (changed.ready || changed.active) && new.ready.is_some() && ready > count(new.active) {
        errors.invalid_number(&READY, ready, "there cannot be more ready pods than active ones");
    }
}

fn success_criteria_exclude_failure(transition: &Transition<'_>, rules: Rules, errors: &mut Errors) {
    let Transition { spec, was, is, .. } = transition;
    let limited = rules.success_criteria_for_success_policy_only && !was.success_criteria_met;
    if limited && is.success_criteria_met && !spec.indexed {
        errors.invalid(&CONDITIONS, "SuccessCriteriaMet is for Indexed Jobs only");
    }
    if is.success_criteria_met && is.failed {
        errors.invalid(&CONDITIONS, "SuccessCriteriaMet and Failed cannot both be True");
    }
    if is.success_criteria_met && is.failure_target {
        errors.invalid(&CONDITIONS, "SuccessCriteriaMet and FailureTarget cannot both be True");
    }
    if limited && is.success_criteria_met && !spec.has_success_policy {
        errors.invalid(&CONDITIONS, "SuccessCriteriaMet is for Jobs with a successPolicy only");
    }
    if spec.has_success_policy && is.complete && !is.success_criteria_met {
        errors.invalid(&CONDITIONS, "a Job with a successPolicy cannot be Complete before SuccessCriteriaMet=True");
    }
}

fn outcome_is_kept(transition: &Transition<'_>, errors: &mut Errors) {
    let Transition { was, is, .. } = transition;
    for (type_, was_true, is_true) in [
        (FAILED, was.failed, is.failed),
        (COMPLETE, was.complete, is.complete),
        (FAILURE_TARGET, was.failure_target, is.failure_target),
    ] {
        if was_true && !is_true {
            errors.invalid(&CONDITIONS, format!("the condition {type_}=True cannot be taken back"));
        }
    }
}

fn counters_do_not_fall(transition: &Transition<'_>, errors: &mut Errors) {
    let Transition { spec, old, new, .. } = transition;
    let (failed, succeeded) = (count(new.failed), count(new.succeeded));
    if failed < count(old.failed) {
        errors.invalid_number(&FAILED_COUNT, failed, "the counter of failed pods cannot fall");
    }
    if !spec.is_elastic() && succeeded < count(old.succeeded) {
        errors.invalid_number(&SUCCEEDED, succeeded, "the counter of succeeded pods cannot fall");
    }
}

fn times_are_kept(transition: &Transition<'_>, rules: Rules, errors: &mut Errors) {
    let Transition { spec, old, new, was, is, changed } = transition;
    if let (Some(_), Some(completion)) = (&old.completion_time, &new.completion_time)
        && changed.completion_time
    {
        errors.invalid_text(&COMPLETION_TIME, &completion.0.to_string(), "field is immutable");
    }
    let resuming = rules.resume_moves_start_time && was.suspended && is.resumed;
    if changed.start_time && !resuming && old.start_time.is_some() && !spec.suspended {
        let detail = "cannot change or be removed while the Job is not suspended";
        if rules.start_time_change_is_required {
            errors.required(&START_TIME, detail);
        } else {
            errors.invalid(&START_TIME, detail);
        }
    }
}

fn success_criteria_are_kept(transition: &Transition<'_>, errors: &mut Errors) {
    let Transition { was, is, .. } = transition;
    if was.success_criteria_met && !is.success_criteria_met {
        errors.invalid(&CONDITIONS, "the condition SuccessCriteriaMet=True cannot be taken back");
    }
    if was.complete && !was.success_criteria_met && is.success_criteria_met {
        errors.invalid(&CONDITIONS, "SuccessCriteriaMet=True cannot be added once the Job is Complete");
    }
}
