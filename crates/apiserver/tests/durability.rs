//! What was acknowledged is there again, whenever the process was killed.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use jobferry_apiserver::{ApiServer, Options, StoreError};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

/// Set in the child process that is killed: the file it writes to.
const CHILD: &str = "JOBFERRY_DURABILITY_CHILD";
const KILLS: usize = 50;

fn open(path: &Path) -> Result<ApiServer, StoreError> {
    ApiServer::open(Options::new(|| Timestamp::UNIX_EPOCH, 7), path)
}

fn api(server: &ApiServer) -> Api<ConfigMap> {
    Api::default_namespaced(Client::new(server.service(), "default"))
}

fn config(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"value": value}})).unwrap()
}

/// Opens a file that a killed process may hold for another moment.
async fn reopen(path: &Path) -> ApiServer {
    for _ in 0..200 {
        match open(path) {
            Ok(server) => return server,
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    }
    open(path).unwrap()
}

#[tokio::test]
async fn a_cluster_is_found_again_as_it_was_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cluster.redb");
    let server = open(&path).unwrap();
    let client = Client::new(server.service(), "default");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let identity = namespaces.get("kube-system").await.unwrap().uid();
    let maps = api(&server);
    let first = maps.create(&PostParams::default(), &config("a", "1")).await.unwrap();
    maps.create(&PostParams::default(), &config("b", "1")).await.unwrap();
    maps.delete("b", &DeleteParams::default()).await.unwrap();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
        "names": {"plural": "boats", "kind": "Boat"}, "versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let post = |path: &str, body: String| http::Request::post(path).body(body.into_bytes()).unwrap();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    client.request::<serde_json::Value>(post(definitions, definition.to_string())).await.unwrap();
    let boat = json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "ada"}, "port": "Kiel"});
    client.request::<serde_json::Value>(post("/apis/example.com/v1/boats", boat.to_string())).await.unwrap();
    let version = server.resource_version();
    assert!(matches!(open(&path), Err(StoreError::Database { .. })), "one process at a time");
    drop((server, client, maps, namespaces));

    let server = reopen(&path).await;
    assert_eq!(server.resource_version(), version, "the last write was a delete, and still counts");
    let client = Client::new(server.service(), "default");
    assert_eq!(Api::<Namespace>::all(client.clone()).get("kube-system").await.unwrap().uid(), identity);
    let maps = api(&server);
    assert_eq!(maps.get("a").await.unwrap(), first);
    assert!(maps.get_opt("b").await.unwrap().is_none());
    let boat = http::Request::get("/apis/example.com/v1/boats/ada").body(Vec::new()).unwrap();
    assert_eq!(client.request::<serde_json::Value>(boat).await.unwrap()["port"], "Kiel");
    let next = maps.create(&PostParams::default(), &config("c", "1")).await.unwrap();
    assert_ne!(next.uid(), first.uid(), "a new process does not give old identities again");
    assert!(next.resource_version().unwrap().parse::<u64>().unwrap() > version);

    // History does not survive: a watch from before the restart has to list again.
    let mut stream = Box::pin(maps.watch(&WatchParams::default(), "1").await.unwrap());
    let event = futures::StreamExt::next(&mut stream).await.unwrap().unwrap();
    assert!(matches!(event, kube::api::WatchEvent::Error(status) if status.code == 410));
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
}

/// The child: writes without end and tells every acknowledged write on stdout.
#[tokio::test(flavor = "multi_thread")]
async fn child_that_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let server = reopen(Path::new(&path)).await;
    let tasks = (0..4).map(|writer| {
        let maps = api(&server);
        tokio::spawn(async move {
            for round in 0_u64.. {
                let (name, value) = (format!("w{writer}-{}", round % 5), round.to_string());
                let change = Patch::Merge(json!({"data": {"value": value}}));
                let answer = match maps.patch(&name, &PatchParams::default(), &change).await {
                    Ok(answer) => answer,
                    Err(_) => maps.create(&PostParams::default(), &config(&name, &value)).await.unwrap(),
                };
                let line = format!("ack {name} {value} {}\n", answer.resource_version().unwrap());
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            }
        })
    });
    futures::future::join_all(tasks).await;
}

/// Reads what is stored, in a runtime of its own: nothing of it holds the file open afterwards.
fn stored(path: &Path) -> (u64, Vec<ConfigMap>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let server = reopen(path).await;
        (server.resource_version(), api(&server).list(&ListParams::default()).await.unwrap().items)
    })
}

/// Runs the child until it has told of `wanted` writes, kills it, and returns the last one of each object as
/// (value, resourceVersion).
fn kill_after(wanted: usize, path: &Path) -> BTreeMap<String, (u64, u64)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_writes_until_it_is_killed", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut acknowledged = BTreeMap::new();
    let mut count = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        // The harness prints on the same stream: an acknowledgement may follow its words on one line.
        let Some((_, told)) = line.split_once("ack ") else { continue };
        let words: Vec<&str> = told.split(' ').collect();
        let [name, value, version] = words[..] else { continue };
        acknowledged.insert(name.to_owned(), (value.parse().unwrap(), version.parse().unwrap()));
        count += 1;
        if count == wanted {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(count >= wanted, "the child died by itself after {count} writes");
    acknowledged
}

#[test]
fn no_acknowledged_write_is_lost_when_the_process_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cluster.redb");
    let mut highest = 0;
    for kill in 0..KILLS {
        let acknowledged = kill_after(20 + kill * 3, &path);
        let (last_version, maps) = stored(&path);
        for (name, (value, version)) in &acknowledged {
            let found = maps.iter().find(|map| map.name_any() == *name);
            let found = found.unwrap_or_else(|| panic!("kill {kill}: {name} is lost"));
            let kept: u64 = found.data.as_ref().unwrap()["value"].parse().unwrap();
            let at: u64 = found.resource_version().unwrap().parse().unwrap();
            // A later write may have reached the disk without its answer reaching us.
            assert!(at >= *version && (at > *version || kept == *value), "kill {kill}: {name} went back");
            highest = highest.max(*version);
        }
        assert!(last_version >= highest, "kill {kill}: the version went back");
    }
}
