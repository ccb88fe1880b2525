//! A test of the whole server: what a real kube-apiserver was asked about Jobs is asked here again, request by request,
//! and has to be answered the same way. The recordings are those of `job-api`, which puts them to its functions; here
//! they go through bodies, schemas, strategies and store as well.

use std::fs::File;
use std::io::{BufRead as _, BufReader};

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::schema::normalise;
use crate::store::{Kept, encode, key_of};
use crate::{ApiServer, Options};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../job-api/tests/recordings/1.35.8/manifests.jsonl.gz");
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// Every line of the recording stands for itself. `job-api` goes through all of them; the way through the server takes
/// longer, so that here every third is asked.
const EVERY: usize = 3;

/// Puts a Job where it would be had it been written long ago.
fn store(server: &ApiServer, job: &Value) {
    let inner = &server.0;
    let jobs = inner.registry.find("batch", "v1", "jobs").unwrap();
    let mut object = job.clone();
    normalise(&jobs.schema, &mut object).unwrap();
    let version = inner.store.version();
    object["metadata"]["resourceVersion"] = version.to_string().into();
    let (key, json) = (key_of(&object), encode(&object));
    let kept = Kept { table: jobs.table.clone(), key, version, object, json };
    inner.store.restore(&jobs.table, kept, Vec::new());
}

async fn ask(server: &ApiServer, line: &Value) -> (u16, Value) {
    let name = line["new"]["metadata"]["name"].as_str().unwrap_or_default();
    let (method, path) = match line["op"].as_str().unwrap() {
        "create" => (Method::POST, JOBS.to_owned()),
        "update" => (Method::PUT, format!("{JOBS}/{name}")),
        _ => (Method::PUT, format!("{JOBS}/{name}/status")),
    };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let answer = server.answer(request.body(Full::<Bytes>::from(line["new"].to_string())).unwrap()).await;
    let code = answer.status().as_u16();
    let body: Bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap())
}

/// Kind and field of each error. Labels and resources are maps, over which a real server walks in random order.
fn causes(status: &Value) -> Vec<String> {
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let kind = |cause: &Value| cause["reason"].as_str().unwrap().trim_start_matches("FieldValue").to_owned();
    sorted(causes.map(|cause| json!([kind(cause), cause["field"]])))
}

fn sorted(errors: impl Iterator<Item = Value>) -> Vec<String> {
    let mut errors: Vec<String> = errors.map(|error| error.to_string()).collect();
    errors.sort();
    errors
}

/// Our object with the identity that the real server gave, and without what the recording leaves out.
fn comparable(ours: &Value, theirs: &Value) -> Value {
    let mut text = ours.to_string();
    for field in ["uid", "name"] {
        let [ours, theirs] = [ours, theirs].map(|object| object["metadata"][field].as_str().unwrap_or_default());
        text = text.replace(ours, theirs);
    }
    let mut object: Value = serde_json::from_str(&text).unwrap();
    for noise in ["resourceVersion", "creationTimestamp", "managedFields"] {
        object["metadata"].as_object_mut().unwrap().remove(noise);
    }
    object
}

async fn disagreement(server: &ApiServer, line: &Value) -> Option<String> {
    if line["op"] != "create" {
        store(server, &line["old"]);
    }
    let (code, body) = ask(server, line).await;
    if line["stored"].is_null() {
        let theirs = sorted(line["errors"].as_array().into_iter().flatten().cloned());
        let ours = causes(&body);
        return (code != 422 || ours != theirs).then(|| format!("{code} {ours:?}\ntheirs {theirs:?}\nanswer {body}"));
    }
    let expected = if line["op"] == "create" { 201 } else { 200 };
    if code != expected {
        return Some(format!("{code} {body}\ntheirs {expected}"));
    }
    let ours = comparable(&body, &line["stored"]);
    (ours != line["stored"]).then(|| format!("{ours}\ntheirs {}", line["stored"]))
}

#[tokio::test(start_paused = true)]
async fn recorded_creates_and_updates_are_answered_as_by_a_real_server() {
    let server = ApiServer::new(Options::new(|| "2026-11-15T12:00:00Z".parse::<Timestamp>().unwrap(), 7));
    let lines = BufReader::new(GzDecoder::new(File::open(RECORDING).unwrap())).lines();
    let (mut asked, mut differ) = (0, Vec::new());
    for line in lines.step_by(EVERY) {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        asked += 1;
        if let Some(story) = disagreement(&server, &line).await {
            differ.push(format!("{}\nours   {story}", line["op"]));
        }
    }
    assert!(asked > 2000, "{asked}");
    let shown: Vec<&str> = differ.iter().take(5).map(String::as_str).collect();
    assert!(differ.is_empty(), "{} of {asked} differ:\n{}", differ.len(), shown.join("\n\n"));
}
