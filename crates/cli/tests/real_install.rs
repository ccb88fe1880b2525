//! What `jobferry install --print` prints is what an API server takes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use jobferry_testkit::{RealCluster, Testbed, User};
use serde_json::Value;
use support::{jobferry, kubectl, succeed};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn the_printed_manifests_are_accepted_whole_and_install_applies_the_same() {
    let manager = RealCluster::start_scratch(&Testbed::from_environment().unwrap(), "manager").await.unwrap();
    let admin = manager.kubeconfig_path(User::Admin);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("jobferry.yaml");
    std::fs::write(&file, succeed(jobferry(&["install", "--print"]))).unwrap();
    let apply = |more: &[&str]| {
        let strict = ["apply", "--validate=strict", "-f", file.to_str().unwrap()];
        let output = kubectl(&admin, &[&strict, more].concat()).output().unwrap();
        let (said, warned) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success() && warned.is_empty(), "{said}{warned}");
        said
    };
    // A dry run keeps no namespace for what comes after it in the file.
    succeed(kubectl(&admin, &["create", "namespace", "jobferry-system"]));
    succeed(kubectl(&admin, &["label", "namespace", "jobferry-system", "pod-security.kubernetes.io/warn=restricted"]));
    succeed(kubectl(
        &admin,
        &["annotate", "namespace", "jobferry-system", "kubectl.kubernetes.io/last-applied-configuration={}"],
    ));
    let tried = apply(&["--dry-run=server"]);
    assert!(tried.contains("deployment.apps/jobferry-dispatcher created (server dry run)"), "{tried}");
    let applied = apply(&[]);
    assert_eq!(tried.replace(" (server dry run)", ""), applied);

    // The same by the program itself: nothing is left to change.
    succeed(jobferry(&["install", "--kubeconfig", admin.to_str().unwrap()]));
    let again = apply(&["--dry-run=server"]);
    assert!(again.lines().all(|line| line.contains("unchanged") || line.contains("configured")), "{again}");

    // Kinds of one's own have a form that the server checks.
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    for kind in ["argo-workflow", "etl-run", "leader-worker-set", "mini-cluster", "spark-application", "volcano-job"] {
        let file = format!("{examples}/kind-{kind}.yaml");
        succeed(kubectl(&admin, &["apply", "--validate=strict", "-f", &file]));
    }
    let patch = r#"{"spec":{"suspended":{"path":"spec.control.paused","is":["true"],"exists":true},"forward":[{"path":"paused"}]}}"#;
    let patch = ["patch", "workloadkind", "etlruns.workloads.example.dev", "--type=merge", "-p", patch];
    let refused = String::from_utf8(kubectl(&admin, &patch).output().unwrap().stderr).unwrap();
    for reason in ["a test asks exactly one of is, isNot and exists", "spec.forward[0].path: Invalid value: \"paused\""]
    {
        assert!(refused.contains(reason), "{refused}");
    }

    let deployment = ["get", "deployment", "jobferry-dispatcher", "-n", "jobferry-system", "-o", "json"];
    let deployment: Value = serde_json::from_str(&succeed(kubectl(&admin, &deployment))).unwrap();
    assert_eq!(deployment["spec"]["replicas"], 2);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], concat!("jobferry:", env!("CARGO_PKG_VERSION")));
    // The command in it is one that this program understands.
    let command: Vec<_> = container["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(succeed(jobferry(&[&command[1..], &["--help"]].concat())).contains("--metrics-address"));
}
