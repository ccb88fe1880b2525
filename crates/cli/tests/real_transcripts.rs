//! Transcripts that need real clusters: joining and leaving, rights, tokens. See `transcripts.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::{fs, time::Duration};

use jobferry_kubeio as kubeio;
use jobferry_testkit::{RealFleet, User};
use serde_json::{Value, json};
use support::{Background, expired, transcript::Terminal};

/// The kubeconfig of a cluster as one user, with a second cluster, as another one, beside it.
fn as_two(first: &str, second: &str) -> String {
    let [mut both, second]: [Value; 2] = [first, second].map(|text| serde_saphyr::from_str(text).unwrap());
    for list in ["clusters", "users", "contexts"] {
        both[list].as_array_mut().unwrap().push(second[list][0].clone());
    }
    both.to_string()
}

/// A Worker `stale` whose token has expired.
fn stale_worker(kubeconfig: &str) -> [(&'static str, Value); 2] {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "stale"}, "stringData": {"kubeconfig": kubeconfig},
    });
    let worker = json!({
        "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker", "metadata": {"name": "stale"},
        "spec": {"kubeconfigSecret": "stale"},
    });
    [("/api/v1/namespaces/jobferry-system/secrets", secret), ("/apis/jobferry.dev/v1alpha1/workers", worker)]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn on_real_clusters() {
    let fleet = RealFleet::start(&["manager", "eu-1", "us-1"]).await.unwrap();
    let mut terminal = Terminal::open();
    let write = |name: &str, kubeconfig: &str| fs::write(terminal.path(name), kubeconfig).unwrap();
    let (manager, worker) = (fleet.manager(), &fleet.workers()[0]);
    for cluster in fleet.clusters() {
        write(&format!("{}.kubeconfig", cluster.name()), &cluster.kubeconfig(User::Admin));
    }
    write("restricted.kubeconfig", &manager.kubeconfig(User::Restricted));
    write("restricted-worker.kubeconfig", &worker.kubeconfig(User::Restricted));
    write(
        "restricted-logs.kubeconfig",
        &as_two(&manager.kubeconfig(User::Admin), &worker.kubeconfig(User::Restricted)),
    );
    write("expired.kubeconfig", &expired::kubeconfig(manager));
    let expired = expired::kubeconfig(worker);
    write("expired-worker.kubeconfig", &expired);
    let path = terminal.path("manager.kubeconfig").to_str().unwrap().to_owned();
    terminal.set("KUBECONFIG", &path);
    terminal.expect_change(
        &manager.client(User::Admin).await.unwrap().apiserver_version().await.unwrap().git_version,
        "<version>",
    );
    let dispatcher = "exec jobferry dispatcher --install --metrics-address '' 2>dispatcher.log";
    let _dispatcher = Background::start(terminal.command(dispatcher));
    let mut misfits = terminal.play("real-clusters");
    let other = "exec jobferry dispatcher --managed-by example.com/other --metrics-address '' 2>other.log";
    let other = Background::start(terminal.command(other));
    misfits.extend(terminal.play("real-second-dispatcher"));
    drop(other);
    misfits.extend(terminal.play("real-no-permission"));
    let client = manager.client(User::Admin).await.unwrap();
    for (path, object) in stale_worker(&expired) {
        kubeio::create(&client, path, object.to_string().into_bytes(), Duration::from_secs(10)).await.unwrap();
    }
    misfits.extend(terminal.play("real-expired-token"));
    assert!(misfits.is_empty(), "{}", misfits.join("\n"));
}
