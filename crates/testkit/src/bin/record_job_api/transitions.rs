//! Random status transitions: half of them near the legal ones, since pure chance never finishes a Job well.

use serde_json::{Value, json};

use crate::dice::{Dice, put};

/// A question to the server: may `new` follow `old` under `spec`?
pub(crate) struct Transition {
    pub(crate) spec: Value,
    pub(crate) old: Value,
    pub(crate) new: Value,
}

const TIMES: &str = r#"["2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z", "2026-01-01T12:00:00Z",
    "2026-01-01T12:00:00+01:00", "2026-01-01T11:00:00.5Z", "2026-01-01T13:00:00+02:00"]"#;
const INDEXES: &str = r#"["", "0", "1", "0,1", "0-2", "0-1", "1,2", "2", "0,2", "1-2", "3-5", "5-9", "9", "10", "0-9", "1-1", "2-1",
    "1,0", "0,0", "0-3,3", "x", "1,", ",1", "-1", "1-", "1-2-3", " 1", "+1", "007", "99999999999", "99999999999999999999",
    "0-2,4,6-8", "4,6-8,0", "3,x,5", "5,6", "1-x", "0x1", "1_0", "8,9,10"]"#;

pub(crate) fn generate(dice: &mut Dice) -> Transition {
    let spec = spec(dice);
    let old = match dice.below(4) {
        0 => json!({}),
        1 => status(dice),
        2 => running(dice),
        _ => finished(dice),
    };
    let mut new = match dice.below(10) {
        0 => status(dice),
        1 | 2 => finished(dice),
        3 => running(dice),
        4 => finish(dice, old.clone()),
        5 => resume(dice, old.clone()),
        _ => old.clone(),
    };
    for _ in 0..dice.below(4) {
        change(dice, &mut new);
    }
    Transition { spec, old, new }
}

/// Parallelism is always set: without it the server would default completions on its way from the store.
fn spec(dice: &mut Dice) -> Value {
    let mut spec = json!({
        "parallelism": dice.json("[0, 1, 3, 10]"),
        "selector": {"matchLabels": {"app": "x"}},
        "manualSelector": true,
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}
        }
    });
    for (pointer, choices) in [
        ("/completions", "[null, 0, 1, 3, 3, 10, 10, 100]"),
        ("/completionMode", r#"[null, "NonIndexed", "Indexed", "Indexed"]"#),
        ("/suspend", "[null, false, false, true]"),
        ("/backoffLimitPerIndex", "[null, null, 0, 2]"),
        ("/successPolicy", r#"[null, null, null, {"rules": [{"succeededCount": 1}]}]"#),
        ("/managedBy", r#"[null, "example.com/queue"]"#),
    ] {
        put(&mut spec, pointer, dice.json(choices));
    }
    spec
}

fn status(dice: &mut Dice) -> Value {
    let mut status = json!({});
    for _ in 0..3 + dice.below(6) {
        change(dice, &mut status);
    }
    status
}

fn running(dice: &mut Dice) -> Value {
    json!({
        "active": dice.json("[1, 2, 5]"),
        "ready": dice.json("[0, 1]"),
        "failed": dice.json("[0, 1, 2]"),
        "succeeded": dice.json("[0, 1, 2]"),
        "startTime": "2026-01-01T10:00:00Z",
    })
}

fn finished(dice: &mut Dice) -> Value {
    let running = running(dice);
    finish(dice, running)
}

/// Ends a Job as it should end; [`change`] spoils some of them afterwards.
fn finish(dice: &mut Dice, mut status: Value) -> Value {
    let types = if dice.percent(60) {
        put(&mut status, "/completionTime", json!("2026-01-01T12:00:00Z"));
        ["SuccessCriteriaMet", "Complete"]
    } else {
        put(&mut status, "/completionTime", Value::Null);
        ["FailureTarget", "Failed"]
    };
    for type_ in types {
        add_condition(&mut status, json!({"type": type_, "status": "True"}));
    }
    put(&mut status, "/active", Value::Null);
    for pointer in ["/ready", "/terminating"] {
        put(&mut status, pointer, dice.json("[0, null]"));
    }
    if status.get("startTime").is_none() {
        put(&mut status, "/startTime", json!("2026-01-01T10:00:00Z"));
    }
    put(&mut status, "/uncountedTerminatedPods", dice.json("[null, {}]"));
    status
}

/// The one write that may move the start time of a running Job.
fn resume(dice: &mut Dice, mut status: Value) -> Value {
    put(&mut status, "/conditions", json!([{"type": "Suspended", "status": dice.pick(&["False", "True"])}]));
    put(&mut status, "/startTime", dice.json(TIMES));
    status
}

fn add_condition(status: &mut Value, condition: Value) {
    put(status, "/conditions/-", condition);
}

fn change(dice: &mut Dice, status: &mut Value) {
    match dice.below(16) {
        0 => put(status, "/active", dice.json("[null, 0, 1, 2, 5, -1]")),
        1 => put(status, "/succeeded", dice.json("[null, 0, 1, 2, 3, -1]")),
        2 => put(status, "/failed", dice.json("[null, 0, 1, 2, 3, -1]")),
        3 => put(status, "/ready", dice.json("[null, 0, 1, 2, 6, -1]")),
        4 => put(status, "/terminating", dice.json("[null, 0, 1, -1]")),
        5 => put(status, "/startTime", optional(dice, TIMES)),
        6 => put(status, "/completionTime", optional(dice, TIMES)),
        7 | 8 => put(status, "/completedIndexes", dice.json(INDEXES)),
        9 | 10 => put(status, "/failedIndexes", optional(dice, INDEXES)),
        11 => put(
            status,
            "/uncountedTerminatedPods",
            dice.json(
                r#"[null, {}, {"succeeded": []}, {"succeeded": ["a"]}, {"failed": ["a", "b"]},
                    {"succeeded": ["a", ""], "failed": ["a"]}, {"succeeded": ["a", "a"]}, {"failed": ["b", "a"]}]"#,
            ),
        ),
        12 => {
            let list = status.get_mut("conditions").and_then(Value::as_array_mut);
            if let Some(list) = list.filter(|list| !list.is_empty()) {
                let index = dice.below(list.len());
                list.remove(index);
            }
        }
        13 => put(status, "/conditions", dice.json("[null, []]")),
        _ => {
            let types = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended", "example.com/Own"];
            let condition = json!({
                "type": dice.pick(&types),
                "status": dice.pick(&["True", "True", "True", "False", "Unknown", "true"]),
            });
            let list = status.get_mut("conditions").and_then(Value::as_array_mut);
            match list.filter(|list| !list.is_empty() && dice.percent(40)) {
                Some(list) => {
                    let index = dice.below(list.len());
                    list[index] = condition;
                }
                None => add_condition(status, condition),
            }
        }
    }
}

fn optional(dice: &mut Dice, choices: &str) -> Value {
    if dice.percent(25) { Value::Null } else { dice.json(choices) }
}
