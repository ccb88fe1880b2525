//! Random Jobs to create, and edits of stored ones. Most are legal but for a fault or two: a server that finds ten
//! faults at once says little about each.

use serde_json::{Value, json};

use crate::dice::{Dice, put};
use crate::tables::{
    EDITS, FAULTS, HARMLESS, MOUNTS, RATCHETS, STATUS_EDITS, STORED, SUCCESS_POLICIES, Table, VOLUMES,
};

/// A Job to be created; `number` keeps names apart.
pub(crate) fn create(dice: &mut Dice, number: u64) -> Value {
    let mut job = legal(dice, number);
    for _ in 0..dice.json("[0, 0, 1, 1, 1, 2, 3]").as_u64().unwrap_or(0) {
        match dice.below(12) {
            0 => spoil_name(dice, &mut job, number),
            1 => add_volumes(dice, &mut job),
            2 => put(&mut job, "/spec/successPolicy", dice.json(SUCCESS_POLICIES)),
            3 => make_long_list(dice, &mut job),
            _ => vary(dice, &mut job, FAULTS),
        }
    }
    keep_away_from_the_crash(&mut job);
    job
}

/// The smallest Job that a server accepts.
pub(crate) fn plain(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}}}
    })
}

fn legal(dice: &mut Dice, number: u64) -> Value {
    let mut job = plain(&format!("job-{number}"));
    for _ in 0..dice.below(8) {
        vary(dice, &mut job, HARMLESS);
    }
    if dice.percent(40) {
        put(&mut job, "/spec/completionMode", json!("Indexed"));
        put(&mut job, "/spec/completions", dice.json("[1, 3, 3, 10]"));
        put(&mut job, "/spec/backoffLimitPerIndex", dice.json("[null, null, 0, 1]"));
    }
    if dice.percent(15) {
        put(&mut job, "/spec/manualSelector", json!(true));
        put(&mut job, "/spec/selector", json!({"matchLabels": {"app": "x"}}));
        put(&mut job, "/spec/template/metadata/labels", json!({"app": "x"}));
    }
    if dice.percent(20) {
        add_volumes(dice, &mut job);
    }
    if dice.percent(15) {
        let second = json!({"name": dice.pick(&["side", "side", "main"]), "image": "side"});
        put(&mut job, "/spec/template/spec/containers/-", second);
    }
    job
}

fn vary(dice: &mut Dice, job: &mut Value, table: Table) {
    let (pointer, choices) = table[dice.below(table.len())];
    let value = dice.json(choices);
    // A fault may sit in the second container as well as in the first, or in an init container.
    let pointer = match pointer.strip_prefix("/spec/template/spec/containers/0") {
        Some(rest) if dice.percent(15) => {
            put(job, "/spec/template/spec/initContainers/0/name", json!("init"));
            put(job, "/spec/template/spec/initContainers/0/image", json!("init:1"));
            format!("/spec/template/spec/initContainers/0{rest}")
        }
        _ => pointer.to_owned(),
    };
    put(job, &pointer, value);
}

fn add_volumes(dice: &mut Dice, job: &mut Value) {
    for _ in 0..=dice.below(2) {
        put(job, "/spec/template/spec/volumes/-", dice.json(VOLUMES));
    }
    for _ in 0..=dice.below(2) {
        put(job, "/spec/template/spec/containers/0/volumeMounts/-", dice.json(MOUNTS));
    }
}

/// Lengths around the limits, and letters that no name may have.
fn spoil_name(dice: &mut Dice, job: &mut Value, number: u64) {
    let stem = format!("n{number}");
    let name = match dice.below(6) {
        0 => format!("{stem}.with.dots"),
        1 => format!("{stem}-Upper"),
        2 => format!("{stem}-"),
        3 => String::new(),
        _ => {
            let length = dice.json("[58, 59, 60, 61, 62, 63, 64, 100, 252, 253, 254]").as_u64().unwrap_or(63);
            let length = usize::try_from(length).unwrap_or(63);
            format!("{stem}{}", "x".repeat(length.saturating_sub(stem.len())))
        }
    };
    put(job, "/metadata/name", json!(name));
}

fn make_long_list(dice: &mut Dice, job: &mut Value) {
    let rule = json!({"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}});
    let pattern = json!({"type": "Ready", "status": "True"});
    let count = 20 + dice.below(2);
    match dice.below(5) {
        0 => put(job, "/spec/podFailurePolicy", json!({"rules": vec![rule; count]})),
        1 => {
            let rule = json!({"action": "Count", "onPodConditions": vec![pattern; count]});
            put(job, "/spec/podFailurePolicy", json!({"rules": [rule]}));
        }
        2 => {
            let codes: Vec<usize> = (1..=235 + count).collect();
            let rule = json!({"action": "Count", "onExitCodes": {"operator": "In", "values": codes}});
            put(job, "/spec/podFailurePolicy", json!({"rules": [rule]}));
        }
        3 => put(job, "/spec/successPolicy", json!({"rules": vec![json!({"succeededCount": 1}); count]})),
        _ => {
            let bytes = 256 * 1024 - 22 + count;
            put(job, "/metadata/annotations", json!({"a": "x".repeat(bytes)}));
        }
    }
}

/// A real 1.35 server panics on the rules of a success policy when an Indexed Job has no completions.
fn keep_away_from_the_crash(job: &mut Value) {
    let spec = &job["spec"];
    let has_no_completions = spec["completions"].is_null() && !spec["parallelism"].is_null();
    if has_no_completions && spec["completionMode"] == "Indexed" && !spec["successPolicy"].is_null() {
        put(job, "/spec/completions", json!(3));
    }
}

/// Twists a Job as it may have got into the store long ago.
pub(crate) fn age(dice: &mut Dice, stored: &mut Value) {
    for (pointer, choices) in STORED {
        if dice.percent(50) {
            put(stored, pointer, dice.json(choices));
        }
    }
    if dice.percent(25) {
        vary(dice, stored, RATCHETS);
    }
    if stored.pointer("/metadata/deletionTimestamp").is_some() {
        put(stored, "/metadata/deletionGracePeriodSeconds", json!(0));
        put(stored, "/metadata/finalizers", json!(["example.com/hold"]));
    }
}

/// An edit of a stored Job.
pub(crate) fn edit(dice: &mut Dice, stored: &Value) -> Value {
    let mut job = stored.clone();
    for _ in 0..dice.json("[0, 1, 1, 1, 2, 2, 3]").as_u64().unwrap_or(0) {
        if dice.percent(80) {
            vary(dice, &mut job, EDITS);
        } else {
            vary(dice, &mut job, FAULTS);
        }
    }
    if dice.percent(20) {
        let count = dice.json("[2, 5, 6]");
        put(&mut job, "/spec/completions", count.clone());
        put(&mut job, "/spec/parallelism", count);
    }
    keep_away_from_the_crash(&mut job);
    job
}

/// A write to `/status` of a stored Job that touches more than the status.
pub(crate) fn edit_status(dice: &mut Dice, stored: &Value) -> Value {
    let mut job = stored.clone();
    for _ in 0..=dice.below(3) {
        vary(dice, &mut job, STATUS_EDITS);
    }
    job
}
