//! The mirror's status turned into the next status of the user's object.
//!
//! The status is copied whole. What only holds on the worker is left out or, where a definition demands it, filled;
//! generations that it counts are the mirror's, and become the user's object's.

use serde_json::{Value, json};

use super::{Kind, Path};
use crate::fingerprint::fingerprint;

/// What the next status of the user's object depends on, beside the mirror.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// `status` and nothing else, so that paths lead there.
    object: Value,
    generation: Option<i64>,
    /// What stays on the worker, for this object.
    left_out: Vec<Path>,
}

impl Stored {
    /// The status as the manager stores it.
    pub fn status(&self) -> &Value {
        &self.object["status"]
    }
}

impl Kind {
    /// What the next status of this object depends on.
    pub fn stored(&self, object: &Value) -> Stored {
        let left_out = self.status.leave_out.iter().filter(|field| field.applies(object));
        Stored {
            object: json!({ "status": object.get("status") }),
            generation: object.pointer("/metadata/generation").and_then(Value::as_i64),
            left_out: left_out.map(|field| field.path.clone()).collect(),
        }
    }

    /// The status that the user's object should have, or `None` if the mirror has none to copy.
    ///
    /// `said` is the mirror's status, `generation` the mirror's own. `up_to_date`: everything in the user's object was
    /// forwarded, so that what the worker has observed of the mirror holds for it.
    pub fn project(&self, stored: &Stored, said: &Value, generation: Option<i64>, up_to_date: bool) -> Option<Value> {
        // A definition may refuse an empty status, and it would say nothing.
        said.as_object().filter(|fields| !fields.is_empty())?;
        let mut next = json!({ "status": said });
        for path in &stored.left_out {
            path.remove(&mut next);
        }
        for path in &self.status.observed_generation {
            for (place, observed) in path.find(&next.clone()) {
                let is_current = up_to_date && observed.as_i64() >= generation;
                translate(&place, &mut next, &stored.object, stored.generation.filter(|_| is_current));
            }
        }
        self.fill(&mut next);
        let status = next.get_mut("status")?.take();
        status.as_object().is_some_and(|fields| !fields.is_empty()).then_some(status)
    }

    /// Puts in what its definition demands and its status does not say.
    pub(super) fn fill(&self, object: &mut Value) {
        for (path, text) in &self.status.fill {
            if path.first(object).is_none() {
                path.set(object, text.as_str().into());
            }
        }
    }
}

/// A generation of the mirror becomes that of the user's object which was forwarded; if that is not known, the one that was
/// last told stays.
fn translate(place: &Path, next: &mut Value, object: &Value, known: Option<i64>) {
    match known.map(Value::from).or_else(|| place.first(object).cloned()) {
        Some(generation) => {
            place.set(next, generation);
        }
        None => place.remove(next),
    }
}

/// Tells whether a status was written before. The stored one cannot: a manager whose definition is older than the worker's
/// drops fields that it does not know, and never holds what was sent.
pub fn digest(status: &Value) -> u64 {
    fingerprint(status.to_string().bytes())
}
