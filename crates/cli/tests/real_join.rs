//! `jobferry worker join` and `leave` on real clusters: what they make, what they refuse, and what they leave behind.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod joining;
mod support;

use std::{
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use jobferry_api::SYSTEM_NAMESPACE;
use jobferry_testkit::{RealCluster, User};
use joining::{Pair, WORKER};
use support::{Background, eventually, fail, jobferry, kubectl, succeed};

/// A Job of some namespace, delegated; runs for so many seconds.
fn job(namespace: &str, name: &str, seconds: u32) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  \
         managedBy: jobferry.dev/dispatcher\n  template:\n    \
         metadata: {{annotations: {{testkit.jobferry.dev/run-seconds: \"{seconds}\"}}}}\n    \
         spec: {{restartPolicy: Never, containers: [{{name: main, image: busybox, command: [\"true\"]}}]}}\n"
    )
}

/// Everything of ours on the worker.
fn made(pair: &Pair) -> String {
    let kinds = "clusterroles,clusterrolebindings,roles,rolebindings,secrets,serviceaccounts";
    pair.on_worker(&["get", kinds, "-A", "-l", "app.kubernetes.io/managed-by=jobferry", "-o", "name"])
}

fn apply_on_manager(pair: &Pair, manifests: &str) {
    feed(kubectl(&pair.manager().kubeconfig_path(User::Admin), &["apply", "-f", "-"]), manifests);
}

/// Runs with this text as its input.
fn feed(mut command: Command, input: &str) -> String {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn a_worker_that_is_confined_to_namespaces_comes_works_and_goes() {
    let pair = Pair::start().await;
    let mut dispatcher = pair.jobferry(&["dispatcher", "--install", "--metrics-address", ""]);
    dispatcher.env("JOBFERRY_LOG", "warn");
    let _dispatcher = Background::start(dispatcher);
    nothing_is_made_where_something_is_missing(&pair);
    it_joins_and_says_what_it_did(&pair);
    joining_twice_is_told_at_once(&pair);
    who_may_not_change_crds_may_still_join(&pair);
    what_gitops_would_apply_is_what_is_there(&pair);
    it_takes_workloads_of_its_namespaces_only(&pair);
    let thiefs = its_credential_opens_nothing_else(&pair);
    it_leaves_when_nothing_runs_there(&pair);
    let refusal =
        || String::from_utf8(kubectl(&thiefs, &["get", "jobs", "-n", "ml"]).output().unwrap().stderr).unwrap();
    let unauthorized = || refusal().contains("Unauthorized") || refusal().contains("logged in");
    eventually("a token that ended with its account", unauthorized);
}

fn nothing_is_made_where_something_is_missing(pair: &Pair) {
    let error = fail(pair.with_worker(&["join", WORKER, "--namespace", "ml,web"]));
    assert!(error.contains("no namespace ml, web") && error.contains("--create-namespaces"), "{error}");
    let restricted = pair.worker().kubeconfig_path(User::Restricted);
    let error = fail(pair.jobferry(&["worker", "join", WORKER, "--worker-kubeconfig", restricted.to_str().unwrap()]));
    assert!(error.contains("cannot read the identity of the worker"), "{error}");
    let reader = ["create", "clusterrolebinding", "reader", "--clusterrole=view", "--user=restricted"];
    pair.on_worker(&["create", "clusterrole", "namespaces", "--verb=get", "--resource=namespaces"]);
    pair.on_worker(&reader);
    pair.on_worker(&["create", "clusterrolebinding", "ns", "--clusterrole=namespaces", "--user=restricted"]);
    let error = fail(pair.jobferry(&["worker", "join", WORKER, "--worker-kubeconfig", restricted.to_str().unwrap()]));
    let words =
        ["your rights on the worker cluster are not enough", "create clusterroles", "delete jobs", "--print worker"];
    assert!(words.iter().all(|words| error.contains(words)), "{error}");
    let error = fail(pair.with_worker(&["join", WORKER, "--server", "https://127.0.0.1:1"]));
    assert!(error.contains("127.0.0.1:1 cannot be reached") && error.contains("--server"), "{error}");
    assert_eq!(made(pair), "");
}

fn it_joins_and_says_what_it_did(pair: &Pair) {
    let join = ["join", WORKER, "--labels", "region=eu", "--namespace", "ml,web", "--create-namespaces"];
    let output = pair.with_worker(&join).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "worker/eu-1 joined\n");
    for line in [
        "on the worker: namespace/ml applied".to_owned(),
        format!("on the worker: role/{} in namespace web applied", pair.account()),
        "on the manager: secret/eu-1 in namespace jobferry-system applied".to_owned(),
        "the dispatcher is connected to eu-1".to_owned(),
    ] {
        assert!(told.contains(&line), "{line:?} is missing in\n{told}");
    }
    nothing_of_the_admin_is_kept(pair);
}

fn nothing_of_the_admin_is_kept(pair: &Pair) {
    let admins = pair.worker().kubeconfig(User::Admin);
    let token = admins.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap();
    assert!(!pair.stored_kubeconfig().to_string().contains(token));
}

fn joining_twice_is_told_at_once(pair: &Pair) {
    #[allow(clippy::disallowed_methods, reason = "people wait in real time")]
    let started = Instant::now();
    let error = fail(pair.with_worker(&["join", WORKER]));
    assert!(error.contains("worker eu-1 is joined already") && error.contains("--renew"), "{error}");
    let error = fail(pair.with_worker(&["join", "eu-2"]));
    assert!(error.contains("this cluster is joined already, as worker eu-1"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(15), "nobody waited for a connection");
}

/// The rights to administrate a fleet, without those to change its CRDs.
const FLEET_ADMIN: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: fleet-admin}
rules:
- {apiGroups: [jobferry.dev], resources: [workers], verbs: [get, list, create, patch]}
- {apiGroups: [""], resources: [secrets], verbs: [create, patch]}
- {apiGroups: [""], resources: [namespaces], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: fleet-admin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: fleet-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: restricted}]
"#;

fn who_may_not_change_crds_may_still_join(pair: &Pair) {
    let file = |cluster: &RealCluster, user| cluster.kubeconfig_path(user).to_str().unwrap().to_owned();
    let (manager, worker) = (file(pair.manager(), User::Restricted), file(pair.worker(), User::Admin));
    let join = ["worker", "join", WORKER, "--renew", "--kubeconfig", &manager, "--worker-kubeconfig", &worker];
    let error = fail(jobferry(&join));
    assert!(error.contains("cannot read the identity of the management cluster"), "{error}");
    apply_on_manager(pair, FLEET_ADMIN);
    let joined = || jobferry(&join).output().unwrap();
    eventually("rights in force", || joined().status.success());
    let told = String::from_utf8(joined().stderr).unwrap();
    assert!(told.contains("the CRDs stay as they are"), "{told}");
}

fn what_gitops_would_apply_is_what_is_there(pair: &Pair) {
    let printed = succeed(pair.jobferry(&["worker", "join", WORKER, "--print", "worker", "--namespace", "ml,web"]));
    let applied = feed(kubectl(&pair.worker().kubeconfig_path(User::Admin), &["apply", "-f", "-"]), &printed);
    assert!(!applied.contains("created"), "{applied}");
    let before = pair.stored_token();
    apply_on_manager(pair, &succeed(pair.with_worker(&["join", WORKER, "--renew", "--print", "manager"])));
    assert_ne!(pair.stored_token(), before);
    nothing_of_the_admin_is_kept(pair);
}

fn it_takes_workloads_of_its_namespaces_only(pair: &Pair) {
    for (namespace, name) in [("ml", "a"), ("web", "b"), ("hr", "c")] {
        pair.on_manager(&["create", "namespace", namespace]);
        apply_on_manager(pair, &job(namespace, name, 0));
    }
    let completes = |namespace: &str, name: &str| {
        pair.on_manager(&["wait", "--for=condition=complete", "job", name, "-n", namespace, "--timeout=90s"]);
    };
    completes("ml", "a");
    completes("web", "b");
    eventually("the reason why it waits", || {
        pair.on_manager(&["describe", "job", "c", "-n", "hr"]).contains("does not take its namespace")
    });
    let shrink = ["patch", "worker", WORKER, "--type=merge", "-p", r#"{"spec": {"namespaces": ["ml"]}}"#];
    let error = fail(kubectl(&pair.manager().kubeconfig_path(User::Admin), &shrink));
    assert!(error.contains("may be added, not taken away"), "{error}");
    // It gets one more, and what waited goes there.
    let more = ["join", WORKER, "--renew", "--namespace", "hr", "--create-namespaces"];
    assert_eq!(succeed(pair.with_worker(&more)), "worker/eu-1 renewed\n");
    completes("hr", "c");
}

fn its_credential_opens_nothing_else(pair: &Pair) -> PathBuf {
    let (account, stolen) = (pair.account(), pair.write("stolen", &pair.stored_kubeconfig().to_string()));
    for (attempt, good) in [
        (&["get", "jobs", "-n", "ml"][..], true),
        (&["get", "jobs", "-n", "default"], false),
        (&["get", "jobs", "-A"], false),
        (&["delete", "jobs", "--all", "-n", "default"], false),
        (&["create", "job", "mine", "--image=busybox", "-n", "kube-system"], false),
        (&["get", "secrets", "-n", "ml"], false),
        (&["get", "secret", &account, "-n", SYSTEM_NAMESPACE], false),
        (&["get", "pods", "-n", "ml"], true),
        (&["get", "pods", "-n", "default"], false),
        (&["create", "token", &account, "-n", SYSTEM_NAMESPACE], true),
        (&["create", "token", "default", "-n", SYSTEM_NAMESPACE], false),
        (&["create", "token", "default", "-n", "ml"], false),
        (&["get", "namespace", "kube-system"], true),
        (&["get", "namespace", "ml"], false),
        (&["get", "clusterroles"], false),
        (&["delete", "clusterrole", &account], false),
    ] {
        let output = kubectl(&stolen, attempt).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), good, "{attempt:?}: {said}");
        assert!(good || said.contains("orbidden"), "{attempt:?}: {said}");
    }
    // A thief would ask for a token that is bound to no Secret; it ends with the account.
    let unbound = succeed(kubectl(&stolen, &["create", "token", &account, "-n", SYSTEM_NAMESPACE]));
    let kubeconfig = pair.stored_kubeconfig().to_string().replace(&pair.stored_token(), unbound.trim());
    pair.write("unbound", &kubeconfig)
}

fn it_leaves_when_nothing_runs_there(pair: &Pair) {
    apply_on_manager(pair, &job("ml", "long", 600));
    let mirror = ["get", "job", "long", "-n", "ml", "--ignore-not-found", "-o", "name"];
    eventually("the mirror", || !pair.on_worker(&mirror).is_empty());
    let error = fail(pair.with_worker(&["leave", WORKER]));
    assert!(error.contains("1 unfinished workloads are placed on worker eu-1") && error.contains("--wait"), "{error}");
    assert_eq!(pair.on_manager(&["get", "worker", WORKER, "-o", "jsonpath={.spec.cordoned}"]), "true");
    let other = pair.manager().kubeconfig_path(User::Admin);
    let error = fail(pair.jobferry(&["worker", "leave", WORKER, "--worker-kubeconfig", other.to_str().unwrap()]));
    assert!(error.contains("leads to another cluster"), "{error}");
    pair.on_manager(&["delete", "job", "long", "-n", "ml"]);
    assert_eq!(succeed(pair.with_worker(&["leave", WORKER, "--wait", "60s"])), "worker/eu-1 left\n");
    assert_eq!(made(pair), "");
    let left = ["get", "workers.jobferry.dev,secrets", "-n", SYSTEM_NAMESPACE, "-o", "name"];
    assert_eq!(pair.on_manager(&left), "");
}

/// Whoever writes the Secret of the worker is refused, after everything else went well.
const NO_SECRETS: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-secrets}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]
  validations: [{expression: "false", message: no Secrets today}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-secrets}
spec: {policyName: no-secrets, validationActions: [Deny]}
"#;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn a_join_that_stops_half_way_says_how_to_go_on_and_how_to_go_back() {
    let pair = Pair::start().await;
    succeed(pair.jobferry(&["install", "--no-deployment"]));
    let admin = pair.manager().kubeconfig_path(User::Admin);
    let try_secret = ["create", "secret", "generic", "x", "-n", SYSTEM_NAMESPACE, "--dry-run=server"];
    let allowed = || kubectl(&admin, &try_secret).output().unwrap().status.success();
    feed(kubectl(&admin, &["apply", "-f", "-"]), NO_SECRETS);
    eventually("a policy in force", || !allowed());

    let join = ["join", WORKER, "--wait", "0"];
    let error = fail(pair.with_worker(&join));
    for words in ["stopped half way", "the same command goes on", "jobferry worker leave eu-1", "no Secrets today"] {
        assert!(error.contains(words), "{words:?} is missing in {error}");
    }
    assert_ne!(made(&pair), "");
    assert_eq!(succeed(pair.with_worker(&["leave", WORKER])), "worker/eu-1 left\n");
    assert_eq!(made(&pair), "");

    fail(pair.with_worker(&join));
    pair.on_manager(&["delete", "validatingadmissionpolicybinding", "no-secrets"]);
    eventually("no policy in force", allowed);
    assert_eq!(succeed(pair.with_worker(&join)), "worker/eu-1 joined\n");
}
