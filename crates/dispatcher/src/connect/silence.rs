//! A peer that takes connections and says nothing.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jobferry_kubeio as kubeio;
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::Instant};

use super::{CONNECT_TIMEOUT, reach};

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_agrees_on_tls_is_not_waited_for_as_long_as_a_request_may_take() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = rcgen::generate_simple_self_signed(["worker".to_owned()]).unwrap().cert.pem();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {
            "server": format!("https://{}", listener.local_addr().unwrap()),
            "certificate-authority-data": BASE64_STANDARD.encode(authority),
        }}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    });
    let client = reach(kubeconfig.to_string().as_bytes()).await.unwrap();
    let begun = Instant::now();
    let answer = kubeio::get::<Value>(&client, "/version", 20 * CONNECT_TIMEOUT).await;
    assert!(answer.is_err());
    assert!(begun.elapsed() < CONNECT_TIMEOUT + Duration::from_secs(1), "{:?}: {answer:?}", begun.elapsed());
}
