//! Workloads of other kinds than Job, in the same words.

use jobferry_api::{
    Outcome,
    conditions::{REASON_FINISHED, REASON_PLACED},
};
use jobferry_core::{
    record::Record,
    workload::{Told, Workload},
};

use super::{Phase, View};

pub(super) fn view(workload: &Workload) -> View {
    let place = match &workload.record {
        _ if !workload.is_ours() => Some("(manager)".to_owned()),
        Record::Placed(placement) => Some(placement.worker.clone()),
        Record::None | Record::Unreadable => None,
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
        Some((Outcome::Failed, _)) => return (Phase::Failed, news.unwrap_or_default()),
        Some((Outcome::Succeeded | Outcome::Unknown, _)) => return (Phase::Complete, String::new()),
        None => {}
    }
    if let Some(by) = workload.acted_on.as_ref().filter(|_| workload.is_ours()) {
        return (Phase::Running, format!("{by} writes its status here: it is left alone"));
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
