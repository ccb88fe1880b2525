//! Runs the script against a server, and compares what two servers said.

use kube::Client;
use serde_json::{Value, json};

use crate::difference::{self, Allowed};
use crate::normal::Memory;
use crate::script::{self, Step};

const SCRIPT: &str = include_str!("script.http");
const KNOWN_DIFFERENCES: &str = include_str!("../../../../docs/embedded.md");

/// Runs the whole script and returns one normalised answer a step.
pub(crate) async fn answers(client: &Client) -> Vec<Value> {
    let mut memory = Memory::default();
    let mut answers = Vec::new();
    for step in script::parse(SCRIPT) {
        answers.push(answer(client, &step, &mut memory).await);
    }
    answers
}

async fn answer(client: &Client, step: &Step, memory: &mut Memory) -> Value {
    let response = client.send(step.request(memory)).await.expect(&step.title);
    let (parts, body) = response.into_parts();
    let bytes = body.collect_bytes().await.expect(&step.title);
    let text = String::from_utf8_lossy(&bytes);
    let objects: Vec<Value> = match serde_json::from_str(&text) {
        Ok(object) => vec![object],
        Err(_) => text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| line.into())).collect(),
    };
    memory.capture(step, objects.first().unwrap_or(&Value::Null));
    let warnings: Vec<&str> = parts.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect();
    let body: Vec<Value> = objects.into_iter().map(|object| memory.normalise(object)).collect();
    let mut answer = json!({"step": step.title, "code": parts.status.as_u16(), "body": body});
    if !warnings.is_empty() {
        answer["warnings"] = warnings.into();
    }
    answer
}

/// Fails on any difference that docs/embedded.md does not explain, and on explanations of differences that are none.
pub(crate) fn assert_same(real: &[Value], ours: &[Value]) {
    let mut allowed = Allowed::read(KNOWN_DIFFERENCES);
    let mut faults = Vec::new();
    assert_eq!(ours.len(), real.len(), "the script changed: record it again");
    for (ours, real) in ours.iter().zip(real) {
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
