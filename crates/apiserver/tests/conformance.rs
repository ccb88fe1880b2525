//! One script of requests, two servers: our answers are compared with those of a real kube-apiserver 1.35.8.
//!
//! `tests/conformance/script.http` is the script, `tests/conformance/kubernetes-1.35.8.json` the recorded answers of
//! the real server. What may differ is the table "Known differences" in docs/embedded.md, and only that. The test kit
//! has the same test with a live server, which also makes the recording: `crates/testkit/tests/full_conformance.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "conformance/difference.rs"]
mod difference;
#[path = "conformance/normal.rs"]
mod normal;
#[path = "conformance/run.rs"]
mod run;
#[path = "conformance/script.rs"]
mod script;

use jobferry_apiserver::{ApiServer, Options};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::Value;

const RECORDING: &str = include_str!("conformance/kubernetes-1.35.8.json");

#[tokio::test(start_paused = true)]
async fn our_answers_are_those_of_a_real_server() {
    let clock = || "2026-11-15T12:00:00Z".parse::<Timestamp>().unwrap();
    let server = ApiServer::new(Options::new(clock, 7));
    let ours = run::answers(&Client::new(server.service(), "default")).await;
    let real: Vec<Value> = serde_json::from_str(RECORDING).unwrap();
    run::assert_same(&real, &ours);
}
