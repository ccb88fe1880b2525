//! Conditions of a Job: the built-in types, reasons and messages, and helpers to read and write them.

use k8s_openapi::api::batch::v1::JobCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

/// The Job has ended well.
pub const COMPLETE: &str = "Complete";
/// The Job has ended badly.
pub const FAILED: &str = "Failed";
/// The Job is bound to fail; its pods are being stopped.
pub const FAILURE_TARGET: &str = "FailureTarget";
/// The Job is bound to complete; pods that are left are being stopped.
pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
/// The Job is suspended.
pub const SUSPENDED: &str = "Suspended";

/// The condition holds.
pub const TRUE: &str = "True";
/// The condition does not hold.
pub const FALSE: &str = "False";

/// Values of a condition's `reason` that the built-in Job controller writes.
pub mod reason {
    /// `Complete`: every completion was reached.
    pub const COMPLETIONS_REACHED: &str = "CompletionsReached";
    /// `Complete`: a rule of the success policy was met.
    pub const SUCCESS_POLICY: &str = "SuccessPolicy";
    /// `Failed`: more pods failed than `backoffLimit` allows.
    pub const BACKOFF_LIMIT_EXCEEDED: &str = "BackoffLimitExceeded";
    /// `Failed`: `activeDeadlineSeconds` are over.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// `Failed`: a rule of the pod failure policy said `FailJob`.
    pub const POD_FAILURE_POLICY: &str = "PodFailurePolicy";
    /// `Failed`: some indexes failed for good.
    pub const FAILED_INDEXES: &str = "FailedIndexes";
    /// `Failed`: more indexes failed than `maxFailedIndexes` allows.
    pub const MAX_FAILED_INDEXES_EXCEEDED: &str = "MaxFailedIndexesExceeded";
    /// `Suspended=True`.
    pub const JOB_SUSPENDED: &str = "JobSuspended";
    /// `Suspended=False`.
    pub const JOB_RESUMED: &str = "JobResumed";
}

/// Values of a condition's `message` that the built-in Job controller writes.
pub mod message {
    /// With [`reason::COMPLETIONS_REACHED`](super::reason::COMPLETIONS_REACHED).
    pub const COMPLETIONS_REACHED: &str = "Reached expected number of succeeded pods";
    /// With [`reason::BACKOFF_LIMIT_EXCEEDED`](super::reason::BACKOFF_LIMIT_EXCEEDED).
    pub const BACKOFF_LIMIT_EXCEEDED: &str = "Job has reached the specified backoff limit";
    /// With [`reason::DEADLINE_EXCEEDED`](super::reason::DEADLINE_EXCEEDED).
    pub const DEADLINE_EXCEEDED: &str = "Job was active longer than specified deadline";
    /// With [`reason::FAILED_INDEXES`](super::reason::FAILED_INDEXES).
    pub const FAILED_INDEXES: &str = "Job has failed indexes";
    /// With [`reason::MAX_FAILED_INDEXES_EXCEEDED`](super::reason::MAX_FAILED_INDEXES_EXCEEDED).
    pub const MAX_FAILED_INDEXES_EXCEEDED: &str = "Job has exceeded the specified maximal number of failed indexes";
    /// With [`reason::JOB_SUSPENDED`](super::reason::JOB_SUSPENDED).
    pub const JOB_SUSPENDED: &str = "Job suspended";
    /// With [`reason::JOB_RESUMED`](super::reason::JOB_RESUMED).
    pub const JOB_RESUMED: &str = "Job resumed";

    /// With [`reason::SUCCESS_POLICY`](super::reason::SUCCESS_POLICY): the rule at `index` was met.
    pub fn matched_success_policy_rule(index: usize) -> String {
        format!("Matched rules at index {index}")
    }
}

/// The first condition of that type. The server never refuses a second one.
pub fn find<'a>(conditions: &'a [JobCondition], type_: &str) -> Option<&'a JobCondition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// True when some condition of that type has status `True`.
///
/// ```
/// use job_api::conditions;
/// use k8s_openapi::jiff::Timestamp;
///
/// let mut list = Vec::new();
/// let changed = conditions::set(&mut list, conditions::SUSPENDED, true, "JobSuspended", "Job suspended", Timestamp::UNIX_EPOCH);
/// assert!(changed && conditions::is_true(&list, conditions::SUSPENDED));
/// ```
pub fn is_true(conditions: &[JobCondition], type_: &str) -> bool {
    conditions.iter().any(|condition| condition.type_ == type_ && condition.status == TRUE)
}

/// True when the Job has ended: `Complete` or `Failed` is true.
pub fn is_finished(conditions: &[JobCondition]) -> bool {
    is_true(conditions, COMPLETE) || is_true(conditions, FAILED)
}

/// A condition that has just come to be, with both timestamps: without the transition time the TTL controller never
/// deletes a finished Job. Times are cut to whole seconds, the precision that the server keeps.
pub fn new(type_: &str, holds: bool, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    let now = Time(whole_seconds(now));
    JobCondition {
        type_: type_.to_owned(),
        status: if holds { TRUE } else { FALSE }.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(now.clone()),
        last_transition_time: Some(now),
    }
}

/// Adds the condition or changes the one of that type; tells whether anything but the times had to change.
/// When nothing had to, the times stay too. The transition time moves only with the status.
pub fn set(
    conditions: &mut Vec<JobCondition>,
    type_: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let fresh = new(type_, holds, reason, message, now);
    let Some(known) = conditions.iter_mut().find(|condition| condition.type_ == type_) else {
        conditions.push(fresh);
        return true;
    };
    if (&known.status, &known.reason, &known.message) == (&fresh.status, &fresh.reason, &fresh.message) {
        return false;
    }
    let since = if known.status == fresh.status { known.last_transition_time.take() } else { None };
    *known = JobCondition { last_transition_time: since.or(fresh.last_transition_time), ..fresh };
    true
}

/// The same instant in the precision of the server's storage.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// What the status rules want to know of a list of conditions, gathered in one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each flag is one condition; together they are no state machine")]
pub(crate) struct Summary {
    pub(crate) complete: bool,
    pub(crate) failed: bool,
    pub(crate) failure_target: bool,
    pub(crate) success_criteria_met: bool,
    pub(crate) suspended: bool,
    /// An explicit `Suspended=False`; a missing entry does not count.
    pub(crate) resumed: bool,
}

impl Summary {
    pub(crate) fn of(conditions: Option<&[JobCondition]>) -> Self {
        let mut summary = Self::default();
        for condition in conditions.unwrap_or_default() {
            match (condition.type_.as_str(), condition.status.as_str()) {
                (COMPLETE, TRUE) => summary.complete = true,
                (FAILED, TRUE) => summary.failed = true,
                (FAILURE_TARGET, TRUE) => summary.failure_target = true,
                (SUCCESS_CRITERIA_MET, TRUE) => summary.success_criteria_met = true,
                (SUSPENDED, TRUE) => summary.suspended = true,
                (SUSPENDED, FALSE) => summary.resumed = true,
                _ => {}
            }
        }
        summary
    }

    pub(crate) fn finished(self) -> bool {
        self.complete || self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn setting_the_same_again_changes_nothing() {
        let mut list = Vec::new();
        assert!(set(&mut list, SUSPENDED, true, reason::JOB_SUSPENDED, message::JOB_SUSPENDED, at(1)));
        let before = list.clone();
        assert!(!set(&mut list, SUSPENDED, true, reason::JOB_SUSPENDED, message::JOB_SUSPENDED, at(9)));
        assert_eq!(list, before);
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let mut list = vec![new(SUSPENDED, true, "A", "", at(1))];
        assert!(set(&mut list, SUSPENDED, true, "B", "", at(5)));
        assert_eq!(list[0].last_transition_time, Some(Time(at(1))));
        assert!(set(&mut list, SUSPENDED, false, "B", "", at(7)));
        assert_eq!(list[0].last_transition_time, Some(Time(at(7))));
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn any_true_entry_counts_even_beside_a_false_one() {
        let list = [new(COMPLETE, false, "", "", at(1)), new(COMPLETE, true, "", "", at(1))];
        assert!(is_true(&list, COMPLETE) && is_finished(&list));
        assert_eq!(find(&list, COMPLETE).map(|condition| condition.status.as_str()), Some(FALSE));
        assert!(!is_finished(&list[..1]));
    }
}
