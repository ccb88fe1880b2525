//! Agreement with a real API server: every recorded question gets the recorded answer.
//!
//! `cargo xtask record` makes the recordings anew. They hold random questions to kube-apiserver and its verdicts: kind
//! and field of each error, or the object as it was stored.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints figures"
)]

mod support;

use job_api::{Errors, Rules, SpecView, create, defaults, status, update};
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use serde_json::{Value, json};
use support::recording;

/// The servers that were asked, and how many questions of each kind are enough to believe that we agree.
const SERVERS: [(&str, Rules, usize); 2] =
    [("1.35.8", Rules::for_server(1, 35, Some(8)), 2000), ("1.37.1", Rules::for_server(1, 37, Some(1)), 1000)];

fn typed<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

fn short(errors: &Errors) -> Vec<Value> {
    errors.iter().map(|error| json!([error.kind.as_str(), error.field])).collect()
}

fn recorded_errors(line: &Value) -> Vec<Value> {
    line["errors"].as_array().cloned().unwrap_or_default()
}

/// Labels and resources are maps; a server walks over them in random order.
fn sorted(mut errors: Vec<Value>) -> Vec<String> {
    errors.sort_by_key(ToString::to_string);
    errors.iter().map(ToString::to_string).collect()
}

/// Collects what differs and shows the first few of it.
#[derive(Default)]
struct Disagreements(Vec<String>);

impl Disagreements {
    fn check(&mut self, is_same: bool, story: impl FnOnce() -> String) {
        if !is_same {
            self.0.push(story());
        }
    }

    fn assert_none(self, server: &str, questions: usize) {
        let shown: Vec<&str> = self.0.iter().take(5).map(String::as_str).collect();
        assert!(self.0.is_empty(), "{server}: {} of {questions} differ:\n{}", self.0.len(), shown.join("\n\n"));
        println!("{server}: {questions} questions, the same answers");
    }
}

#[test]
fn status_transitions_are_judged_as_by_the_server_and_in_its_order() {
    for (server, rules, enough) in SERVERS {
        let lines = recording(server, "transitions");
        assert!(lines.len() >= enough, "{server}: too few recorded transitions: {}", lines.len());
        let mut disagreements = Disagreements::default();
        for line in &lines {
            let spec = SpecView::of(&typed::<JobSpec>(&line["spec"]));
            let (old, new) = (typed::<JobStatus>(&line["oldStatus"]), typed::<JobStatus>(&line["newStatus"]));
            let ours = short(&status::validate(&spec, &old, &new, rules));
            let theirs = recorded_errors(line);
            disagreements.check(ours == theirs, || format!("ours   {ours:?}\ntheirs {theirs:?}\n{line}"));
        }
        disagreements.assert_none(server, lines.len());
    }
}

#[test]
fn creates_updates_and_status_writes_are_judged_as_by_the_server() {
    for (server, rules, enough) in SERVERS {
        let lines = recording(server, "manifests");
        assert!(lines.len() >= enough, "{server}: too few recorded manifests: {}", lines.len());
        let mut disagreements = Disagreements::default();
        for line in &lines {
            let (result, errors) = answer(line, rules);
            let (ours, theirs) = (sorted(short(&errors)), sorted(recorded_errors(line)));
            disagreements.check(ours == theirs, || format!("ours   {ours:?}\ntheirs {theirs:?}\n{line}"));
            if ours == theirs && ours.is_empty() {
                let (ours, theirs) = (comparable(&result), comparable(&typed(&line["stored"])));
                disagreements
                    .check(ours == theirs, || format!("ours   {ours}\ntheirs {theirs}\nasked {}", line["new"]));
            }
        }
        disagreements.assert_none(server, lines.len());
    }
}

/// Does to a request what the server does.
fn answer(line: &Value, rules: Rules) -> (Job, Errors) {
    let mut new: Job = typed(&line["new"]);
    if line["op"] == "create" {
        if let (Some("") | None, Some(prefix)) = (new.metadata.name.as_deref(), &new.metadata.generate_name) {
            new.metadata.name = Some(format!("{prefix}x7k2p"));
        }
        new.metadata.uid = Some(line["stored"]["metadata"]["uid"].as_str().unwrap_or("a-fresh-uid").to_owned());
        create::prepare(&mut new);
        let errors = create::validate(&new, rules);
        // The answer went through the store, and is defaulted once more on the way.
        defaults::apply(&mut new);
        return (new, errors);
    }
    defaults::apply(&mut new);
    let mut old: Job = typed(&line["old"]);
    old.metadata.resource_version = Some("1".to_owned());
    defaults::apply(&mut old);
    let errors = if line["op"] == "update" {
        update::prepare(&mut new, &old);
        update::validate(&new, &old, rules)
    } else {
        status::prepare(&mut new, &old);
        status::validate_request(&new, &old, rules)
    };
    (new, errors)
}

/// Without what the recording leaves out, and with an empty status as none.
fn comparable(job: &Job) -> Value {
    let mut value = serde_json::to_value(job).unwrap();
    let metadata = value["metadata"].as_object_mut().unwrap();
    for noise in ["resourceVersion", "creationTimestamp", "managedFields"] {
        metadata.remove(noise);
    }
    if value["status"] == json!({}) {
        value.as_object_mut().unwrap().remove("status");
    }
    value
}
