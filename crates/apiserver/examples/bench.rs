//! Measures this server, and beside it any other that a kubeconfig leads to:
//! `cargo run --release -p jobferry-apiserver --example bench -- 10000 [KUBECONFIG]`.
//!
//! Rows: without a socket, over loopback TLS in memory, over loopback TLS with a durable store, the other server.

// A benchmark prints and may stop at the first surprise.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::future::Future;

use futures::{StreamExt as _, stream};
use jobferry_apiserver::{ApiServer, Credentials, Options};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::Instant;

/// Requests under way at once.
const IN_FLIGHT: usize = 32;
const WATCHERS: usize = 100;
/// Changes sent to all watchers.
const FANNED_OUT: usize = 200;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().map_or(10_000, |text| text.parse().unwrap());
    println!(
        "{:<28}{:>12}{:>14}{:>12}{:>12}{:>16}",
        "", "creates/s", "statuses/s", "gets/s", "list ms", "watch events/s"
    );
    row("in process", Client::new(server().service(), "default"), count).await;
    row("loopback TLS, memory", served(&server()).await, count).await;
    let dir = tempfile::tempdir().unwrap();
    let durable = ApiServer::open(options(), &dir.path().join("bench.redb")).unwrap();
    row("loopback TLS, durable", served(&durable).await, count).await;
    if let Some(path) = arguments.next() {
        let config = Kubeconfig::read_from(path).unwrap();
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        row("the other server", Client::try_from(config).unwrap(), count).await;
    }
}

// The one place where the real clock is read.
#[allow(clippy::disallowed_methods)]
fn options() -> Options {
    Options::new(Timestamp::now, 1)
}

fn server() -> ApiServer {
    ApiServer::new(options())
}

/// A client over a socket. The server runs until the process ends.
async fn served(server: &ApiServer) -> Client {
    let credentials = Credentials::generate().unwrap();
    let serving = server.serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), &credentials).unwrap();
    let config = Kubeconfig::from_yaml(&credentials.access(serving.address()).kubeconfig("bench")).unwrap();
    std::mem::forget(serving);
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn job(number: usize) -> Job {
    serde_json::from_value(json!({"metadata": {"name": format!("job-{number}")}, "spec": {
        "managedBy": "example.com/nobody", "template": {"spec": {"restartPolicy": "Never", "containers": [{
            "name": "main", "image": "app:1", "command": ["run", "--fast"], "env": [{"name": "A", "value": "1"}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}}}}))
    .unwrap()
}

/// Does `work` for each number and returns how many a second.
async fn rate<F: Future<Output = ()>>(count: usize, work: impl Fn(usize) -> F) -> f64 {
    let started = Instant::now();
    stream::iter(0..count).for_each_concurrent(IN_FLIGHT, work).await;
    f64::from(u32::try_from(count).unwrap()) / started.elapsed().as_secs_f64()
}

async fn row(title: &str, client: Client, count: usize) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let bench: Namespace = serde_json::from_value(json!({"metadata": {"name": "bench"}})).unwrap();
    namespaces.create(&PostParams::default(), &bench).await.unwrap();
    let jobs: &Api<Job> = &Api::namespaced(client, "bench");
    let creates =
        rate(count, async |number| drop(jobs.create(&PostParams::default(), &job(number)).await.unwrap())).await;
    let status = Patch::Merge(json!({"status": {"active": 1, "startTime": "2026-01-01T00:00:00Z"}}));
    let statuses = rate(count, async |number| {
        jobs.patch_status(&format!("job-{number}"), &PatchParams::default(), &status).await.unwrap();
    })
    .await;
    let gets = rate(count, async |number| drop(jobs.get(&format!("job-{number}")).await.unwrap())).await;
    let started = Instant::now();
    assert_eq!(jobs.list(&ListParams::default()).await.unwrap().items.len(), count);
    let list = started.elapsed().as_secs_f64() * 1000.0;
    let events = fan_out(jobs).await;
    println!("{title:<28}{creates:>12.0}{statuses:>14.0}{gets:>12.0}{list:>12.0}{events:>16.0}");
    jobs.delete_collection(&DeleteParams::background(), &ListParams::default()).await.unwrap();
}

/// Events a second that reach all watchers together.
async fn fan_out(jobs: &Api<Job>) -> f64 {
    let from = jobs.list(&ListParams::default().limit(1)).await.unwrap().metadata.resource_version.unwrap();
    let watchers = (0..WATCHERS).map(|_| {
        let (jobs, from) = (jobs.clone(), from.clone());
        tokio::spawn(async move {
            let stream = jobs.watch(&WatchParams::default().disable_bookmarks(), &from).await.unwrap();
            stream.take(FANNED_OUT).count().await
        })
    });
    let watchers: Vec<_> = watchers.collect();
    let started = Instant::now();
    for number in 0..FANNED_OUT {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"round": number.to_string()}}}));
        jobs.patch("job-0", &PatchParams::default(), &patch).await.unwrap();
    }
    for watcher in watchers {
        assert_eq!(watcher.await.unwrap(), FANNED_OUT);
    }
    let events = u32::try_from(WATCHERS * FANNED_OUT).unwrap();
    f64::from(events) / started.elapsed().as_secs_f64()
}
