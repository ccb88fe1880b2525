//! The server on a socket: who may come in, from where, and what large answers look like.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::io::Read as _;

use jobferry_apiserver::{Access, AccessError, ApiServer, Credentials, Options, Serving};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams, PostParams};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio::net::TcpListener;

fn server() -> ApiServer {
    ApiServer::new(Options::new(|| Timestamp::UNIX_EPOCH, 7))
}

async fn serve(server: &ApiServer) -> (Serving, Access) {
    let credentials = Credentials::generate().unwrap();
    let serving = server.serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), &credentials).unwrap();
    let access = credentials.access(serving.address());
    (serving, access)
}

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.proxy_url = None;
    Client::try_from(config).unwrap()
}

async fn namespaces(kubeconfig: &str) -> Result<usize, kube::Error> {
    let api: Api<Namespace> = Api::all(client(kubeconfig).await);
    Ok(api.list(&ListParams::default()).await?.items.len())
}

#[tokio::test]
async fn the_token_and_the_client_certificate_each_open_the_door() {
    let (_serving, access) = serve(&server()).await;
    assert_eq!(namespaces(&access.kubeconfig("by-token")).await.unwrap(), 2);
    let by_certificate = access.kubeconfig_with_certificate("by-certificate");
    assert!(!by_certificate.contains("token"));
    assert_eq!(namespaces(&by_certificate).await.unwrap(), 2);
}

#[tokio::test]
async fn a_certificate_of_another_cluster_opens_nothing() {
    let ((_serving, access), (_other, other_access)) = (serve(&server()).await, serve(&server()).await);
    let mut config: serde_json::Value = serde_json::from_str(&access.kubeconfig_with_certificate("mixed")).unwrap();
    let stranger: serde_json::Value = serde_json::from_str(&other_access.kubeconfig_with_certificate("mixed")).unwrap();
    config["users"] = stranger["users"].clone();
    assert!(namespaces(&config.to_string()).await.is_err());
    config["users"][0]["user"] = json!({});
    let refused = namespaces(&config.to_string()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 401), "{refused}");
}

#[tokio::test]
async fn nothing_but_loopback_is_served_unless_it_is_meant() {
    let credentials = Credentials::generate_for(&["cluster.example.com"]).unwrap();
    let everywhere = || TcpListener::bind("0.0.0.0:0");
    let refused = server().serve(everywhere().await.unwrap(), &credentials).unwrap_err();
    assert!(matches!(refused, AccessError::BeyondLoopback(_)));
    assert!(refused.to_string().contains("bind the embedded API server to 127.0.0.1"));
    server().serve_beyond_loopback(everywhere().await.unwrap(), &credentials).unwrap().shutdown().await;
}

#[tokio::test]
async fn large_answers_are_compressed_for_clients_that_ask() {
    let server = server();
    let (_serving, access) = serve(&server).await;
    let client = client(&access.kubeconfig("gzip")).await;
    let configs: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let config = |name: &str, size: usize| -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": name}, "data": {"text": "x".repeat(size)}})).unwrap()
    };
    configs.create(&PostParams::default(), &config("small", 100_000)).await.unwrap();
    configs.create(&PostParams::default(), &config("large", 200_000)).await.unwrap();
    for (name, accepted, compressed) in [
        ("large", "gzip", true),
        ("large", "br, gzip;q=0.5", true),
        ("large", "identity", false),
        ("small", "gzip", false),
    ] {
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        let request = http::Request::get(path).header("accept-encoding", accepted).body(Body::empty()).unwrap();
        let answer = client.send(request).await.unwrap();
        assert_eq!(answer.headers().get("content-encoding").is_some(), compressed, "{name} as {accepted}");
        let body = answer.into_body().collect_bytes().await.unwrap();
        let mut text = String::new();
        if compressed {
            assert!(body.len() < 10_000);
            flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
        } else {
            text = String::from_utf8(body.to_vec()).unwrap();
        }
        let read: ConfigMap = serde_json::from_str(&text).unwrap();
        assert_eq!(read.metadata.name.as_deref(), Some(name));
    }
}
