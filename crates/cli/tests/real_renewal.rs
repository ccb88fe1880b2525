//! A worker's token is replaced in the middle of everything: nothing is interrupted, and deleting one Secret ends them all.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod joining;
mod support;

use std::time::{Duration, Instant};

use jobferry_api::SYSTEM_NAMESPACE;
use jobferry_kubeio::metrics::Observed as _;
use jobferry_testkit::{AuditMark, User};
use joining::{Ahead, Pair, WORKER, claims};
use k8s_openapi::jiff::SignedDuration;
use serde_json::Value;
use support::{eventually, fail, kubectl, succeed};

/// More than half of a day's token, less than three quarters.
const PAST_HALF: SignedDuration = SignedDuration::from_hours(13);

/// The credential by which each Job was created on the worker, as its API server recorded it.
fn credentials_of_creates(pair: &Pair) -> Vec<String> {
    let log = std::fs::read_to_string(pair.worker().directory().join("audit.log")).unwrap();
    let records = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let creates = records.filter(|record| record["verb"] == "create" && record["objectRef"]["resource"] == "jobs");
    let id = |record: Value| {
        let id = &record["user"]["extra"]["authentication.kubernetes.io/credential-id"][0];
        id.as_str().unwrap_or_default().to_owned()
    };
    creates.map(id).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn a_token_is_renewed_without_dropping_a_watch_and_revoked_by_deleting_its_secret() {
    let pair = Pair::start().await;
    succeed(pair.jobferry(&["install", "--no-deployment"]));
    succeed(pair.with_worker(&["join", WORKER, "--wait", "0"]));
    let first = pair.stored_token();
    let life = claims(&first)["exp"].as_i64().unwrap() - claims(&first)["iat"].as_i64().unwrap();
    assert_eq!(life, 24 * 3600);

    // A token of the same second would be no gain.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let manager = pair.manager().client(User::Dispatcher).await.unwrap();
    #[allow(clippy::disallowed_methods, reason = "the server ends watches by the real clock")]
    let started = Instant::now();
    let dispatcher = Ahead::start(manager, PAST_HALF);
    pair.until_connected();
    eventually("a renewed token", || pair.stored_token() != first);
    let second = pair.stored_token();
    assert_eq!(claims(&second)["kubernetes.io"], claims(&first)["kubernetes.io"], "the same account and Secret");
    let expires = claims(&second)["exp"].as_i64().unwrap();
    let metric = format!(r#"jobferry_worker_credential_expiry_timestamp_seconds{{worker="{WORKER}"}} {expires}"#);
    eventually("the expiry as a metric", || dispatcher.vitals.metrics().contains(&metric));
    let status = k8s_openapi::jiff::Timestamp::from_second(expires).unwrap().to_string();
    eventually("the expiry in the status", || pair.worker_status("credentialExpires") == status);

    // Life goes on, by the new token, on the watches that the old one opened.
    pair.on_manager(&["apply", "-f", concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hello.yaml")]);
    pair.on_manager(&["patch", "job", "hello", "--type=merge", "-p", r#"{"metadata": {"labels": {"a": "b"}}}"#]);
    eventually("a complete Job", || {
        pair.on_manager(&[
            "get",
            "job",
            "hello",
            "-o",
            r#"jsonpath={.status.conditions[?(@.type=="Complete")].status}"#,
        ]) == "True"
    });
    let used = credentials_of_creates(&pair);
    assert_eq!(used, [format!("JTI={}", claims(&second)["jti"].as_str().unwrap())]);
    let records = pair.asked_of_worker(AuditMark::default());
    // A watch lasts a minute by itself; Events are watched of Jobs and of pods.
    let minutes = started.elapsed().as_secs() / 60;
    for (resource, at_once) in [("jobs", 1), ("events", 2)] {
        let asked = records.iter().filter(|record| record.verb == "watch" && record.resource == resource);
        let watches = u64::try_from(asked.count()).unwrap();
        assert!((at_once..=at_once * (1 + minutes)).contains(&watches), "{resource} were watched {watches} times");
    }
    // No request met a token that was not good. What the server failed at for other reasons is another matter.
    assert!(!records.iter().any(|record| [401, 403].contains(&record.code)), "{records:?}");

    // Whoever deletes the Secret on the worker ends all tokens that were ever bound to it.
    let old = pair.stored_kubeconfig().to_string().replace(&second, &first);
    let (old, new) = (pair.write("old", &old), pair.write("new", &pair.stored_kubeconfig().to_string()));
    let ask = ["get", "namespace", "kube-system", "-o", "name"];
    for kubeconfig in [&old, &new] {
        assert_eq!(succeed(kubectl(kubeconfig, &ask)), "namespace/kube-system\n");
    }
    pair.on_worker(&["delete", "secret", &pair.account(), "-n", SYSTEM_NAMESPACE]);
    for kubeconfig in [&old, &new] {
        // API servers remember good tokens for ten seconds.
        eventually("refused tokens", || !kubectl(kubeconfig, &ask).output().unwrap().status.success());
        let refusal = fail(kubectl(kubeconfig, &ask));
        assert!(refusal.contains("Unauthorized") || refusal.contains("logged in"), "{refusal}");
    }
    dispatcher.stop().await;

    // The dispatcher says what to do, and that helps.
    let manager = pair.manager().client(User::Dispatcher).await.unwrap();
    let dispatcher = Ahead::start(manager, SignedDuration::ZERO);
    let message = pair.until_refused();
    assert!(message.contains("credentials are refused") && message.contains("join --renew"), "{message}");
    assert_eq!(succeed(pair.with_worker(&["join", WORKER, "--renew"])), "worker/eu-1 renewed\n");
    pair.until_connected();
    dispatcher.stop().await;
}
