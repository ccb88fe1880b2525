//! Every kind, built in or shipped as an example, on an object of its own: `cases/*.yaml`.
//!
//! A case says what is different: on the mirror, in the copied status, in the patch of an edit. Everything else must be as
//! the user wrote it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what went wrong by panicking")]

mod rules;

use std::{collections::BTreeMap, fs, path::Path as File};

use jobferry_api::{Outcome, WorkloadKind};
use jobferry_core::{
    kind::{Delegation, Kind, Path, Source, Standing, Table, in_queue},
    mirror,
    record::Placement,
};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// Places and what is there; null is nothing.
type Differences = BTreeMap<String, Value>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    object: Value,
    /// On the mirror.
    mirror: Differences,
    /// How many pod templates get our mark.
    #[serde(default)]
    pod_templates: usize,
    /// Names that must exist on the worker.
    #[serde(default)]
    requires: Vec<String>,
    #[serde(default)]
    refused: Vec<Refused>,
    states: Vec<State>,
    edits: Vec<Edit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    change: Differences,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    status: Value,
    is: String,
    /// How the user's object differs when this status is copied.
    #[serde(default)]
    object: Differences,
    /// How the copy differs from the mirror's.
    #[serde(default)]
    copied: Differences,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    change: Differences,
    /// How the worker's side changed the mirror before.
    #[serde(default)]
    worker: Differences,
    /// The spec of the patch; absent: nothing is forwarded.
    #[serde(default)]
    forwarded: Option<Value>,
}

fn root() -> &'static File {
    File::new(env!("CARGO_MANIFEST_DIR"))
}

/// The built-in kinds and those of `examples/kind-*.yaml`.
fn table() -> Table {
    let mut table = Table::built_in().unwrap();
    let examples = fs::read_dir(root().join("../../examples")).unwrap().flatten();
    for file in examples.filter(|file| file.file_name().to_str().unwrap().starts_with("kind-")) {
        let kind: WorkloadKind = serde_saphyr::from_str(&fs::read_to_string(file.path()).unwrap()).unwrap();
        table.add(&kind).unwrap();
    }
    table
}

fn cases() -> Vec<(String, Case)> {
    let files = fs::read_dir(root().join("tests/kinds/cases")).unwrap().flatten();
    let read = |file: fs::DirEntry| {
        let name = file.file_name().into_string().unwrap();
        let case = serde_saphyr::from_str(&fs::read_to_string(file.path()).unwrap());
        (name.clone(), case.unwrap_or_else(|error| panic!("{name}: {error}")))
    };
    files.map(read).collect()
}

/// Each case with its kind.
fn every(look: impl Fn(&str, &Kind, &Case)) {
    let table = table();
    let cases = cases();
    assert!(!cases.is_empty());
    for (file, case) in cases {
        let (_, kind) = table.of(&case.object).unwrap_or_else(|| panic!("{file}: no such kind"));
        look(&file, kind, &case);
    }
}

fn now() -> Timestamp {
    "2026-01-02T00:00:00Z".parse().unwrap()
}

fn place(text: &str) -> Path {
    text.parse().unwrap()
}

fn with(object: &Value, differences: &Differences) -> Value {
    let mut object = object.clone();
    for (path, value) in differences {
        if value.is_null() {
            place(path).remove(&mut object);
        } else {
            assert!(place(path).set(&mut object, value.clone()), "{path}");
        }
    }
    object
}

/// The object as a manager stores it.
fn stored(case: &Case) -> Value {
    let mut object = case.object.clone();
    for (field, value) in [("namespace", json!("team")), ("uid", json!("u1")), ("resourceVersion", json!("41"))] {
        object["metadata"][field] = value;
    }
    object["metadata"]["generation"] = json!(3);
    object
}

fn mirror_of(kind: &Kind, object: &Value) -> Value {
    let placement = Placement::new("eu-1".into(), "id-1".into(), 1, now());
    let mut mirror = kind.mirror_of(object, &placement, "origin-1").unwrap();
    for (field, value) in [("uid", json!("m1")), ("resourceVersion", json!("7")), ("generation", json!(2))] {
        mirror["metadata"][field] = value;
    }
    mirror
}

/// Takes the mark off every pod template and counts them.
fn unmark(value: &mut Value) -> usize {
    let inner = match value {
        Value::Object(map) => map.values_mut().map(unmark).sum(),
        Value::Array(list) => list.iter_mut().map(unmark).sum(),
        _ => 0,
    };
    let Some(labels) = value.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) else { return inner };
    let mark = labels.remove("jobferry.dev/origin-uid");
    if labels.is_empty() {
        value["metadata"].as_object_mut().unwrap().remove("labels");
    }
    if value["metadata"] == json!({}) {
        value.as_object_mut().unwrap().remove("metadata");
    }
    inner + usize::from(mark.is_some())
}

#[test]
fn every_kind_has_a_case() {
    let cases = cases();
    for (_, kind) in table().iter() {
        let tried = cases
            .iter()
            .any(|(_, case)| case.object["kind"] == kind.kind && case.object["apiVersion"] == kind.api_version());
        assert!(tried, "{}", kind.name());
    }
}

#[test]
fn an_object_is_ours_by_its_field_or_its_label_and_refused_with_a_reason() {
    every(|file, kind, case| {
        let object = stored(case);
        assert_eq!(kind.delegation(&object), Delegation::Ours, "{file}");
        let names: Vec<_> = kind.requirements(&object).into_iter().map(|needed| needed.name).collect();
        assert_eq!(names, case.requires, "{file}");
        for refused in &case.refused {
            let why = match kind.delegation(&with(&object, &refused.change)) {
                // Unless its policy says otherwise.
                Delegation::Queued(queue) => in_queue(&queue),
                Delegation::Refused(why) => why,
                other => panic!("{file}: {other:?}"),
            };
            assert_eq!(why, refused.why, "{file}");
        }
        let mut local = object;
        match &kind.managed_by {
            Some(managed_by) => managed_by.path.remove(&mut local),
            None => place("metadata.labels").remove(&mut local),
        }
        assert_eq!(kind.delegation(&local), Delegation::Elsewhere, "{file}");
    });
}

#[test]
fn a_mirror_is_the_users_object_but_for_what_the_case_says() {
    every(|file, kind, case| {
        let mut mirror = mirror_of(kind, &stored(case));
        assert_eq!(unmark(&mut mirror["spec"]), case.pod_templates, "{file}: pod templates");
        let expected = with(&stored(case), &case.mirror);
        assert_eq!(mirror["spec"], expected["spec"], "{file}");
        let ours = |key: &&String| key.starts_with("jobferry.dev/");
        for part in ["labels", "annotations"] {
            let keys = |object: &Value| -> Vec<String> {
                let keys = object["metadata"][part].as_object().into_iter().flatten().map(|(key, _)| key);
                keys.filter(|key| !ours(key)).cloned().collect()
            };
            assert_eq!(keys(&mirror), keys(&expected), "{file}: {part}");
        }
        assert_eq!(mirror["metadata"]["labels"]["jobferry.dev/origin"], "origin-1", "{file}");
        assert_eq!(mirror["metadata"]["annotations"]["jobferry.dev/origin-uid"], "u1", "{file}");
        assert_eq!(kind.delegation(&mirror), Delegation::Elsewhere, "{file}: a mirror is the worker's own to run");
    });
}

#[test]
fn a_status_tells_whether_it_has_ended_and_is_copied() {
    every(|file, kind, case| {
        for state in &case.states {
            let object = with(&stored(case), &state.object);
            let mut mirror = mirror_of(kind, &object);
            mirror["status"] = state.status.clone();
            let standing = match kind.standing(&mirror, now()) {
                Standing::Unfinished => "Unfinished".to_owned(),
                Standing::Settling { .. } => "Settling".to_owned(),
                Standing::Finished(outcome) => format!("{outcome:?}"),
            };
            assert_eq!(standing, state.is, "{file}: {}", state.status);
            let expected = with(&json!({"status": state.status}), &state.copied);
            let next = kind.project(&kind.stored(&object), &state.status, Some(2), true);
            assert_eq!(next.unwrap(), expected["status"], "{file}");
        }
    });
}

#[test]
fn an_edit_is_forwarded_once_and_nothing_else_is() {
    every(|file, kind, case| {
        let object = stored(case);
        let mirror = mirror_of(kind, &object);
        assert_eq!(kind.edit(&object, &mirror).unwrap(), None, "{file}: a new mirror is up to date");
        for edit in &case.edits {
            let edited = with(&object, &edit.change);
            let patch = kind.edit(&edited, &with(&mirror, &edit.worker)).unwrap();
            let spec = patch.map(|mut patch| {
                unmark(&mut patch["spec"]);
                patch["spec"].take()
            });
            assert_eq!(spec, edit.forwarded, "{file}: {:?}", edit.change);
            let mirror = mirror_of(kind, &edited);
            assert_eq!(kind.edit(&edited, &mirror).unwrap(), None, "{file}: forwarded twice");
        }
    });
}

#[test]
fn whatever_an_object_says_it_can_be_failed_by_us_if_its_kind_fails_at_all() {
    every(|file, kind, case| {
        let fails = kind.endings().iter().any(|(outcome, _)| *outcome == Outcome::Failed);
        let unfinished = case.states.iter().filter(|state| state.is == "Unfinished");
        let copied = unfinished.map(|state| with(&json!({"status": state.status}), &state.copied)["status"].take());
        for stored in copied.chain([json!({})]) {
            let Some(status) = kind.fail(&stored, "WorkerLost", "its worker is lost", now()) else {
                assert!(!fails, "{file} has no way to say so: {stored}");
                continue;
            };
            let object = json!({"metadata": {}, "spec": {}, "status": status});
            assert_eq!(kind.standing(&object, now()), Standing::Finished(Outcome::Failed), "{file}: {object}");
            // What its definition demands is there, as in every status that is copied.
            let copied = kind.project(&kind.stored(&object), &status, None, true);
            assert_eq!(copied.unwrap(), status, "{file}");
        }
    });
}

/// The first entry of the table is what the code for Jobs does.
#[test]
fn a_job_is_mirrored_by_its_entry_as_by_the_code() {
    let table = Table::built_in().unwrap();
    let (source, job) = table.called("job")[0];
    assert_eq!((source, job.name().as_str()), (Source::BuiltIn, "jobs.batch"));
    let case = cases().into_iter().find(|(file, _)| file == "job.yaml").unwrap().1;
    let placement = Placement::new("eu-1".into(), "id-1".into(), 1, now());
    let mut by_table = job.mirror_of(&stored(&case), &placement, "o").unwrap();
    let mut by_code = mirror::mirror_of(&stored(&case), &placement, "o").unwrap();
    // The notes of what was forwarded differ in form.
    for mirror in [&mut by_table, &mut by_code] {
        mirror["metadata"]["annotations"].as_object_mut().unwrap().remove("jobferry.dev/forwarded");
    }
    assert_eq!(by_table, by_code);
    let fields: Vec<String> = job.forward.iter().map(|field| field.path.to_string()).collect();
    assert_eq!(fields, jobferry_core::forward::FIELDS.map(|field| format!("spec.{field}")));
}
