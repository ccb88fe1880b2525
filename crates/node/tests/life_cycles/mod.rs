//! Life cycles of Jobs that must end the same whoever runs them: the scenarios, the one who plays them, and what is
//! compared. `recorded.json` holds how they ended under the built-in Job controller of a real cluster, with our node.

mod corners;
mod play;
mod scenarios;

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::Value;

pub(crate) use self::play::Stage;

/// All scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    [scenarios::all(), corners::all()].concat()
}

/// One life of a Job.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The Job's spec without its template.
    pub(crate) spec: Value,
    /// The pod's spec.
    pub(crate) pod: Value,
    pub(crate) steps: Vec<Step>,
    pub(crate) until: Until,
}

/// What happens to a Job from outside.
#[derive(Clone)]
pub(crate) enum Step {
    /// Wait until so many pods are ready.
    Ready(i64),
    /// Wait until so many pods have succeeded.
    Succeeded(i64),
    /// Wait until so many pods have failed.
    Failed(i64),
    /// Wait for a condition.
    Condition(&'static str),
    /// Wait.
    Seconds(u64),
    /// Open the gate that scripts wait at.
    Go,
    /// Change the Job.
    Edit(Value),
    /// Delete one running pod, of this index if one is given, with this grace period if one is given.
    DeletePod(Option<u32>, Option<u64>),
    /// Give one running pod a condition with this status.
    MarkPod(&'static str, &'static str),
    /// Change one running pod.
    EditPod(Value),
    /// Delete the Job with this propagation.
    DeleteJob(&'static str),
}

/// When a scenario is over.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// The Job has ended.
    Finished,
    /// The Job is gone, and everything has come to rest.
    Gone,
    /// Everything has come to rest, so many seconds after the last step.
    Rest(u64),
}

/// How the scenarios ended, by name.
pub(crate) type Endings = BTreeMap<String, Value>;

/// Where the recording is.
pub(crate) fn recording() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/life_cycles/recorded.json")
}

pub(crate) fn recorded() -> Endings {
    serde_json::from_str(&std::fs::read_to_string(recording()).expect("a recording")).expect("a readable recording")
}

/// Scenarios that end in another way when they are dispatched, each with the one thing that differs and why.
#[allow(dead_code, reason = "the recording itself needs no exceptions")]
pub(crate) const DISPATCHED_DIFFERENTLY: [(&str, &str, &str); 2] = [
    // On a worker, nobody would ever see them again.
    ("job-deleted-without-its-pods", "podsLeft", "pods go with their mirror, also when they were to be orphaned"),
    ("orphaned-when-done", "podsLeft", "pods go with their mirror, also when they were to be orphaned"),
];

/// What is expected of dispatched Jobs.
#[allow(dead_code, reason = "the recording itself needs no exceptions")]
pub(crate) fn recorded_but_for_dispatching(found: &Endings) -> Endings {
    let mut expected = recorded();
    for (name, field, why) in DISPATCHED_DIFFERENTLY {
        let ending = expected.get_mut(name).unwrap_or_else(|| panic!("{name} is not recorded ({why})"));
        let found = found.get(name).map(|ending| ending[field].clone()).unwrap_or_default();
        assert_ne!(ending[field], found, "{name}: {field} is equal now, so it is no exception any more");
        ending[field] = found;
    }
    expected
}

/// What differs between two sets of endings.
pub(crate) fn differences(expected: &Endings, found: &Endings) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let differ = names.into_iter().filter(|name| expected.get(*name) != found.get(*name));
    differ
        .map(|name| format!("{name}:\n  expected {}\n  found    {}", text(expected.get(name)), text(found.get(name))))
        .collect()
}

fn text(ending: Option<&Value>) -> String {
    ending.map_or_else(|| "nothing".to_owned(), Value::to_string)
}
