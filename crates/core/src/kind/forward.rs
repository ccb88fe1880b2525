//! Edits of the user's object that must reach its mirror: each change once.
//!
//! As for Jobs ([`crate::forward`]), what was last forwarded stands on the mirror, and only what differs from *that* is
//! sent. Defaults and writers on the worker's side stay invisible.

use std::collections::{BTreeMap, BTreeSet};

use jobferry_api::annotations;
use serde_json::{Map, Value, json};

use super::{Kind, Path, Unmirrorable};
use crate::{
    fingerprint::fingerprint,
    forward::{Forwarded, changes},
};

/// Longer values are noted by their fingerprint: a pod template would not fit into an annotation.
const NOTED_WHOLE_BYTES: usize = 64;

impl Kind {
    /// What this object says now, as far as it is forwarded.
    pub fn forwarded(&self, object: &Value) -> Result<Forwarded, Unmirrorable> {
        let bare = self.bare(object)?;
        let fields = self.forwarded_fields(object, &bare);
        let noted = fields.iter().map(|(place, value)| (place.to_string(), note(value)));
        let text = |part: &str| -> BTreeMap<String, String> {
            let map = bare["metadata"][part].as_object().into_iter().flatten();
            map.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
        };
        Ok(Forwarded::from_parts(noted, &text("labels"), &text("annotations")))
    }

    /// Every place that is forwarded, with its value, without what is the worker's.
    fn forwarded_fields(&self, object: &Value, bare: &Value) -> Vec<(Path, Value)> {
        let mut view = bare.clone();
        for owned in self.worker_owned.iter().filter(|owned| owned.applies(object)) {
            owned.path.remove(&mut view);
        }
        let fields = self.forward.iter().filter(|field| field.applies(object));
        let found = fields.flat_map(|field| field.path.find(&view));
        found.map(|(place, value)| (place, value.clone())).collect()
    }

    /// The patch (RFC 7386) that brings the mirror up to date with its user's object, or `None` if nothing is to be
    /// forwarded. Both are read fresh; the patch carries the mirror's uid and resourceVersion, for it repeats the lists
    /// that hold what changed.
    pub fn edit(&self, object: &Value, mirror: &Value) -> Result<Option<Value>, Unmirrorable> {
        let marks = &mirror["metadata"]["annotations"];
        let before = marks[annotations::FORWARDED].as_str().and_then(|mark| serde_json::from_str(mark).ok());
        let now = self.forwarded(object)?;
        let Some(before) = before.filter(|before: &Forwarded| *before != now) else { return Ok(None) };

        let bare = self.bare(object)?;
        let mut next = mirror.clone();
        for place in changed_places(&before, &now) {
            match place.first(&bare) {
                Some(value) => {
                    place.set(&mut next, value.clone());
                }
                // A whole item that is gone from the user's list is not a field that was cleared.
                None if place.parent().is_some_and(|parent| parent.first(&bare).is_some()) => place.remove(&mut next),
                None => {}
            }
        }
        for owned in self.worker_owned.iter().filter(|owned| owned.applies(object)) {
            for (place, value) in owned.path.find(mirror) {
                place.set(&mut next, value.clone());
            }
        }
        let part = |part: &str| bare.pointer(&format!("/metadata/{part}"));
        let labels = changes(&before.labels, &now.labels, part("labels"));
        let mut notes = changes(&before.annotations, &now.annotations, part("annotations"));
        notes.insert(annotations::FORWARDED.into(), now.annotation().into());
        Ok(Some(json!({
            "metadata": {
                "uid": mirror.pointer("/metadata/uid"), "resourceVersion": mirror.pointer("/metadata/resourceVersion"),
                "labels": labels, "annotations": notes,
            },
            "spec": difference(&mirror["spec"], &next["spec"]).unwrap_or_else(|| json!({})),
        })))
    }
}

fn changed_places(before: &Forwarded, now: &Forwarded) -> Vec<Path> {
    let places: BTreeSet<&String> = before.spec.keys().chain(now.spec.keys()).collect();
    let changed = places.into_iter().filter(|place| before.spec.get(*place) != now.spec.get(*place));
    changed.filter_map(|place| place.parse().ok()).collect()
}

/// How a value is noted on the mirror.
fn note(value: &Value) -> Value {
    let text = value.to_string();
    if text.len() <= NOTED_WHOLE_BYTES { value.clone() } else { format!("#{:x}", fingerprint(text.bytes())).into() }
}

/// The merge patch (RFC 7386) from one value to another; `None` if they are equal.
pub(crate) fn difference(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (from, to) else { return Some(to.clone()) };
    let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let known = |key: &String| old.get(key).unwrap_or(&Value::Null);
    let changed = new.iter().filter_map(|(key, value)| Some((key.clone(), difference(known(key), value)?)));
    Some(Value::Object(gone.chain(changed).collect::<Map<_, _>>()))
}
