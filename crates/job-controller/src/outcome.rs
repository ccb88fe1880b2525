//! How a Job ends, as soon as that is known.

use job_api::conditions::{self, message, reason};
use k8s_openapi::{
    api::batch::v1::JobStatus,
    jiff::{SignedDuration, Timestamp},
};

use crate::{census::Census, failure_policy::Verdict, job::JobView, pod::Phase, success_policy};

/// The end of a Job. Once its interim condition is stored, only the matching terminal one can follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) success: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// The interim condition is stored.
    pub(crate) recorded: bool,
}

impl Outcome {
    fn new(success: bool, reason: &str, message: impl Into<String>) -> Self {
        Self { success, reason: reason.to_owned(), message: message.into(), recorded: false }
    }

    fn failure(reason: &str, message: impl Into<String>) -> Self {
        Self::new(false, reason, message)
    }

    fn success(reason: &str, message: impl Into<String>) -> Self {
        Self::new(true, reason, message)
    }

    /// The condition that announces it.
    pub(crate) const fn interim(&self) -> &'static str {
        if self.success { conditions::SUCCESS_CRITERIA_MET } else { conditions::FAILURE_TARGET }
    }

    /// The condition that ends it.
    pub(crate) const fn terminal(&self) -> &'static str {
        if self.success { conditions::COMPLETE } else { conditions::FAILED }
    }

    /// What the status already announces.
    pub(crate) fn announced(status: &JobStatus) -> Option<Self> {
        let list = status.conditions.as_deref().unwrap_or_default();
        [(conditions::SUCCESS_CRITERIA_MET, true), (conditions::FAILURE_TARGET, false)].into_iter().find_map(
            |(kind, success)| {
                let condition = list.iter().find(|c| c.type_ == kind && c.status == conditions::TRUE)?;
                Some(Self {
                    success,
                    reason: condition.reason.clone().unwrap_or_default(),
                    message: condition.message.clone().unwrap_or_default(),
                    recorded: true,
                })
            },
        )
    }

    /// What the pods say now. The order matters where several are true at once; it is the built-in controller's.
    pub(crate) fn reached(census: &Census<'_>, now: Timestamp) -> Option<Self> {
        by_failed_pods(census)
            .or_else(|| by_deadline(census.job, now))
            .or_else(|| by_indexes(census))
            .or_else(|| by_completions(census))
    }
}

fn by_failed_pods(census: &Census<'_>) -> Option<Outcome> {
    let job = census.job;
    if job.spec.pod_failure_policy.is_some() {
        for pod in census.pods.iter().filter(|pod| census.counts_as_ended(pod)) {
            if let Verdict::FailJob(message) = census.verdict(pod) {
                return Some(Outcome::failure(reason::POD_FAILURE_POLICY, message));
            }
        }
    }
    let exceeded = census.failed > u64::from(job.spec.backoff_limit) || restarts_exceed_limit(census);
    exceeded.then(|| Outcome::failure(reason::BACKOFF_LIMIT_EXCEEDED, message::BACKOFF_LIMIT_EXCEEDED))
}

/// Containers that restart in place produce no failed pods; their restarts count against the same limit, already when
/// they reach it.
fn restarts_exceed_limit(census: &Census<'_>) -> bool {
    let spec = &census.job.spec;
    let running = census.pods.iter().filter(|pod| matches!(pod.phase, Phase::Running | Phase::Pending));
    let restarts: u64 = running.map(|pod| u64::from(pod.restarts.total)).sum();
    spec.restarts_in_place && restarts > 0 && restarts >= u64::from(spec.backoff_limit)
}

fn by_deadline(job: &JobView, now: Timestamp) -> Option<Outcome> {
    let over = deadline(job, now)? <= now;
    over.then(|| Outcome::failure(reason::DEADLINE_EXCEEDED, message::DEADLINE_EXCEEDED))
}

/// When `activeDeadlineSeconds` will be over; none while suspended. A Job whose start is not recorded yet starts now, so
/// that a deadline of zero seconds is over before there is a pod.
pub(crate) fn deadline(job: &JobView, now: Timestamp) -> Option<Timestamp> {
    let seconds = job.spec.active_deadline_seconds.filter(|_| !job.spec.suspend)?;
    let start = job.status.start_time.as_ref().map_or(now, |start| start.0);
    start.checked_add(SignedDuration::from_secs(seconds)).ok()
}

fn by_indexes(census: &Census<'_>) -> Option<Outcome> {
    let width = u64::from(census.job.indexes()?);
    let failed = census.failed_indexes.as_ref().map_or(0, job_api::IndexSet::len);
    if census.job.spec.max_failed_indexes.is_some_and(|most| failed > u64::from(most)) {
        return Some(Outcome::failure(reason::MAX_FAILED_INDEXES_EXCEEDED, message::MAX_FAILED_INDEXES_EXCEEDED));
    }
    if failed > 0 && failed + census.completed_indexes.len() >= width {
        return Some(Outcome::failure(reason::FAILED_INDEXES, message::FAILED_INDEXES));
    }
    let rule = success_policy::met(census.job.spec.success_policy.as_ref()?, &census.completed_indexes)?;
    Some(Outcome::success(reason::SUCCESS_POLICY, message::matched_success_policy_rule(rule)))
}

fn by_completions(census: &Census<'_>) -> Option<Outcome> {
    let enough =
        census.job.spec.completions.map_or(census.succeeded > 0, |wanted| census.succeeded >= u64::from(wanted));
    let complete = enough && census.active.is_empty();
    complete.then(|| Outcome::success(reason::COMPLETIONS_REACHED, message::COMPLETIONS_REACHED))
}
