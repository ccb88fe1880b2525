//! Real clusters obey: they freeze, die, restart and start over, and count their clients' requests.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use jobferry_kubeio as kubeio;
use jobferry_testkit::{Component, RealCluster, Testbed, User};
use serde_json::{Value, json};

const ANSWER_WITHIN: Duration = Duration::from_secs(5);

async fn cluster(name: &str) -> RealCluster {
    let testbed = Testbed::from_environment().unwrap_or_else(|missing| panic!("{missing}"));
    RealCluster::start_scratch(&testbed, name).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn get(cluster: &RealCluster, path: &str) -> Result<Value, kubeio::CallError> {
    kubeio::get(&cluster.client(User::Admin).await.unwrap(), path, ANSWER_WITHIN).await
}

async fn create_config_map(cluster: &RealCluster, name: &str, user: User) -> Result<(), kubeio::CallError> {
    let client = cluster.client(user).await.unwrap();
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string();
    kubeio::create(&client, "/api/v1/namespaces/default/configmaps", body.into_bytes(), ANSWER_WITHIN).await.map(drop)
}

/// The UID of kube-system, by which clusters are told apart. The server creates that namespace soon after its start.
async fn identity(cluster: &RealCluster) -> String {
    for _ in 0..100 {
        if let Ok(namespace) = get(cluster, "/api/v1/namespaces/kube-system").await {
            return namespace["metadata"]["uid"].as_str().unwrap().to_owned();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("kube-system did not appear");
}

#[tokio::test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn two_clusters_run_side_by_side_and_report_their_true_version() {
    let (one, other) = tokio::join!(cluster("one"), cluster("other"));
    assert_ne!(one.server(), other.server());
    assert_ne!(identity(&one).await, identity(&other).await);
    let version = get(&one, "/version").await.unwrap();
    let binary = std::process::Command::new(one.testbed().directory().join("kube-apiserver")).arg("--version").output();
    let binary = String::from_utf8(binary.unwrap().stdout).unwrap();
    assert_eq!(format!("Kubernetes {}", version["gitVersion"].as_str().unwrap()), binary.trim());
}

#[tokio::test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn a_frozen_api_server_is_silent_and_goes_on_when_thawed() {
    let cluster = cluster("frozen").await;
    cluster.freeze(Component::ApiServer).unwrap();
    assert!(get(&cluster, "/version").await.unwrap_err().refusal().is_none(), "nobody is there to answer");
    cluster.thaw(Component::ApiServer).unwrap();
    get(&cluster, "/version").await.unwrap();
}

#[tokio::test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn objects_survive_restarts_and_kills_of_every_component() {
    let cluster = cluster("restarted").await;
    let before = identity(&cluster).await;
    create_config_map(&cluster, "kept", User::Admin).await.unwrap();
    for component in [Component::ControllerManager, Component::ApiServer, Component::Etcd] {
        cluster.restart(component).await.unwrap();
        cluster.kill(component).unwrap();
        assert!(cluster.freeze(component).unwrap_err().to_string().contains("is not running"));
        cluster.launch(component).await.unwrap();
    }
    get(&cluster, "/api/v1/namespaces/default/configmaps/kept").await.unwrap();
    assert_eq!(identity(&cluster).await, before);
}

#[tokio::test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn a_wiped_cluster_is_another_one_behind_the_same_address() {
    let cluster = cluster("wiped").await;
    let (before, server) = (identity(&cluster).await, cluster.server());
    create_config_map(&cluster, "lost", User::Admin).await.unwrap();
    cluster.wipe().await.unwrap();
    assert!(get(&cluster, "/api/v1/namespaces/default/configmaps/lost").await.unwrap_err().is_not_found());
    assert_ne!(identity(&cluster).await, before);
    assert_eq!(cluster.server(), server);
}

#[tokio::test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
async fn the_audit_log_tells_users_apart_and_knows_refusals() {
    let cluster = cluster("audited").await;
    let audit = cluster.audit();
    let mark = audit.mark().unwrap();
    create_config_map(&cluster, "a", User::Dispatcher).await.unwrap();
    create_config_map(&cluster, "b", User::Dispatcher).await.unwrap();
    let refused = create_config_map(&cluster, "c", User::Restricted).await.unwrap_err();
    assert_eq!(refused.refusal().unwrap().code, 403);

    let counts = audit.counts_since(mark).unwrap();
    let creates = |user: User| counts.get(&(user.name().to_owned(), "create".to_owned(), "configmaps".to_owned()));
    assert_eq!(creates(User::Dispatcher), Some(&2));
    let codes: Vec<u16> = audit.records_of(User::Restricted, mark).unwrap().iter().map(|record| record.code).collect();
    assert_eq!(codes, [403]);
}
