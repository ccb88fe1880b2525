//! A whole embedded cluster whose pods are processes on this machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cluster;

use cluster::Cluster;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::json;

fn main() {
    if jobferry_node::enter_if_asked() {
        return;
    }
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, victim, file] = arguments.as_slice()
        && victim == cluster::VICTIM
    {
        tokio::runtime::Runtime::new().unwrap().block_on(cluster::be_the_victim(file.into()));
    }
    let tests = vec![
        trial("a_job_really_does_its_work", a_job_really_does_its_work),
        trial("every_index_of_a_job_knows_its_number", every_index_of_a_job_knows_its_number),
        trial("a_container_without_a_command_says_what_is_missing", a_container_without_a_command_says_what_is_missing),
        trial("a_deleted_pod_gets_a_term_signal_and_time_to_react", a_deleted_pod_gets_a_term_signal_and_time_to_react),
        trial("a_suspended_job_stops_its_processes", a_suspended_job_stops_its_processes),
        trial("containers_die_with_a_killed_node", cluster::containers_die_with_a_killed_node),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

fn trial<F: Future<Output = ()> + 'static>(name: &str, test: fn() -> F) -> Trial {
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.map_err(Failed::from)?.block_on(test());
        Ok(())
    })
}

fn sh(script: &str) -> serde_json::Value {
    json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", script]}]})
}

async fn a_job_really_does_its_work() {
    let cluster = Cluster::start();
    cluster.create_job("sum", json!({"template": {"spec": sh("echo $((20 + 22))")}})).await;
    let job = cluster.finished("sum").await;
    assert_eq!(cluster::ending(&job), ("Complete", 1, 0), "{job:#}");
    assert_eq!(cluster.log_of_first_pod("sum").await, "42\n");
}

async fn every_index_of_a_job_knows_its_number() {
    let cluster = Cluster::start();
    let script = "test $JOB_COMPLETION_INDEX != 2 && echo index $JOB_COMPLETION_INDEX on $HOSTNAME";
    let spec = json!({
        "completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimitPerIndex": 0,
        "template": {"spec": sh(script)},
    });
    cluster.create_job("squares", spec).await;
    let job = cluster.finished("squares").await;
    assert_eq!(cluster::ending(&job), ("Failed", 3, 1), "{job:#}");
    assert_eq!((&job["status"]["completedIndexes"], &job["status"]["failedIndexes"]), (&json!("0,1,3"), &json!("2")));
    let mut logs = cluster.logs("squares").await;
    logs.sort();
    assert_eq!(logs, ["", "index 0 on squares-0\n", "index 1 on squares-1\n", "index 3 on squares-3\n"]);
}

async fn a_container_without_a_command_says_what_is_missing() {
    let cluster = Cluster::start();
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]});
    cluster.create_job("bare", json!({"backoffLimit": 0, "template": {"spec": pod}})).await;
    let job = cluster.finished("bare").await;
    assert_eq!(cluster::ending(&job), ("Failed", 0, 1), "{job:#}");
    let pod = cluster.pods("bare").await.remove(0);
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(128), &json!("StartError")), "{pod:#}");
    assert!(ended["message"].as_str().unwrap().contains("set `command`"), "{ended}");
}

async fn a_deleted_pod_gets_a_term_signal_and_time_to_react() {
    let cluster = Cluster::start();
    let farewell = cluster.scratch().join("farewell");
    let script =
        format!("trap 'echo bye > {}; exit 3' TERM; echo ready; while true; do sleep 0.05; done", farewell.display());
    cluster.create_pod("loop", sh(&script)).await;
    cluster.wait_for_log("loop", "ready\n").await;
    cluster.delete_pod("loop").await;
    cluster.gone("/api/v1/namespaces/default/pods/loop").await;
    assert_eq!(std::fs::read_to_string(farewell).unwrap(), "bye\n");
}

async fn a_suspended_job_stops_its_processes() {
    let cluster = Cluster::start();
    // A double dollar sign stands for one, as everywhere in Kubernetes.
    let alive = cluster.scratch().join("alive");
    let script = format!("echo $$$$ > {}; exec sleep 600", alive.display());
    cluster.create_job("long", json!({"template": {"spec": sh(&script)}})).await;
    let process =
        cluster::eventually(|| std::fs::read_to_string(&alive).ok().filter(|text| text.ends_with('\n'))).await;
    let process = format!("/proc/{}", process.trim());
    assert!(std::path::Path::new(&process).exists());
    cluster.edit_job("long", &json!({"spec": {"suspend": true}})).await;
    cluster::eventually(|| (!std::path::Path::new(&process).exists()).then_some(())).await;
    let job = cluster.job_with_condition("long", "Suspended").await;
    assert_eq!((&job["status"]["active"], &job["status"]["failed"]), (&json!(null), &json!(null)), "{job:#}");
}
