//! One script of requests, two servers: our answers are compared with those of a real kube-apiserver 1.35.8.
//!
//! `tests/conformance/script.http` is the script, `tests/conformance/kubernetes-1.35.8.json` the recorded answers of
//! the real server. What may differ is the table "Known differences" in docs/embedded.md, and only that. To record:
//!
//! ```text
//! KUBECONFIG=real.kubeconfig JOBFERRY_RECORD=1 cargo test -p jobferry-apiserver --test conformance
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "conformance/difference.rs"]
mod difference;
#[path = "conformance/normal.rs"]
mod normal;
#[path = "conformance/script.rs"]
mod script;

use jobferry_apiserver::{ApiServer, Options};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

use difference::Allowed;
use script::Step;

const SCRIPT: &str = include_str!("conformance/script.http");
const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/kubernetes-1.35.8.json");
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/embedded.md");

/// Runs the whole script and returns one normalised answer a step.
async fn answers(client: &Client, steps: &[Step]) -> Vec<Value> {
    let mut memory = normal::Memory::default();
    let mut answers = Vec::new();
    for step in steps {
        let response = client.send(step.request(&memory)).await.expect(&step.title);
        let (parts, body) = response.into_parts();
        let bytes = http_body_util::BodyExt::collect(body).await.expect(&step.title).to_bytes();
        let text = String::from_utf8_lossy(&bytes);
        let objects: Vec<Value> = match serde_json::from_str(&text) {
            Ok(object) => vec![object],
            Err(_) => text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| line.into())).collect(),
        };
        memory.capture(step, objects.first().unwrap_or(&Value::Null));
        let warnings: Vec<&str> =
            parts.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect();
        let body: Vec<Value> = objects.into_iter().map(|object| memory.normalise(object)).collect();
        let mut answer = json!({"step": step.title, "code": parts.status.as_u16(), "body": body});
        if !warnings.is_empty() {
            answer["warnings"] = warnings.into();
        }
        answers.push(answer);
    }
    answers
}

#[tokio::test(start_paused = true)]
async fn our_answers_are_those_of_a_real_server() {
    if std::env::var_os("JOBFERRY_RECORD").is_some() {
        return;
    }
    let steps = script::parse(SCRIPT);
    let clock = || "2026-11-15T12:00:00Z".parse::<Timestamp>().unwrap();
    let server = ApiServer::new(Options::new(clock, 7));
    let ours = answers(&Client::new(server.service(), "default"), &steps).await;
    let recorded: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(RECORDING).unwrap()).unwrap();
    let mut allowed = Allowed::read(&std::fs::read_to_string(DOCUMENT).unwrap());
    let mut faults = Vec::new();
    assert_eq!(ours.len(), recorded.len(), "the script changed: record it again");
    for (ours, real) in ours.iter().zip(&recorded) {
        assert_eq!(ours["step"], real["step"], "the script changed: record it again");
        let title = ours["step"].as_str().unwrap();
        for difference in difference::between(real, ours) {
            if !allowed.covers(title, &difference) {
                faults.push(format!("{title}\n    {difference}"));
            }
        }
    }
    assert!(faults.is_empty(), "{} differences:\n{}", faults.len(), faults.join("\n"));
    assert_eq!(allowed.unused(), Vec::<String>::new(), "docs/embedded.md lists differences that are none");
}

#[tokio::test]
async fn record_a_real_server() {
    if std::env::var_os("JOBFERRY_RECORD").is_none() {
        return;
    }
    let client = Client::try_default().await.expect("KUBECONFIG must lead to a fresh kube-apiserver 1.35");
    let answers = answers(&client, &script::parse(SCRIPT)).await;
    let lines: Vec<String> = answers.iter().map(Value::to_string).collect();
    std::fs::write(RECORDING, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
}
