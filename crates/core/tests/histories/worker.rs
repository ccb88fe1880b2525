//! A worker's Job controller, as far as its status can be seen: every status that it publishes is one that a real one
//! could have written.

use job_api::{
    IndexSet, SpecView,
    conditions::{self, COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, SUSPENDED, message, reason},
};
use k8s_openapi::{
    api::batch::v1::{JobStatus, UncountedTerminatedPods},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::{SignedDuration, Timestamp},
};

/// What differs from release to release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// Up to 1.30: no interim conditions, and pods that are left in the final status.
    Old,
    /// 1.31 to 1.35.
    Recent,
    /// From 1.36 on: a suspended Job has no startTime.
    New,
}

/// How a Job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    Failure(&'static str),
}

pub(crate) struct Worker {
    pub(crate) release: Release,
    /// How far its clock is off.
    pub(crate) skew: SignedDuration,
    /// The spec of the mirror: what was last forwarded.
    pub(crate) spec: SpecView,
    pub(crate) status: JobStatus,
    decided: Option<Outcome>,
    completed: IndexSet,
    failed: IndexSet,
}

impl Worker {
    pub(crate) fn new(release: Release, skew: SignedDuration, spec: SpecView) -> Self {
        let status = JobStatus::default();
        Self { release, skew, spec, status, decided: None, completed: IndexSet::new(), failed: IndexSet::new() }
    }

    pub(crate) fn is_finished(&self) -> bool {
        conditions::is_finished(self.status.conditions.as_deref().unwrap_or_default())
    }

    /// Its clock: skewed, and finer than a second.
    fn clock(&self, now: Timestamp) -> Timestamp {
        now + self.skew + SignedDuration::from_millis(731)
    }

    /// A sync without anything new: start, suspend or resume, as the spec says.
    pub(crate) fn sync(&mut self, now: Timestamp) {
        if self.is_finished() || self.decided.is_some() {
            return;
        }
        let at = self.clock(now);
        let list = self.status.conditions.get_or_insert_default();
        if self.spec.suspended {
            conditions::set(list, SUSPENDED, true, reason::JOB_SUSPENDED, message::JOB_SUSPENDED, at);
            if self.release == Release::New {
                self.status.start_time = None;
            }
            self.stop_pods();
        } else if conditions::is_true(list, SUSPENDED) {
            conditions::set(list, SUSPENDED, false, reason::JOB_RESUMED, message::JOB_RESUMED, at);
            self.status.start_time = Some(Time(at));
        } else if self.status.start_time.is_none() {
            self.status.start_time = Some(Time(at));
        }
        self.status.ready.get_or_insert(0);
        self.status.terminating.get_or_insert(0);
        self.shrink();
        self.list_indexes();
    }

    /// Pods start and become ready.
    pub(crate) fn run_pods(&mut self, active: i32, ready: i32) {
        if self.status.start_time.is_none() || self.spec.suspended || self.decided.is_some() {
            return;
        }
        let active = active.min(self.spec.parallelism.unwrap_or(1));
        self.status.active = Some(active);
        // Old workers, and some newer ones while they back off, count pods as ready that are no longer active.
        self.status.ready = Some(if self.release == Release::Old { ready } else { ready.min(active) });
    }

    /// A pod ends. Its index, if it has one, is done or has failed for good.
    pub(crate) fn end_pod(&mut self, index: u32, succeeds: bool) {
        let active = self.status.active.unwrap_or(0);
        if active == 0 || self.decided.is_some() {
            return;
        }
        self.status.active = Some(active - 1);
        self.status.ready = self.status.ready.map(|ready| ready.min(active - 1));
        let uncounted = UncountedTerminatedPods { failed: None, succeeded: Some(vec![format!("pod-{index}")]) };
        self.status.uncounted_terminated_pods = Some(uncounted);
        let counter = if succeeds { &mut self.status.succeeded } else { &mut self.status.failed };
        *counter = Some(counter.unwrap_or(0) + 1);
        if self.spec.indexed {
            let completions = u32::try_from(self.spec.completions.unwrap_or(0)).unwrap();
            if index < completions && !self.failed.contains(index) && !self.completed.contains(index) {
                let set = if succeeds { &mut self.completed } else { &mut self.failed };
                set.insert(index);
            }
            self.list_indexes();
        }
    }

    /// The outcome is known; pods that are left are stopped. Old workers keep it to themselves.
    pub(crate) fn decide(&mut self, outcome: Outcome, now: Timestamp) {
        if self.decided.is_some() || self.is_finished() || (self.spec.suspended && outcome == Outcome::Success) {
            return;
        }
        self.decided = Some(outcome);
        self.stop_pods();
        if self.release != Release::Old {
            self.say(SUCCESS_CRITERIA_MET, FAILURE_TARGET, outcome, now);
        }
    }

    /// The last pod is gone. Old workers do not wait for it.
    pub(crate) fn finish(&mut self, now: Timestamp) {
        let Some(outcome) = self.decided.filter(|_| !self.is_finished()) else { return };
        if self.release != Release::Old {
            self.status.terminating = Some(0);
        }
        self.status.uncounted_terminated_pods = None;
        self.status.start_time.get_or_insert(Time(now + self.skew));
        if outcome == Outcome::Success {
            self.status.completion_time = Some(Time(self.clock(now)));
        }
        self.say(COMPLETE, FAILED, outcome, now);
    }

    fn say(&mut self, success: &str, failure: &str, outcome: Outcome, now: Timestamp) {
        let at = self.clock(now);
        let list = self.status.conditions.get_or_insert_default();
        match outcome {
            Outcome::Success => {
                conditions::set(list, success, true, reason::COMPLETIONS_REACHED, message::COMPLETIONS_REACHED, at)
            }
            Outcome::Failure(why) => conditions::set(list, failure, true, why, "", at),
        };
    }

    fn stop_pods(&mut self) {
        let active = self.status.active.take().unwrap_or(0);
        self.status.terminating = Some(self.status.terminating.unwrap_or(0) + active);
        self.status.ready = Some(if self.release == Release::Old { active } else { 0 });
    }

    /// Indexes of an elastic Job that was scaled down do not count any more.
    fn shrink(&mut self) {
        if self.spec.is_elastic() {
            let completions = u32::try_from(self.spec.completions.unwrap_or(0)).unwrap();
            (self.completed, self.failed) = (self.completed.clip(completions), self.failed.clip(completions));
        }
    }

    fn list_indexes(&mut self) {
        if self.spec.indexed {
            self.status.succeeded = Some(i32::try_from(self.completed.len()).unwrap()).filter(|count| *count > 0);
            self.status.completed_indexes = Some(self.completed.to_string());
            self.status.failed_indexes = self.spec.has_backoff_limit_per_index.then(|| self.failed.to_string());
        }
    }
}
