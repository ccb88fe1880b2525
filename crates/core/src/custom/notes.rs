//! What we record and tell of a custom workload: annotations, because its status may have no room for it.

use jobferry_api as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::Meta;
use crate::{
    record::{Placement, Record},
    workload::{Told, Workload},
};

/// A note. It names the object: a manifest that was copied takes its annotations along.
#[derive(Serialize, Deserialize)]
struct Note<T> {
    of: String,
    #[serde(flatten)]
    says: T,
}

#[derive(Serialize, Deserialize)]
struct ToldNote {
    placed: bool,
    reason: String,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<Time>,
}

/// What a note says, if it is about this object.
fn read_note<T: DeserializeOwned>(meta: &Meta, name: &str) -> Option<Result<T, serde_json::Error>> {
    let note = serde_json::from_str::<Note<T>>(meta.annotations.get(name)?);
    note.map(|note| (note.of == meta.uid).then_some(note.says)).transpose()
}

pub(super) fn read_record(meta: &Meta) -> Record {
    match read_note(meta, api::annotations::PLACEMENT) {
        None => Record::None,
        Some(Ok(placement)) => Record::Placed(placement),
        Some(Err(_)) => Record::Unreadable,
    }
}

pub(super) fn read_told(meta: &Meta) -> Option<Told> {
    let told: ToldNote = read_note(meta, api::annotations::PLACED)?.ok()?;
    Some(Told { holds: told.placed, reason: told.reason, message: told.message, at: told.at })
}

/// The annotations that hold the placement of a custom workload, and tell what of its status holds there only.
pub(crate) fn note_placement(workload: &Workload, placement: &Placement) -> Result<Value, serde_json::Error> {
    let note = Note { of: workload.uid.clone(), says: placement };
    let mut notes = json!({ api::annotations::PLACEMENT: serde_json::to_string(&note)? });
    let references = workload.custom.as_ref().map_or(&[][..], |custom| &custom.kind.status.worker_references);
    if !references.is_empty() {
        let fields: Vec<String> = references.iter().map(ToString::to_string).collect();
        notes[api::annotations::WORKER_REFERENCES] = format!("{}: {}", placement.worker, fields.join(", ")).into();
    }
    Ok(notes)
}

/// The annotation that tells people about it.
pub(crate) fn note_told(workload: &Workload, told: &Told) -> Value {
    let (reason, message, at) = (told.reason.clone(), told.message.clone(), told.at.clone());
    let note = Note { of: workload.uid.clone(), says: ToldNote { placed: told.holds, reason, message, at } };
    // Texts always serialise.
    json!({ api::annotations::PLACED: serde_json::to_string(&note).unwrap_or_default() })
}
