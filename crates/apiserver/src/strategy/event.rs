//! Events exist in two groups over the same storage: core `v1` and `events.k8s.io/v1` name the same facts differently.

use serde_json::{Map, Value};

/// (field in core v1, field in events.k8s.io/v1); the order of selectable fields in the registry follows it.
const RENAMED: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// The stored form of an `events.k8s.io/v1` event.
pub(crate) fn to_core(event: Value) -> Value {
    rename(event, "v1", |name| RENAMED.iter().find(|(_, new)| *new == name).map(|(core, _)| *core))
}

/// A stored event as `events.k8s.io/v1` shows it.
pub(crate) fn from_core(event: Value) -> Value {
    rename(event, "events.k8s.io/v1", |name| RENAMED.iter().find(|(core, _)| *core == name).map(|(_, new)| *new))
}

fn rename(event: Value, api_version: &str, other: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(entries) = event else { return event };
    let renamed = entries.into_iter().map(|(name, value)| match other(&name) {
        Some(new) => (new.to_owned(), value),
        None => (name, value),
    });
    let mut event: Map<String, Value> = renamed.collect();
    event.insert("apiVersion".into(), api_version.into());
    Value::Object(event)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_of_the_new_group_comes_back_as_it_went_in() {
        let new = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"},
            "regarding": {"kind": "Job", "name": "j"}, "note": "moved", "reason": "Placed",
            "reportingController": "jobferry.dev/dispatcher"
        });
        let core = to_core(new.clone());
        assert_eq!(core["involvedObject"]["name"], "j");
        assert_eq!((&core["message"], &core["apiVersion"]), (&json!("moved"), &json!("v1")));
        assert_eq!(from_core(core), new);
    }
}
