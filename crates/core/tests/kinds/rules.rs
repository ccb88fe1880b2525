//! Rules that do not make sense are refused, each with its field and its reason.

use jobferry_api::{WorkloadKind, WorkloadKindSpec};
use jobferry_core::kind::{Kind, Source, Table};
use serde_json::{Value, json};

fn etl_run() -> Value {
    let text = std::fs::read_to_string(super::root().join("../../examples/kind-etl-run.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

fn problems(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut kind = etl_run();
    change(&mut kind["spec"]);
    let spec: WorkloadKindSpec = serde_json::from_value(kind["spec"].take()).unwrap();
    let invalid = Kind::read(&spec).expect_err("something is wrong");
    invalid.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_rule_that_makes_no_sense_is_named_with_its_reason() {
    let table: [(&str, Value, &str); 14] = [
        ("group", json!("jobferry.dev"), "group: our own resources are no workloads"),
        ("managedBy", json!({"path": "status.x"}), "managedBy.path: it lies in the spec, in labels or in annotations"),
        (
            "managedBy",
            json!({"path": "spec.a[*].b"}),
            "managedBy.path: `spec.a[*].b` leads to many places; one is needed",
        ),
        (
            "managedBy",
            json!({"path": "spec.m", "operator": "a.b/c", "dispatcher": "a.b/c"}),
            "managedBy.dispatcher: this value means the kind's own operator",
        ),
        (
            "suspended",
            json!({"path": "paused", "exists": true}),
            "suspended.path: `paused`: it begins with metadata, spec or status",
        ),
        (
            "finished",
            json!([{"outcome": "Failed", "when": []}]),
            "finished[0].when: without a test every object has ended",
        ),
        ("finished", json!([]), "ttl: objects of this kind never end: say in `finished` when they do"),
        ("ttl", json!([{"path": "status.ttl"}]), "ttl[0].path: `status.ttl` does not lie in the spec"),
        (
            "strip",
            json!([{"path": "metadata.name"}]),
            "strip[0].path: a mirror has a spec, labels and annotations only",
        ),
        (
            "forward",
            json!([{"path": "spec.control.managedBy"}]),
            "forward[0].path: the mirror has a value of the dispatcher's own there (managedBy)",
        ),
        (
            "workerOwned",
            json!([{"path": "spec.stages.*.instances"}]),
            "workerOwned[0].path: it is not inside of a field that is forwarded, so nobody overwrites it: leave it out",
        ),
        (
            "children",
            json!([{"version": "v1", "plural": "pods"}]),
            "children[0].label: every pod of the manager would be looked at: name a label that the operator puts on its own",
        ),
        (
            "status",
            json!({"leaveOut": [{"path": "spec.x"}]}),
            "status.leaveOut[0].path: `spec.x` does not lie in the status",
        ),
        (
            "status",
            json!({"fill": [{"path": "status.a[*].b", "text": ""}]}),
            "status.fill[0].path: `status.a[*].b` leads to many places; one is needed",
        ),
    ];
    for (field, value, expected) in table {
        assert_eq!(problems(|spec| spec[field] = value), [expected]);
    }
}

#[test]
fn a_kind_without_the_field_must_not_have_its_operator_on_the_manager() {
    let found = problems(|spec| drop(spec.as_object_mut().unwrap().remove("managedBy")));
    assert_eq!(
        found,
        [
            "operatorOnManager: without managedBy nothing keeps the kind's operator from running objects on the manager: it must \
          be Forbidden"
        ]
    );
}

#[test]
fn all_problems_are_told_at_once() {
    let found = problems(|spec| {
        spec["ttl"] = json!([{"path": "x"}]);
        spec["forward"] = json!([{"path": "spec."}]);
    });
    assert_eq!(found.len(), 2, "{found:?}");
}

fn changed(change: impl FnOnce(&mut Value)) -> WorkloadKind {
    let mut kind = etl_run();
    change(&mut kind);
    serde_json::from_value(kind).unwrap()
}

#[test]
fn a_users_kind_can_be_added_replaced_and_removed_but_a_built_in_one_stays() {
    let mut table = Table::built_in().unwrap();
    table.add(&changed(|_| {})).unwrap();
    table.add(&changed(|kind| kind["spec"]["version"] = json!("v1"))).unwrap();
    let users: Vec<_> =
        table.iter().filter(|(source, _)| *source == Source::User).map(|(_, kind)| kind.api_version()).collect();
    assert_eq!(users, ["workloads.example.dev/v1"]);
    table.remove("etlruns.workloads.example.dev");
    table.remove("jobs.batch");
    assert_eq!(table, Table::built_in().unwrap());

    let wrong_name = table.add(&changed(|kind| kind["metadata"]["name"] = json!("etl"))).unwrap_err();
    assert_eq!(wrong_name.to_string(), "WorkloadKind etl: metadata.name: it must be etlruns.workloads.example.dev");
    let built_in = changed(|kind| {
        kind["metadata"]["name"] = json!("rayjobs.ray.io");
        for (field, value) in [("group", "ray.io"), ("version", "v2"), ("kind", "RayJob"), ("plural", "rayjobs")] {
            kind["spec"][field] = json!(value);
        }
    });
    let why = "WorkloadKind rayjobs.ray.io: spec.kind: rayjobs.ray.io is built in, and its rules cannot be changed";
    assert_eq!(table.add(&built_in).unwrap_err().to_string(), why);
}
