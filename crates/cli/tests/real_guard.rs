//! The admission policies that `install --kind` ships, on a real API server: what users cannot do to objects of kinds whose
//! own admission would let them, and that the dispatcher works under them with nothing but its shipped rights.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod joining;
mod support;

use jobferry_core::kind::{Kind, Table};
use joining::{Ahead, Pair, WORKER, client};
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};
use support::{eventually, fail, kubectl, succeed};

use jobferry_testkit::User;

/// Kinds whose own admission lets managedBy be added, changed or removed later; by one of each group.
const UNGUARDED: [&str; 6] = ["RayJob", "RayCluster", "RayService", "MPIJob", "PyTorchJob", "JAXJob"];

/// A kind, and an object of it that is handed to the dispatcher.
struct Subject {
    kind: Kind,
    object: Value,
}

impl Subject {
    fn new(table: &Table, name: &str) -> Self {
        let [(_, kind)] = table.called(name)[..] else { panic!("{name} is not built in") };
        let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/tests/kinds/cases");
        let case = std::fs::read_to_string(format!("{cases}/{}.yaml", name.to_lowercase())).unwrap();
        let mut case: Value = serde_saphyr::from_str(&case).unwrap();
        let mut object = case["object"].take();
        object["metadata"]["namespace"] = "default".into();
        Self { kind: kind.clone(), object }
    }

    /// A definition that takes everything, as permissive as can be.
    fn definition(&self) -> Value {
        let Kind { group, version, kind, plural, .. } = &self.kind;
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": self.kind.name()},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{
                    "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
                }],
            },
        })
    }

    fn name(&self) -> String {
        let name = self.object["metadata"]["name"].as_str().unwrap();
        format!("{}/{name}", self.kind.name())
    }

    /// The same object, left to the kind's own operator.
    fn undelegated(&self) -> Value {
        let mut object = self.object.clone();
        object["metadata"]["name"] = "plain".into();
        self.kind.managed_by.as_ref().unwrap().path.remove(&mut object);
        object
    }

    /// A patch that sets managedBy.
    fn managed_by(&self, value: &Value) -> String {
        let path = self.kind.managed_by.as_ref().unwrap().path.to_string();
        path.rsplit('.').fold(value.clone(), |inner, field| json!({ field: inner })).to_string()
    }
}

fn apply(kubectl: impl Fn(&[&str]) -> String, pair: &Pair, objects: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let file = pair.write("objects.json", &list.to_string());
    kubectl(&["apply", "-f", file.to_str().unwrap()]);
}

/// kubectl on the manager as a user who may edit objects of these kinds, as far as RBAC goes.
fn as_user(pair: &Pair, arguments: &[&str]) -> std::process::Command {
    kubectl(&pair.manager().kubeconfig_path(User::Admin), &[&["--as=ann", "-n", "default"], arguments].concat())
}

fn let_her_edit(pair: &Pair, subjects: &[Subject]) {
    let resources: Vec<_> = subjects.iter().map(|subject| subject.kind.name()).collect();
    let resources = format!("--resource={}", resources.join(","));
    pair.on_manager(&["create", "clusterrole", "editor", "--verb=get,create,update,patch", &resources]);
    pair.on_manager(&["create", "clusterrolebinding", "editor", "--clusterrole=editor", "--user=ann"]);
}

/// Every attempt is a dry run: nothing is changed by one that passes.
fn attempts(subject: &Subject) -> Vec<(Vec<String>, &'static str)> {
    let patch = |name: &str, patch: String| ["patch", name, "--type=merge", "-p", &patch].map(str::to_owned).to_vec();
    let annotate = |what: &str| ["annotate", "--overwrite", &subject.name(), what].map(str::to_owned).to_vec();
    let plain = format!("{}/plain", subject.kind.name());
    let fixed = "managedBy can be neither added nor changed nor removed";
    let ours = "is the dispatcher's note on where this object runs";
    vec![
        (patch(&subject.name(), subject.managed_by(&Value::Null)), fixed),
        (patch(&subject.name(), subject.managed_by(&json!("example.com/other"))), fixed),
        (patch(&plain, subject.managed_by(&json!("jobferry.dev/dispatcher"))), fixed),
        (annotate("jobferry.dev/placement={}"), ours),
        (annotate("jobferry.dev/placement-"), ours),
        (annotate("jobferry.dev/placed={}"), ours),
    ]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn users_cannot_change_to_whom_an_object_was_handed_nor_where_it_runs() {
    let table = Table::built_in().unwrap();
    let subjects = UNGUARDED.map(|name| Subject::new(&table, name));
    let pair = Pair::start().await;
    let definitions: Vec<_> = subjects.iter().map(Subject::definition).collect();
    apply(|arguments| pair.on_manager(arguments), &pair, &definitions);
    apply(|arguments| pair.on_worker(arguments), &pair, &definitions);
    let_her_edit(&pair, &subjects);
    // What is named first must still be allowed, and guarded, when more is added.
    let (first, more) = UNGUARDED.split_at(3);
    let (first, more) = (first.join(","), more.join(","));
    succeed(pair.jobferry(&["install", "--no-deployment", "--kind", &first]));
    succeed(pair.jobferry(&["install", "--no-deployment", "--kind", &more]));
    succeed(pair.with_worker(&["join", WORKER, "--wait", "0", "--kind", &first]));
    succeed(pair.with_worker(&["join", WORKER, "--wait", "0", "--renew", "--kind", &more]));
    let dispatcher = Ahead::start(client(&pair.dispatchers_kubeconfig()).await, SignedDuration::ZERO);
    pair.until_connected();

    let objects: Vec<_> = subjects.iter().flat_map(|it| [it.object.clone(), it.undelegated()]).collect();
    apply(|arguments| succeed(as_user(&pair, arguments)), &pair, &objects);
    for subject in &subjects {
        let on = ["get", &subject.name(), "-o", r"jsonpath={.metadata.labels.jobferry\.dev/worker}"];
        eventually("the placement", || pair.on_manager(&on) == WORKER);
        let mirror = ["get", &subject.name(), "--ignore-not-found", "-o", "name"];
        eventually("the mirror", || !pair.on_worker(&mirror).is_empty());
    }
    // A policy is in force a moment after it was made.
    let (first, _) = &attempts(&subjects[0])[0];
    let dry = |words: &[String]| {
        let words: Vec<&str> = words.iter().map(String::as_str).chain(["--dry-run=server"]).collect();
        as_user(&pair, &words)
    };
    eventually("a policy in force", || !dry(first).output().unwrap().status.success());
    for subject in &subjects {
        for (words, why) in attempts(subject) {
            let refused = fail(dry(&words));
            assert!(refused.contains(why), "{words:?}: {refused}");
        }
    }

    // Everything else goes on: edits, the status, the end.
    let job = &subjects[0];
    succeed(as_user(&pair, &["patch", &job.name(), "--type=merge", "-p", r#"{"spec": {"suspend": true}}"#]));
    let suspended = ["get", &job.name(), "-o", "jsonpath={.spec.suspend}"];
    eventually("the edit", || pair.on_worker(&suspended) == "true");
    let end = r#"{"status": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}}"#;
    pair.on_worker(&["patch", &job.name(), "--subresource=status", "--type=merge", "-p", end]);
    let told = ["get", &job.name(), "-o", r"jsonpath={.status.jobStatus} {.metadata.annotations.jobferry\.dev/placed}"];
    eventually("the end", || {
        pair.on_manager(&told).contains("SUCCEEDED") && pair.on_manager(&told).contains("Finished")
    });
    dispatcher.stop().await;
    kinds_are_taken_away_by_naming_the_others(&pair);
}

fn kinds_are_taken_away_by_naming_the_others(pair: &Pair) {
    let policies = ["get", "validatingadmissionpolicies,validatingadmissionpolicybindings", "-o", "name"];
    assert!(pair.on_manager(&policies).contains("/jobferry-spec-runpolicy-managedby"));
    succeed(pair.jobferry(&["install", "--no-deployment", "--kind", "RayJob", "--replace-kinds"]));
    let left = pair.on_manager(&policies);
    assert!(left.contains("/jobferry-spec-managedby") && !left.contains("runpolicy"), "{left}");
    let rules = ["get", "clusterrole", "jobferry-dispatcher-kinds", "-o", "jsonpath={.rules[*].resources[0]}"];
    assert_eq!(pair.on_manager(&rules), "placements rayjobs rayjobs/status rayclusters");
}
