//! Workloads of other kinds than Job, in the same words.

use jobferry_api::{
    Outcome,
    conditions::{REASON_FINISHED, REASON_FOREIGN_CONTROLLER, REASON_PLACED},
};
use jobferry_core::{
    record::Record,
    workload::{Told, Workload},
};

use super::{Phase, View};

/// Where objects are that are not dispatched.
const MANAGER: &str = "(manager)";

pub(super) fn view(workload: &Workload) -> View {
    let place = match &workload.record {
        _ if !workload.is_ours() => Some(MANAGER.to_owned()),
        Record::Placed(placement) => Some(placement.worker.clone()),
        Record::None | Record::Unreadable => contested(workload).map(|_| MANAGER.to_owned()),
    };
    let (phase, why) = standing(workload);
    let (namespace, name) = (workload.namespace.clone(), workload.name.clone());
    View { namespace, name, place, phase, completions: None, why }
}

fn standing(workload: &Workload) -> (Phase, String) {
    let told = workload.placed.as_ref().filter(|_| workload.is_ours());
    let news = told.filter(|told| ![REASON_PLACED, REASON_FINISHED].contains(&told.reason.as_str())).map(words);
    let ended = workload.custom.as_ref().and_then(|custom| custom.ended);
    match ended {
        Some((Outcome::Failed, _)) => return (Phase::Failed, news.or_else(|| given_up(told?)).unwrap_or_default()),
        Some((Outcome::Succeeded | Outcome::Unknown, _)) => return (Phase::Complete, String::new()),
        None => {}
    }
    if let Some(who) = contested(workload) {
        return (Phase::Running, who);
    }
    if workload.spec.suspended {
        return (Phase::Suspended, news.unwrap_or_default());
    }
    match told {
        Some(told) if !told.holds => return (Phase::Waiting, words(told)),
        None if workload.is_ours() && workload.record == Record::None => {
            return (Phase::Waiting, "no dispatcher has looked at it yet".to_owned());
        }
        _ => {}
    }
    let phase = if workload.status.start_time.is_some() { Phase::Running } else { Phase::Placed };
    (phase, news.unwrap_or_default())
}

/// Who else acts on an object of ours, if anybody does: as the dispatcher tells it, or as the object itself shows.
fn contested(workload: &Workload) -> Option<String> {
    let told = workload.placed.as_ref().filter(|told| told.reason == REASON_FOREIGN_CONTROLLER).map(words);
    let seen = || Some(format!("{} writes its status here: it is left alone", workload.acted_on.as_ref()?));
    told.or_else(seen).filter(|_| workload.is_ours())
}

/// Why the dispatcher itself ended it, if it did.
fn given_up(told: &Told) -> Option<String> {
    told.message.split_once(": ").map(|(_, why)| why.to_owned())
}

fn words(told: &Told) -> String {
    format!("{}: {}", told.reason, told.message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jobferry_core::{custom::KindRef, kind::Table, record::Placement};
    use k8s_openapi::jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    /// A JobSet of which the dispatcher tells this.
    fn shown(told: Option<(bool, &str)>, change: &Value) -> (String, Phase, String) {
        let table = Table::built_in().unwrap();
        let [(_, kind)] = table.called("JobSet")[..] else { panic!("there is no JobSet") };
        let mut object = json!({
            "metadata": {"namespace": "ml", "name": "flow", "uid": "u", "resourceVersion": "1", "annotations": {}},
            "spec": {"managedBy": "jobferry.dev/dispatcher"},
        });
        let notes = told.map(|(holds, reason)| {
            let placement = Placement::new("eu-1".into(), "i".into(), 1, Timestamp::UNIX_EPOCH);
            let mut placement = serde_json::to_value(placement).unwrap();
            placement["of"] = "u".into();
            let told = json!({"of": "u", "placed": holds, "reason": reason, "message": "m"});
            let placement = if holds { placement.to_string().into() } else { Value::Null };
            json!({"jobferry.dev/placement": placement, "jobferry.dev/placed": told.to_string()})
        });
        for (note, value) in notes.iter().flat_map(|notes| notes.as_object().unwrap()) {
            if !value.is_null() {
                object["metadata"]["annotations"][note] = value.clone();
            }
        }
        for (pointer, value) in change.as_object().unwrap() {
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[field] = value.clone();
        }
        let view = View::of_object(&KindRef::Custom(Arc::new(kind.clone())), &object, Timestamp::UNIX_EPOCH).unwrap();
        (view.place.unwrap_or_default(), view.phase, view.why)
    }

    #[test]
    fn a_workload_is_shown_by_one_word_and_its_reason() {
        let completed = json!({"conditions": [{"type": "Completed", "status": "True"}]});
        let failed = json!({"conditions": [{"type": "Failed", "status": "True"}]});
        let foreign = json!([{"manager": "jobset", "subresource": "status"}]);
        for (told, change, place, phase, why) in [
            (None, json!({}), "", Phase::Waiting, "no dispatcher has looked at it yet"),
            (Some((false, "NoWorkerFits")), json!({}), "", Phase::Waiting, "NoWorkerFits: m"),
            (Some((true, "Placed")), json!({}), "eu-1", Phase::Placed, ""),
            (Some((true, "Placed")), json!({"/status": {"restarts": 1}}), "eu-1", Phase::Running, ""),
            (
                Some((true, "EditRefused")),
                json!({"/status": {"restarts": 1}}),
                "eu-1",
                Phase::Running,
                "EditRefused: m",
            ),
            (Some((true, "Placed")), json!({"/spec/suspend": true}), "eu-1", Phase::Suspended, ""),
            (Some((true, "Finished")), json!({"/status": completed}), "eu-1", Phase::Complete, ""),
            (Some((true, "Placed")), json!({"/status": failed}), "eu-1", Phase::Failed, ""),
            (Some((true, "Finished")), json!({"/status": failed}), "eu-1", Phase::Failed, ""),
            (
                None,
                json!({"/metadata/managedFields": foreign}),
                "(manager)",
                Phase::Running,
                "jobset writes its status here: it is left alone",
            ),
            (Some((false, "ForeignController")), json!({}), "(manager)", Phase::Running, "ForeignController: m"),
            (Some((true, "ForeignController")), json!({}), "eu-1", Phase::Running, "ForeignController: m"),
            (
                Some((true, "Placed")),
                json!({"/metadata/managedFields": foreign}),
                "eu-1",
                Phase::Running,
                "jobset writes its status here: it is left alone",
            ),
            (None, json!({"/spec/managedBy": "jobset.sigs.k8s.io/jobset-controller"}), "(manager)", Phase::Placed, ""),
        ] {
            assert_eq!(shown(told, &change), (place.to_owned(), phase, why.to_owned()), "{told:?} {change}");
        }
    }
}
