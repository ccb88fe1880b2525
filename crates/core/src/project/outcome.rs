//! How a Job ends: the direction, the conditions that tell it, and what a finished status looks like.

use job_api::conditions::{
    self, COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, is_finished, is_true, whole_seconds,
};
use k8s_openapi::{
    api::batch::v1::{JobCondition, JobStatus},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};

use super::{conditions_of, copy};

/// Which way a Job goes. Once an interim condition is written there is no way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
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

    /// The direction that these conditions have taken, if any. A terminal one speaks first: workers older than 1.31 end
    /// a Job without an interim condition.
    pub(super) fn of(list: &[JobCondition]) -> Option<Self> {
        let said =
            [FAILED, COMPLETE, FAILURE_TARGET, SUCCESS_CRITERIA_MET].into_iter().find(|type_| is_true(list, type_))?;
        Some(if [FAILED, FAILURE_TARGET].contains(&said) { Self::Failure } else { Self::Success })
    }
}

/// Takes over what the mirror says about the outcome. What was copied once cannot be taken back: if it has a direction
/// already, the mirror's own no longer counts, only that it has ended.
pub(super) fn follow(list: &mut Vec<JobCondition>, seen: &[JobCondition], now: Timestamp) {
    let Some(direction) = Direction::of(list).or_else(|| Direction::of(seen)) else { return };
    if let Some(interim) = announcement(seen, direction)
        && (holding(seen, direction.interim()).is_some() || !is_true(list, direction.interim()))
    {
        copy(list, &interim, now);
    }
    if is_finished(seen) {
        end(list, direction, holding(seen, direction.terminal()), now);
    }
}

/// The same conditions without the end, and with what announces it.
pub(super) fn without_end(seen: &[JobCondition]) -> Vec<JobCondition> {
    let mut list: Vec<JobCondition> = seen.to_vec();
    if let Some(interim) = Direction::of(seen).and_then(|direction| announcement(seen, direction)) {
        list.retain(|known| known.type_ != interim.type_);
        list.push(interim);
    }
    list.retain(|known| ![COMPLETE, FAILED].contains(&known.type_.as_str()));
    list
}

/// The interim condition. A worker older than 1.31 ends a Job without it; the manager's API server wants it.
fn announcement(seen: &[JobCondition], direction: Direction) -> Option<JobCondition> {
    let said = || holding(seen, direction.terminal()).cloned();
    let interim = holding(seen, direction.interim()).cloned();
    interim.or_else(|| Some(JobCondition { type_: direction.interim().into(), ..said()? }))
}

/// Adds the terminal condition: as the mirror `said` it, or with the reason of the interim condition that announced it.
/// It comes to be now: the TTL of the user's Job counts from the moment in which its user could see the end.
pub(super) fn end(list: &mut Vec<JobCondition>, direction: Direction, said: Option<&JobCondition>, now: Timestamp) {
    let said = said.or_else(|| holding(list, direction.interim())).cloned().unwrap_or_default();
    let terminal = JobCondition {
        type_: direction.terminal().into(),
        status: conditions::TRUE.into(),
        last_transition_time: None,
        ..said
    };
    copy(list, &terminal, now);
}

/// Makes what every finished status has: no pods left, a startTime, and a completionTime only when complete.
///
/// Both times are the worker's if it knows them, so that they make a true duration. `unstarted`: it may, and did, end
/// without a start.
pub(super) fn settle(next: &mut JobStatus, mirror: &JobStatus, unstarted: bool, now: Timestamp) {
    next.active = None;
    next.ready = next.ready.map(|_| 0);
    next.terminating = next.terminating.map(|_| 0);
    next.uncounted_terminated_pods = None;

    let known = next.completion_time.take();
    let ended = known.as_ref().or(mirror.completion_time.as_ref()).or_else(|| {
        let seen = conditions_of(mirror);
        let terminal = holding(seen, COMPLETE).or_else(|| holding(seen, FAILED));
        terminal.and_then(|condition| condition.last_transition_time.as_ref())
    });
    let ended = ended.map_or(now, |time| whole_seconds(time.0));
    if next.start_time.is_none() && !unstarted {
        next.start_time = Some(Time(ended));
    }
    let start = next.start_time.as_ref().map_or(ended, |start| start.0);
    if is_true(conditions_of(next), COMPLETE) {
        // The clocks of two clusters may differ, and an end before the start is refused.
        next.completion_time = known.or_else(|| Some(Time(ended.max(start))));
    }
}

/// The condition of that type that is true. A server does not refuse a second one of the same type.
fn holding<'a>(list: &'a [JobCondition], type_: &str) -> Option<&'a JobCondition> {
    list.iter().find(|condition| condition.type_ == type_ && condition.status == conditions::TRUE)
}
