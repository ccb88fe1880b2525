//! What users read in `kubectl describe job`: which action is news, and in which words.

mod warnings;

use jobferry_api::{conditions, events as reasons};
use jobferry_core::{
    action::{Action, Alarm},
    record::{Placement, Record},
    workload::{Told, Workload},
};
use jobferry_kubeio::events::{About, Happening, Severity};
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};

pub(crate) use warnings::repeat_warnings;

/// The Job that an Event is about.
pub(crate) fn about_job(namespace: &str, name: &str, uid: &str) -> About {
    About {
        api_version: "batch/v1".into(),
        kind: "Job".into(),
        namespace: namespace.into(),
        name: name.into(),
        uid: uid.into(),
    }
}

/// The workload that an Event is about.
pub(crate) fn about(workload: &Workload) -> About {
    let (api_version, kind) = workload.kind().type_meta();
    let (namespace, name, uid) = (workload.namespace.clone(), workload.name.clone(), workload.uid.clone());
    About { api_version: api_version.into(), kind: kind.into(), namespace, name, uid }
}

/// What users are told once this action has been carried out.
pub(crate) fn news(workload: &Workload, action: &Action) -> Option<Happening> {
    match action {
        Action::RecordPlacement(placement) => of_placement(workload, placement),
        Action::Tell(told) => of_told(told),
        Action::WriteStatus { status, .. } => of_end(workload, status),
        Action::Alarm(alarm @ Alarm::ActedOn(_)) => {
            let reason = reasons::FOREIGN_CONTROLLER.into();
            Some(Happening { severity: Severity::Warning, reason, message: alarm.to_string() })
        }
        _ => None,
    }
}

fn of_placement(workload: &Workload, placement: &Placement) -> Option<Happening> {
    let Placement { worker, epoch, moving, .. } = placement;
    // A leader that takes over records the same placement again: no news for anybody.
    let known = matches!(&workload.record, Record::Placed(before)
        if (&before.worker, before.epoch, before.moving) == (worker, *epoch, *moving));
    if known {
        return None;
    }
    Some(if *moving {
        normal(reasons::MOVING, format!("leaves worker {worker}, which refuses it"))
    } else {
        normal(reasons::PLACED, format!("on worker {worker}"))
    })
}

fn of_told(told: &Told) -> Option<Happening> {
    let reason = match told.reason.as_str() {
        // The first two are told when they are recorded, the last by its alarm.
        conditions::REASON_PLACED | conditions::REASON_MOVING | conditions::REASON_FOREIGN_CONTROLLER => return None,
        // Of kinds other than Job, once and not before it counts: an operator may take back what looks like an end.
        conditions::REASON_FINISHED => return Some(normal(reasons::FINISHED, told.message.clone())),
        conditions::REASON_NO_WORKER_FITS => reasons::WAITING_FOR_WORKER.to_owned(),
        other => other.to_owned(),
    };
    Some(Happening { severity: Severity::Warning, reason: reason.into(), message: told.message.clone() })
}

fn of_end(workload: &Workload, next: &JobStatus) -> Option<Happening> {
    if workload.is_finished() {
        return None;
    }
    let end = ending(next)?;
    let (reason, message) = (end.reason.as_deref().unwrap_or_default(), end.message.as_deref().unwrap_or_default());
    if [reasons::MIRROR_DELETED, reasons::WORKER_LOST].contains(&reason) {
        let reason = reason.to_owned().into();
        return Some(Happening { severity: Severity::Warning, reason, message: message.into() });
    }
    let worker = match &workload.record {
        Record::Placed(placement) => format!(" on worker {}", placement.worker),
        Record::None | Record::Unreadable => String::new(),
    };
    let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    Some(normal(reasons::FINISHED, format!("{}{worker}{why}", end.type_)))
}

fn ending(status: &JobStatus) -> Option<&JobCondition> {
    let is_end = |c: &&JobCondition| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True";
    status.conditions.as_deref().unwrap_or_default().iter().find(is_end)
}

fn normal(reason: &'static str, message: String) -> Happening {
    Happening { severity: Severity::Normal, reason: reason.into(), message }
}

#[cfg(test)]
mod tests;
