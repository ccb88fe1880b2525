//! What is asked of every server. Requests are bytes made beforehand and answers are read and thrown away, so that the
//! client takes as little as possible of the machine that it shares with the server.

use std::future::Future;
use std::ops::Range;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, future, stream};
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

/// Requests under way at once.
const IN_FLIGHT: usize = 32;
const WATCHERS: usize = 100;
/// Changes that all watchers are told of.
const CHANGES: usize = 200;
/// No answer takes this long, unless something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

const NAMESPACE: &str = "bench";
const JOBS: &str = "/apis/batch/v1/namespaces/bench/jobs";

/// One server under load.
#[derive(Clone)]
pub(crate) struct Load {
    client: Client,
}

impl Load {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    pub(crate) async fn prepare(&self) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.send("POST", "/api/v1/namespaces", "application/json", &namespace, StatusCode::CREATED).await;
    }

    pub(crate) async fn creates_per_second(&self, numbers: Range<usize>) -> f64 {
        rate(numbers, async |number| {
            self.send("POST", JOBS, "application/json", &job(number), StatusCode::CREATED).await;
        })
        .await
    }

    /// In the form in which our own controllers write a status.
    pub(crate) async fn status_updates_per_second(&self, numbers: Range<usize>) -> f64 {
        let status = json!({"status": {"active": 1, "ready": 0, "startTime": "2026-01-01T00:00:00Z"}});
        rate(numbers, async |number| {
            let path = format!("{JOBS}/job-{number}/status");
            self.send("PATCH", &path, "application/strategic-merge-patch+json", &status, StatusCode::OK).await;
        })
        .await
    }

    pub(crate) async fn gets_per_second(&self, numbers: Range<usize>) -> f64 {
        rate(numbers, async |number| drop(self.get(&format!("{JOBS}/job-{number}")).await)).await
    }

    /// How long one list of all Jobs takes.
    pub(crate) async fn list_milliseconds(&self, expected: usize) -> f64 {
        let started = Instant::now();
        let body = self.get(JOBS).await;
        let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
        let list: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(list["items"].as_array().map(Vec::len), Some(expected));
        milliseconds
    }

    /// Events that arrive a second at all watchers together, while Jobs change as fast as the server lets them.
    pub(crate) async fn watch_events_per_second(&self) -> f64 {
        let list: Value = serde_json::from_slice(&self.get(&format!("{JOBS}?limit=1")).await).unwrap();
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        let path = format!("{JOBS}?watch=1&resourceVersion={version}");
        let watches = future::join_all((0..WATCHERS).map(|_| self.watch(&path))).await;
        let started = Instant::now();
        let follow = |watch: Body| {
            let (load, path) = (self.clone(), path.clone());
            tokio::spawn(timeout(PATIENCE, async move { load.follow(&path, watch).await }))
        };
        let readers: Vec<_> = watches.into_iter().map(follow).collect();
        // Never the same twice, or there would be no change.
        let mark = json!({"metadata": {"annotations": {"example.com/seen": version}}});
        rate(0..CHANGES, async |number| {
            let path = format!("{JOBS}/job-{number}");
            self.send("PATCH", &path, "application/merge-patch+json", &mark, StatusCode::OK).await;
        })
        .await;
        for reader in readers {
            reader.await.unwrap().expect("every watcher is told of every change in time");
        }
        per_second(WATCHERS * CHANGES, started)
    }

    /// Reads until all changes have come. kube-apiserver ends the watches of slow readers on a busy machine; like any
    /// client, ours begins again then.
    async fn follow(&self, path: &str, mut watch: Body) {
        while !has_all(watch).await {
            watch = self.watch(path).await;
        }
    }

    async fn watch(&self, path: &str) -> Body {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = timeout(PATIENCE, self.client.send(request)).await.unwrap().unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        answer.into_body()
    }

    async fn get(&self, path: &str) -> Vec<u8> {
        self.answer(Request::get(path).body(Body::empty()).unwrap(), StatusCode::OK).await
    }

    async fn send(&self, method: &str, path: &str, media: &str, body: &Value, expected: StatusCode) {
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, media);
        self.answer(request.body(body.to_string().into_bytes().into()).unwrap(), expected).await;
    }

    async fn answer(&self, request: Request<Body>, expected: StatusCode) -> Vec<u8> {
        let read = async {
            let answer = self.client.send(request).await.unwrap();
            let (status, body) = (answer.status(), answer.into_body().collect().await.unwrap().to_bytes());
            assert_eq!(status, expected, "{}", String::from_utf8_lossy(&body));
            body.into()
        };
        timeout(PATIENCE, read).await.unwrap()
    }
}

/// Reads watch events, one a line. `false`: the watch ended before all changes had come.
async fn has_all(watch: Body) -> bool {
    let mut left = CHANGES;
    let mut frames = watch.into_data_stream();
    while left > 0 {
        let Ok(Some(frame)) = frames.try_next().await else { return false };
        left = left.saturating_sub(frame.split(|byte| *byte == b'\n').count() - 1);
    }
    true
}

async fn rate<F: Future<Output = ()>>(numbers: Range<usize>, work: impl Fn(usize) -> F) -> f64 {
    let (count, started) = (numbers.len(), Instant::now());
    stream::iter(numbers).for_each_concurrent(IN_FLIGHT, work).await;
    per_second(count, started)
}

fn per_second(count: usize, started: Instant) -> f64 {
    f64::from(u32::try_from(count).unwrap()) / started.elapsed().as_secs_f64()
}

fn job(number: usize) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": format!("job-{number}")}, "spec": {
        "managedBy": "example.com/nobody", "template": {"spec": {"restartPolicy": "Never", "containers": [{
            "name": "main", "image": "app:1", "command": ["run", "--fast"], "env": [{"name": "A", "value": "1"}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}}}})
}
