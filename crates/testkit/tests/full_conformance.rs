//! The conformance script of the embedded API server against a live kube-apiserver, side by side in one run.
//!
//! `JOBFERRY_RECORD=1` also writes the real answers down, for `cargo test -p jobferry-apiserver --test conformance`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../apiserver/tests/conformance/difference.rs"]
mod difference;
#[path = "../../apiserver/tests/conformance/normal.rs"]
mod normal;
#[path = "../../apiserver/tests/conformance/run.rs"]
mod run;
#[path = "../../apiserver/tests/conformance/script.rs"]
mod script;

use jobferry_apiserver::{ApiServer, Options};
use jobferry_testkit::{BareServer, Durability, Testbed};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::Value;

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../apiserver/tests/conformance/kubernetes-1.35.8.json");

#[tokio::test]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
async fn the_embedded_server_answers_as_a_live_kube_apiserver() {
    let real = BareServer::start(&Testbed::from_environment().unwrap(), Durability::None).await.unwrap();
    let real = run::answers(&real.client()).await;
    if std::env::var_os("JOBFERRY_RECORD").is_some() {
        let lines: Vec<String> = real.iter().map(Value::to_string).collect();
        std::fs::write(RECORDING, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
    }
    let ours = ApiServer::new(Options::new(|| Timestamp::UNIX_EPOCH, 7));
    let ours = run::answers(&Client::new(ours.service(), "default")).await;
    run::assert_same(&real, &ours);
}
