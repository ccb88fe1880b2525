//! The shipped rights are enough, none of them is for nothing, and each rule on the worker is one that is missed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod joining;
mod support;

use std::collections::BTreeSet;

use jobferry_api::{SYSTEM_NAMESPACE, conditions::REASON_SECRET_UNREADABLE};
use jobferry_testkit::{AuditMark, AuditRecord, User};
use joining::{Ahead, Pair, WORKER, client};
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};
use support::{eventually, fail, jobferry, kubectl, succeed};

const JOBS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/rbac.yaml");

/// Less than a quarter of a day's token is left.
const NEAR_THE_END: SignedDuration = SignedDuration::from_hours(20);

/// Verb and resource of what was asked.
fn asked(records: &[AuditRecord]) -> BTreeSet<String> {
    let about_objects = records.iter().filter(|record| !record.resource.is_empty());
    about_objects.map(|record| format!("{} {}", record.verb, record.resource)).collect()
}

/// What the roles among some manifests grant.
fn granted(manifests: &str) -> BTreeSet<String> {
    let mut granted = BTreeSet::new();
    for document in manifests.split("---\n").filter(|text| !text.is_empty()) {
        let object: Value = serde_saphyr::from_str(document).unwrap();
        for rule in object["rules"].as_array().into_iter().flatten() {
            for resource in rule["resources"].as_array().unwrap() {
                for verb in rule["verbs"].as_array().unwrap() {
                    granted.insert(format!("{} {}", verb.as_str().unwrap(), resource.as_str().unwrap()));
                }
            }
        }
    }
    granted
}

fn is_enough_and_all_used(records: &[AuditRecord], granted: &BTreeSet<String>) {
    let refused: Vec<_> = records.iter().filter(|record| record.code == 403).collect();
    assert_eq!(refused, Vec::<&AuditRecord>::new());
    let mut used = asked(records);
    // An Event that is told again after a minute is patched; the test does not wait for it.
    used.insert("patch events".into());
    // A list that comes as a stream is a watch; servers that do not offer it are asked for the list.
    let streamed: Vec<_> = used.iter().filter_map(|right| right.strip_prefix("watch ")).map(str::to_owned).collect();
    used.extend(streamed.iter().map(|resource| format!("list {resource}")));
    let unused: BTreeSet<_> = granted.difference(&used).collect();
    assert_eq!(unused, BTreeSet::new(), "rights that nobody used");
}

fn mirror_exists(pair: &Pair, job: &str) -> bool {
    !pair.on_worker(&["get", "job", job, "--ignore-not-found", "-o", "name"]).is_empty()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn the_shipped_rights_are_enough_and_all_of_them_are_used() {
    let pair = Pair::start().await;
    succeed(pair.jobferry(&["install", "--no-deployment"]));
    succeed(pair.with_worker(&["join", WORKER, "--wait", "0"]));
    let first = pair.stored_token();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let dispatcher = Ahead::start(client(&pair.dispatchers_kubeconfig()).await, SignedDuration::from_hours(13));
    pair.until_connected();
    let listed = succeed(pair.jobferry(&["worker", "list"]));
    assert!(listed.contains("eu-1") && listed.contains("Connected"), "{listed}");

    // A life: it finishes, an edit is forwarded, a worker's warnings about a mirror and about a pod come up, a deleted Job
    // takes its mirror along, a token is renewed.
    pair.on_manager(&["apply", "-f", JOBS]);
    pair.on_manager(&["wait", "--for=condition=complete", "job/plain", "--timeout=60s"]);
    for job in ["long", "no-account"] {
        eventually("the mirror", || mirror_exists(&pair, job));
    }
    pair.on_manager(&["patch", "job/long", "-p", r#"{"spec": {"parallelism": 2}}"#]);
    eventually("the edit", || pair.on_worker(&["get", "job/long", "-o", "jsonpath={.spec.parallelism}"]) == "2");
    eventually("the warning", || pair.on_manager(&["describe", "job/no-account"]).contains("on worker eu-1: "));
    complain_about_its_pod(&pair, "long", "no such volume");
    eventually("the complaint", || pair.on_manager(&["describe", "job/long"]).contains("no such volume"));
    eventually("a renewed token", || pair.stored_token() != first);

    // A kind of a user's own is read, and its rules are judged.
    pair.on_manager(&["apply", "-f", concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/kind-etl-run.yaml")]);
    let accepted = r#"jsonpath={.status.conditions[?(@.type=="Accepted")].status}"#;
    let kind = ["get", "workloadkind", "etlruns.workloads.example.dev", "-o", accepted];
    eventually("the verdict on a kind", || pair.on_manager(&kind) == "True");

    // A Worker that has workloads does not go; one that has none does.
    let error = fail(pair.jobferry(&["worker", "forget", WORKER]));
    assert!(error.contains("unfinished workloads are placed on worker eu-1"), "{error}");
    pair.on_manager(&["delete", "worker", WORKER, "--wait=false"]);
    pair.on_manager(&["delete", "job", "long", "no-account"]);
    eventually("the mirror's end", || !mirror_exists(&pair, "long"));
    pair.on_manager(&["wait", "--for=delete", "worker/eu-1", "--timeout=60s"]);
    dispatcher.stop().await;

    let records = pair.manager().audit().records_since(AuditMark::default()).unwrap();
    let user = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:jobferry-dispatcher");
    let ours: Vec<_> = records.into_iter().filter(|record| record.user == user).collect();
    is_enough_and_all_used(&ours, &granted(&succeed(jobferry(&["install", "--print", "--no-deployment"]))));
    let printed = succeed(pair.jobferry(&["worker", "join", WORKER, "--print", "worker"]));
    is_enough_and_all_used(&pair.asked_of_worker(AuditMark::default()), &granted(&printed));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn a_secret_that_the_dispatcher_may_not_read_is_told_on_its_worker() {
    let pair = Pair::start().await;
    succeed(pair.jobferry(&["install", "--no-deployment"]));
    succeed(pair.with_worker(&["join", WORKER, "--wait", "0"]));
    let role = ["role", "jobferry-dispatcher", "-n", SYSTEM_NAMESPACE];
    let shipped: Value =
        serde_json::from_str(&pair.on_manager(&[&["get"], &role[..], &["-o", "json"]].concat())).unwrap();
    let rules = shipped["rules"].as_array().unwrap();
    let others: Vec<&Value> = rules.iter().filter(|rule| rule["resources"] != json!(["secrets"])).collect();
    assert_eq!(others.len() + 1, rules.len(), "{shipped}");
    let patch = json!({ "rules": others }).to_string();
    pair.on_manager(&[&["patch"], &role[..], &["--type=merge", "-p", &patch]].concat());

    let dispatcher = Ahead::start(client(&pair.dispatchers_kubeconfig()).await, SignedDuration::ZERO);
    let accepted = |field: &str| pair.worker_status(&format!(r#"conditions[?(@.type=="Accepted")].{field}"#));
    eventually("a word on the Worker", || accepted("reason") == REASON_SECRET_UNREADABLE);
    let told = (accepted("status"), accepted("message"));
    assert!(told.0 == "Unknown" && told.1.contains("cannot be read") && told.1.contains("forbidden"), "{told:?}");
    let doctor = String::from_utf8(pair.jobferry(&["doctor"]).output().unwrap().stdout).unwrap();
    assert!(doctor.contains("`jobferry install` lets the dispatcher read it"), "{doctor}");

    succeed(pair.jobferry(&["install", "--no-deployment"]));
    pair.until_connected();
    dispatcher.stop().await;
}

/// Says of a mirror's pod what keeps it from running, as the worker's kubelet would.
fn complain_about_its_pod(pair: &Pair, job: &str, message: &str) {
    let selector = format!("job-name={job}");
    let list = || pair.on_worker(&["get", "pods", "-l", &selector, "-o", "json"]);
    let pod = || serde_json::from_str::<Value>(&list()).unwrap()["items"][0]["metadata"].clone();
    eventually("a pod of the mirror", || !pod().is_null());
    let pod = pod();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "FailedMount", "message": message,
        "metadata": {"generateName": "complaint-", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": pod["name"], "uid": pod["uid"]},
    });
    let file = pair.write("complaint.json", &event.to_string());
    pair.on_worker(&["create", "-f", file.to_str().unwrap()]);
}

/// A role on the worker.
struct Role {
    kind: &'static str,
    name: String,
    namespace: &'static str,
    rules: Vec<Value>,
}

impl Role {
    fn read(pair: &Pair, kind: &'static str, name: String, namespace: &'static str) -> Self {
        let object = pair.on_worker(&["get", kind, &name, "-n", namespace, "-o", "json"]);
        let object: Value = serde_json::from_str(&object).unwrap();
        Self { kind, name, namespace, rules: object["rules"].as_array().unwrap().clone() }
    }

    fn set(&self, pair: &Pair, rules: &[Value]) {
        let patch = json!({ "rules": rules }).to_string();
        pair.on_worker(&["patch", self.kind, &self.name, "-n", self.namespace, "--type=merge", "-p", &patch]);
    }

    fn without(&self, index: usize) -> Vec<Value> {
        let mut rules = self.rules.clone();
        rules.remove(index);
        rules
    }
}

/// What people see when the rule about this resource is gone. Called while a dispatcher runs without it.
fn what_is_missed(pair: &Pair, resource: &str, since: AuditMark) {
    let told = |job: &str| pair.on_manager(&["describe", "job", job]);
    let refused = || {
        let records = pair.asked_of_worker(since);
        records.iter().filter(|record| record.code == 403).map(|r| r.resource.clone()).collect::<BTreeSet<_>>()
    };
    match resource {
        "jobs" | "namespaces" => {
            let message = pair.until_refused();
            assert!(message.contains("a permission is missing") && message.contains(resource), "{message}");
        }
        "events" => {
            pair.until_connected();
            eventually("a refusal", || refused().contains("events"));
            pair.on_manager(&["create", "-f", JOBS]);
            let complaint = || pair.on_worker(&["get", "events", "--field-selector=reason=FailedCreate", "-o", "name"]);
            eventually("a warning on the worker", || !complaint().is_empty());
            pair.on_manager(&["wait", "--for=condition=complete", "job/plain", "--timeout=60s"]);
            assert!(!told("no-account").contains("on worker eu-1: "), "nobody repeated it");
        }
        "pods" => {
            pair.until_connected();
            pair.on_manager(&["create", "-f", JOBS]);
            eventually("the mirror", || mirror_exists(pair, "long"));
            complain_about_its_pod(pair, "long", "no such volume");
            eventually("a refusal", || refused().contains("pods"));
            assert!(!told("long").contains("no such volume"), "nobody knew whose pod it is");
        }
        "serviceaccounts/token" => {
            pair.until_connected();
            let event = || {
                let events = pair.on_manager(&["get", "events", "--field-selector=involvedObject.kind=Worker"]);
                events.contains("CredentialExpires") && events.contains("jobferry worker join eu-1 --renew")
            };
            eventually("a warning on the Worker", event);
        }
        other => panic!("a rule about {other} that no test misses"),
    }
    assert_eq!(refused(), BTreeSet::from([resource.to_owned()]), "that is all that was refused");
}

/// What comes right by itself when the rule is back.
fn what_is_made_up_for(pair: &Pair, resource: &str) {
    pair.until_connected();
    if resource == "pods" {
        complain_about_its_pod(pair, "long", "still no such volume");
        eventually("the complaint", || pair.on_manager(&["describe", "job/long"]).contains("still no such volume"));
    }
}

/// Removes each rule in turn, looks what is missed, and puts it back. Returns what the rules were about.
async fn take_apart(pair: &Pair, roles: &[Role]) -> Vec<String> {
    let mut missed = Vec::new();
    for (role, index) in roles.iter().flat_map(|role| (0..role.rules.len()).map(move |index| (role, index))) {
        let resource = role.rules[index]["resources"][0].as_str().unwrap();
        role.set(pair, &role.without(index));
        let since = pair.worker().audit().mark().unwrap();
        let manager = pair.manager().client(User::Dispatcher).await.unwrap();
        let dispatcher = Ahead::start(manager, NEAR_THE_END);
        what_is_missed(pair, resource, since);
        let doctor = String::from_utf8(pair.jobferry(&["doctor"]).output().unwrap().stdout).unwrap();
        let wrong = |line: &str| line.contains("WRONG") && line.contains(resource);
        assert!(doctor.lines().any(wrong), "doctor does not see that {resource} are out of reach\n{doctor}");
        role.set(pair, &role.rules);
        what_is_made_up_for(pair, resource);
        missed.push(resource.to_owned());
        // The next one finds a clean place.
        dispatcher.stop().await;
        pair.on_manager(&["delete", "jobs", "--all", "-n", "default"]);
        pair.on_worker(&["delete", "jobs,events", "--all", "-n", "default"]);
        let clear = json!({"status": {"conditions": null}}).to_string();
        let status = ["patch", "worker", WORKER, "--subresource=status", "--type=merge", "-p", &clear];
        succeed(kubectl(&pair.manager().kubeconfig_path(User::Admin), &status));
    }
    missed
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn each_rule_on_the_worker_is_missed_when_it_is_gone() {
    let pair = Pair::start().await;
    succeed(pair.jobferry(&["install", "--no-deployment"]));
    succeed(pair.with_worker(&["join", WORKER, "--wait", "0"]));
    let account = pair.account();
    let everywhere = Role::read(&pair, "clusterrole", account.clone(), SYSTEM_NAMESPACE);
    let own_token = Role::read(&pair, "role", format!("{account}-token"), SYSTEM_NAMESPACE);
    let missed = take_apart(&pair, &[everywhere, own_token]).await;
    assert_eq!(missed, ["jobs", "pods", "events", "namespaces", "serviceaccounts/token"]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn each_rule_on_a_worker_that_is_confined_to_a_namespace_is_missed_when_it_is_gone() {
    let pair = Pair::start().await;
    succeed(pair.jobferry(&["install", "--no-deployment"]));
    succeed(pair.with_worker(&["join", WORKER, "--wait", "0", "--namespace", "default"]));
    let account = pair.account();
    let confined = Role::read(&pair, "role", account.clone(), "default");
    let cluster_wide = Role::read(&pair, "clusterrole", account.clone(), SYSTEM_NAMESPACE);
    let own_token = Role::read(&pair, "role", format!("{account}-token"), SYSTEM_NAMESPACE);
    let missed = take_apart(&pair, &[confined, cluster_wide, own_token]).await;
    assert_eq!(missed, ["jobs", "pods", "events", "namespaces", "serviceaccounts/token"]);
}
