//! The shipped rights are enough, and none of them is for nothing: a dispatcher and a worker that have no others.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use jobferry_testkit::{AuditRecord, RealCluster, RealFleet, User};
use support::{Background, eventually, fail, jobferry, kubectl, succeed};

const JOBS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/rbac.yaml");

/// A kubeconfig of `cluster` for a ServiceAccount of ours, by a token as `kubectl create token` makes it.
fn kubeconfig_of(cluster: &RealCluster, account: &str, directory: &Path) -> PathBuf {
    let admin = cluster.kubeconfig_path(User::Admin);
    let token = succeed(kubectl(&admin, &["create", "token", account, "-n", "jobferry-system"]));
    let text: String = cluster
        .kubeconfig(User::Admin)
        .lines()
        .map(|line| match line.split_once("token:") {
            Some((indent, _)) => format!("{indent}token: {}\n", token.trim()),
            None => format!("{line}\n"),
        })
        .collect();
    let path = directory.join(format!("{}-{account}", cluster.name()));
    std::fs::write(&path, text).unwrap();
    path
}

/// What a ServiceAccount of ours asked for: verb and resource.
fn asked(records: &[AuditRecord], account: &str) -> BTreeSet<String> {
    let user = format!("system:serviceaccount:jobferry-system:{account}");
    let ours = records.iter().filter(|record| record.user == user && !record.resource.is_empty());
    ours.map(|record| format!("{} {}", record.verb, record.resource)).collect()
}

fn refused(records: &[AuditRecord]) -> Vec<&AuditRecord> {
    let account = "system:serviceaccount:jobferry-system:";
    records.iter().filter(|record| record.user.starts_with(account) && record.code == 403).collect()
}

/// What the roles of a manifest grant.
fn granted(role: &str) -> BTreeSet<String> {
    let mut granted = BTreeSet::new();
    for document in succeed(jobferry(&["install", role, "--print"])).split("---\n").filter(|text| !text.is_empty()) {
        let object: serde_json::Value = serde_saphyr::from_str(document).unwrap();
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

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn the_shipped_rights_are_enough_and_all_of_them_are_used() {
    let fleet = RealFleet::start(&["manager", "eu-1"]).await.unwrap();
    let (manager, worker) = (fleet.manager(), &fleet.workers()[0]);
    let admin = manager.kubeconfig_path(User::Admin);
    let worker_admin = worker.kubeconfig_path(User::Admin);
    let on_manager = |arguments: &[&str]| succeed(kubectl(&admin, arguments));
    let on_worker = |arguments: &[&str]| succeed(kubectl(&worker_admin, arguments));
    let flag = admin.to_str().unwrap();
    succeed(jobferry(&["install", "--kubeconfig", flag]));
    succeed(jobferry(&["install", "worker", "--kubeconfig", worker_admin.to_str().unwrap()]));

    let directory = tempfile::tempdir().unwrap();
    let dispatcher = kubeconfig_of(manager, "jobferry-dispatcher", directory.path());
    let mirrors = kubeconfig_of(worker, "jobferry", directory.path());
    let run = ["dispatcher", "--metrics-address", "", "--kubeconfig", dispatcher.to_str().unwrap()];
    let _dispatcher = Background::start(jobferry(&run));
    let join = ["worker", "join", "eu-1", "--kubeconfig", flag, "--worker-kubeconfig", mirrors.to_str().unwrap()];
    succeed(jobferry(&join));
    let listed = succeed(jobferry(&["worker", "list", "--kubeconfig", flag]));
    assert!(listed.contains("eu-1") && listed.contains("Connected"), "{listed}");
    let expires = on_manager(&["get", "worker/eu-1", "-o", "jsonpath={.status.credentialExpires}"]);
    assert!(expires.ends_with('Z'), "the token says when it expires: {expires:?}");

    // A life: it finishes, an edit is forwarded, a worker's warning comes up, a deleted Job takes its mirror along, a Job
    // that somebody took away on the worker is looked for.
    on_manager(&["apply", "-f", JOBS]);
    on_manager(&["wait", "--for=condition=complete", "job/plain", "--timeout=60s"]);
    let exists = |cluster: &Path, job: &str| {
        !succeed(kubectl(cluster, &["get", "job", job, "--ignore-not-found", "-o", "name"])).is_empty()
    };
    for job in ["long", "no-account", "vandalised"] {
        eventually("the mirror", || exists(&worker_admin, job));
    }
    on_manager(&["patch", "job/long", "-p", r#"{"spec": {"parallelism": 2}}"#]);
    eventually("the edit", || on_worker(&["get", "job/long", "-o", "jsonpath={.spec.parallelism}"]) == "2");
    eventually("the warning", || on_manager(&["describe", "job/no-account"]).contains("on worker eu-1: "));
    on_worker(&["delete", "job/vandalised", "--cascade=orphan"]);
    on_manager(&["wait", "--for=condition=failed", "job/vandalised", "--timeout=60s"]);
    assert!(on_manager(&["describe", "job/vandalised"]).contains("MirrorDeleted"));

    // A Worker that has workloads does not go; one that has none does.
    let error = fail(jobferry(&["worker", "forget", "eu-1", "--kubeconfig", flag]));
    assert!(error.contains("unfinished workloads are placed on worker eu-1"), "{error}");
    on_manager(&["delete", "worker", "eu-1", "--wait=false"]);
    on_manager(&["delete", "job", "long", "no-account"]);
    eventually("the mirror's end", || !exists(&worker_admin, "long"));
    on_manager(&["wait", "--for=delete", "worker/eu-1", "--timeout=60s"]);

    for (cluster, account, role) in [(manager, "jobferry-dispatcher", "manager"), (worker, "jobferry", "worker")] {
        let records = cluster.audit().records_since(jobferry_testkit::AuditMark::default()).unwrap();
        assert_eq!(refused(&records), Vec::<&AuditRecord>::new(), "{role}");
        let mut used = asked(&records, account);
        // An Event that is told again after a minute is patched; the test does not wait for it.
        used.insert("patch events".into());
        // A list that comes as a stream is a watch; servers that do not offer it are asked for the list.
        let streamed: Vec<_> =
            used.iter().filter_map(|right| right.strip_prefix("watch ")).map(str::to_owned).collect();
        used.extend(streamed.iter().map(|resource| format!("list {resource}")));
        let unused: BTreeSet<_> = granted(role).difference(&used).cloned().collect();
        assert_eq!(unused, BTreeSet::new(), "{role}: rights that nobody used");
    }
}
