//! `jobferry job-controller` beside the stock controllers of a real cluster.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::path::Path;

use jobferry_testkit::{AuditMark, RUN_SECONDS, RealFleet, User};
use serde_json::{Value, json};
use support::{Background, jobferry, kubectl, succeed};

/// Two pods that run until they are seen.
fn job(name: &str, managed_by: Option<&str>) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "managedBy": managed_by, "completions": 4, "parallelism": 2, "completionMode": "Indexed",
            "template": {
                "metadata": {"annotations": {RUN_SECONDS: "3"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
            },
        },
    })
}

fn create(directory: &Path, kubeconfig: &Path, job: &Value) {
    let file = directory.join("job.json");
    std::fs::write(&file, job.to_string()).unwrap();
    succeed(kubectl(kubeconfig, &["create", "-f", file.to_str().unwrap()]));
}

/// One JSONPath over the pods of a Job, a line a pod.
fn of_pods(kubeconfig: &Path, job: &str, path: &str) -> Vec<String> {
    let selector = format!("batch.kubernetes.io/job-name={job}");
    let template = format!("jsonpath={{range .items[*]}}{{{path}}}{{\"\\n\"}}{{end}}");
    let output = succeed(kubectl(kubeconfig, &["get", "pods", "-l", &selector, "-o", &template]));
    output.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn a_delegated_job_and_a_plain_one_run_side_by_side_and_neither_controller_touches_the_others() {
    let fleet = RealFleet::start(&["stock"]).await.unwrap();
    let cluster = fleet.manager();
    let directory = tempfile::tempdir().unwrap();
    let admin = cluster.kubeconfig_path(User::Admin);
    // A user of its own, so that the audit log can tell the two controllers apart.
    let ours = cluster.kubeconfig_path(User::Dispatcher);
    let arguments = ["job-controller", "--kubeconfig", ours.to_str().unwrap(), "--managed-by", "jobferry.dev/local"];
    let _controller = Background::start(jobferry(&arguments));

    create(directory.path(), &admin, &job("local", Some("jobferry.dev/local")));
    create(directory.path(), &admin, &job("plain", None));
    for (name, finalizer) in [("local", "jobferry.dev/job-tracking"), ("plain", "batch.kubernetes.io/job-tracking")] {
        let ready = format!("job/{name}");
        succeed(kubectl(&admin, &["wait", "--for=jsonpath={.status.ready}=2", &ready, "--timeout=60s"]));
        let finalizers = of_pods(&admin, name, ".metadata.finalizers[*]");
        assert_eq!(finalizers, [finalizer, finalizer], "{name}: two pods run, each protected by its own controller");
    }
    for name in ["local", "plain"] {
        succeed(kubectl(&admin, &["wait", "--for=condition=complete", &format!("job/{name}"), "--timeout=60s"]));
        let owners = of_pods(&admin, name, ".metadata.ownerReferences[?(@.controller)].name");
        assert_eq!(owners, [name; 4], "{name} made its four pods, and nobody else did");
        assert_eq!(of_pods(&admin, name, ".metadata.finalizers"), [""; 4], "{name}: nothing holds its pods any more");
    }

    let audit = cluster.audit();
    for (user, own) in [(User::Dispatcher, "local"), (User::ControllerManager, "plain")] {
        let records = audit.records_of(user, AuditMark::default()).unwrap();
        let is_write = |verb: &str| !["get", "list", "watch"].contains(&verb);
        let touched = records.iter().filter(|record| {
            is_write(&record.verb) && (record.resource.starts_with("jobs") || record.resource.starts_with("pods"))
        });
        // The name of a pod that the server made up is not in the record of its creation; its owner was looked at above.
        let names: Vec<&str> = touched.map(|record| record.name.as_str()).filter(|name| !name.is_empty()).collect();
        assert!(names.contains(&own), "{} wrote the status of {own}: {names:?}", user.name());
        assert!(names.iter().all(|name| name.starts_with(own)), "{} wrote only to {own}: {names:?}", user.name());
    }
    let holder = ["get", "lease", "-n", "kube-system", "job-controller-local.jobferry.dev", "-o", "name"];
    succeed(kubectl(&admin, &holder));
}
