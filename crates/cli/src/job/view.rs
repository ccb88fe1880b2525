//! What people want to know of a workload, from the object alone.

mod custom;

use std::time::Duration;

use jobferry_api::{
    conditions::{PLACED, PLACEMENT, REASON_PLACED},
    labels, managed_by,
};
use jobferry_core::{
    custom::{self as kinds, KindRef},
    record::{Placement, Record},
};
use k8s_openapi::{
    api::batch::v1::{Job, JobCondition},
    jiff::Timestamp,
};
use serde::Serialize;
use serde_json::Value;

/// A mirror is there within a second. Whoever waits longer wants to know why.
const STARTS_WITHIN: Duration = Duration::from_secs(5);

/// Where a workload stands, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Phase {
    /// No worker has it yet.
    Waiting,
    /// It was given to a worker, or its pods are not there yet.
    Placed,
    /// The user holds it back.
    Suspended,
    Running,
    Complete,
    Failed,
    /// It is gone: only a watch can tell.
    Deleted,
}

impl Phase {
    pub(crate) fn is_end(self) -> bool {
        matches!(self, Self::Complete | Self::Failed)
    }
}

/// A workload in a line.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct View {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The worker; for workloads that are not dispatched, the management cluster itself.
    pub(crate) place: Option<String>,
    pub(crate) phase: Phase,
    /// How many pods of a Job have succeeded, of how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) completions: Option<String>,
    /// Why it waits, or how it ended.
    pub(crate) why: String,
}

impl View {
    pub(crate) fn of(job: &Job, now: Timestamp) -> Self {
        let dispatched = is_dispatched(job);
        let label = job.metadata.labels.as_ref().and_then(|labels| labels.get(labels::WORKER)).cloned();
        let place = if dispatched { label } else { Some("(manager)".into()) };
        let (phase, why) = phase_of(job, dispatched, now);
        let status = job.status.clone().unwrap_or_default();
        let wanted = job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or(1);
        Self {
            namespace: job.metadata.namespace.clone().unwrap_or_default(),
            name: job.metadata.name.clone().unwrap_or_default(),
            place,
            phase,
            completions: Some(format!("{}/{wanted}", status.succeeded.unwrap_or(0))),
            why,
        }
    }

    /// Of an object of any kind.
    pub(crate) fn of_object(kind: &KindRef, object: &Value, now: Timestamp) -> anyhow::Result<Self> {
        Ok(match kind {
            KindRef::Job => Self::of(&serde_json::from_value(object.clone())?, now),
            KindRef::Custom(kind) => custom::view(&kinds::read_workload(kind, object, now)?),
        })
    }

    /// `, 2/3 done`, for Jobs.
    pub(crate) fn done(&self) -> String {
        self.completions.as_ref().map(|completions| format!(", {completions} done")).unwrap_or_default()
    }
}

pub(crate) fn is_dispatched(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref()) == Some(managed_by::DISPATCHER)
}

fn phase_of(job: &Job, dispatched: bool, now: Timestamp) -> (Phase, String) {
    let holding = |type_| condition(job, type_).filter(|condition| condition.status == "True");
    if let Some(end) = holding("Complete") {
        return (Phase::Complete, end.reason.clone().unwrap_or_default());
    }
    if let Some(end) = holding("Failed") {
        return (Phase::Failed, words(end));
    }
    if holding("Suspended").is_some() || job.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true)) {
        return (Phase::Suspended, String::new());
    }
    let placed = condition(job, PLACED);
    match placed {
        Some(told) if told.status != "True" => return (Phase::Waiting, words(told)),
        None if dispatched && condition(job, PLACEMENT).is_none() => {
            return (Phase::Waiting, "no dispatcher has looked at it yet".into());
        }
        _ => {}
    }
    let told = placed.filter(|told| told.reason.as_deref() != Some(REASON_PLACED)).map(words);
    let started =
        job.status.as_ref().is_some_and(|status| status.active.unwrap_or(0) > 0 || status.start_time.is_some());
    if started {
        return (Phase::Running, told.unwrap_or_default());
    }
    (Phase::Placed, told.or_else(|| overdue(job, now)).or_else(|| asked_again(job)).unwrap_or_default())
}

/// The dispatcher says nothing while a worker still holds the mirror of an earlier Job of this name, which is kept until
/// no late request can run it again.
fn overdue(job: &Job, now: Timestamp) -> Option<String> {
    let Placement { worker, since, mirror, .. } = placement(job)?;
    let waited = Duration::try_from(now.duration_since(since.0)).unwrap_or_default();
    (mirror.is_none() && waited > STARTS_WITHIN)
        .then(|| format!("no sign of it from {worker} yet; an earlier Job of this name may still be there"))
}

/// A Job that a worker refused is placed anew again and again. What was told in between must not look as if all were well.
fn asked_again(job: &Job) -> Option<String> {
    let Placement { worker, epoch, mirror, .. } = placement(job)?;
    (mirror.is_none() && epoch > 1).then(|| format!("refused before; {worker} is asked, attempt {epoch}"))
}

fn placement(job: &Job) -> Option<Placement> {
    match Record::read(condition(job, PLACEMENT)?.message.as_deref()?) {
        Record::Placed(placement) => Some(placement),
        Record::None | Record::Unreadable => None,
    }
}

fn condition<'a>(job: &'a Job, type_: &str) -> Option<&'a JobCondition> {
    job.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

/// `Reason: message`.
fn words(condition: &JobCondition) -> String {
    let text = [condition.reason.as_deref(), condition.message.as_deref()];
    text.into_iter().flatten().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn view(managed_by: Option<&str>, status: &Value) -> View {
        let job = json!({
            "metadata": {"name": "train", "namespace": "ml"},
            "spec": {"managedBy": managed_by, "completions": 3, "template": {}}, "status": status,
        });
        View::of(&serde_json::from_value(job).unwrap(), NOW)
    }

    #[test]
    fn a_job_is_shown_by_one_word_and_its_reason() {
        let ours = Some(managed_by::DISPATCHER);
        let condition =
            |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "R", "message": "m"});
        let with = |conditions: Value| json!({"conditions": conditions, "succeeded": 2});
        for (managed_by, status, phase, why) in [
            (ours, json!({}), Phase::Waiting, "no dispatcher has looked at it yet"),
            (ours, with(json!([condition(PLACED, "False")])), Phase::Waiting, "R: m"),
            (ours, with(json!([condition(PLACEMENT, "True")])), Phase::Placed, ""),
            (ours, json!({"active": 1, "conditions": [condition(PLACEMENT, "True")]}), Phase::Running, ""),
            (ours, with(json!([condition("Complete", "True")])), Phase::Complete, "R"),
            (ours, with(json!([condition("Failed", "True")])), Phase::Failed, "R: m"),
            (ours, with(json!([condition("Suspended", "True")])), Phase::Suspended, ""),
            (None, json!({}), Phase::Placed, ""),
        ] {
            let view = view(managed_by, &status);
            assert_eq!((view.phase, view.why.as_str()), (phase, why), "{status}");
        }
        assert_eq!(view(None, &json!({})).place.as_deref(), Some("(manager)"));
        assert_eq!(view(ours, &with(json!([]))).completions.as_deref(), Some("2/3"));
    }

    #[test]
    fn a_job_that_was_refused_does_not_look_well_while_it_is_tried_again() {
        let placed = |epoch: u32| {
            let record = Placement::new("eu-1".into(), "id".into(), epoch, NOW);
            let message = serde_json::to_string(&record).unwrap();
            let status = json!({"conditions": [{"type": PLACEMENT, "status": "True", "message": message}]});
            view(Some(managed_by::DISPATCHER), &status).why
        };
        assert_eq!(placed(1), "");
        assert_eq!(placed(3), "refused before; eu-1 is asked, attempt 3");
    }

    #[test]
    fn a_placed_job_that_does_not_start_says_what_may_hold_it() {
        let placed = |seconds: u64| {
            let since = NOW.checked_sub(Duration::from_secs(seconds)).unwrap();
            let record = Placement::new("eu-1".into(), "id".into(), 1, since);
            let message = serde_json::to_string(&record).unwrap();
            let status = json!({"conditions": [{"type": PLACEMENT, "status": "True", "message": message}]});
            view(Some(managed_by::DISPATCHER), &status).why
        };
        assert_eq!(placed(1), "");
        assert!(placed(30).starts_with("no sign of it from eu-1 yet"), "{}", placed(30));
    }
}
