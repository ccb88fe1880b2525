//! A whole embedded cluster whose pods are processes on this machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cluster;
mod setting;

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
        trial(
            "environment_and_volumes_come_from_the_pod_and_its_objects",
            environment_and_volumes_come_from_the_pod_and_its_objects,
        ),
        trial("a_volume_is_put_together_from_several_sources", a_volume_is_put_together_from_several_sources),
        trial("init_containers_run_first_and_one_after_the_other", init_containers_run_first_and_one_after_the_other),
        trial("a_pod_that_runs_too_long_is_stopped", a_pod_that_runs_too_long_is_stopped),
        trial("a_node_that_goes_down_reports_its_pods_as_failed", a_node_that_goes_down_reports_its_pods_as_failed),
        trial("a_restarted_node_reports_its_former_pods_as_failed", a_restarted_node_reports_its_former_pods_as_failed),
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

async fn environment_and_volumes_come_from_the_pod_and_its_objects() {
    let cluster = Cluster::start();
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
        "data": {"colour": "green", "shape": "round"}});
    cluster.create("/api/v1/namespaces/default/configmaps", settings).await;
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"word": "xyzzy"}});
    cluster.create("/api/v1/namespaces/default/secrets", secret).await;
    let script = "echo $NAME $COLOUR $WORD $PREFIXED_shape $PLAIN; cat etc/settings/colour secret/word; \
                  echo hi > work/file; cat $JOBFERRY_VOLUME_SCRATCH/file";
    let spec = json!({
        "restartPolicy": "Never",
        "containers": [{
            "name": "main", "image": "none", "command": ["sh", "-c", script],
            "envFrom": [{"prefix": "PREFIXED_", "configMapRef": {"name": "settings"}}],
            "env": [
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}},
                {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "key", "key": "word"}}},
                {"name": "PLAIN", "value": "I-am-$(NAME)"},
            ],
            "volumeMounts": [
                {"name": "settings", "mountPath": "/etc/settings"}, {"name": "key", "mountPath": "/secret"},
                {"name": "scratch", "mountPath": "/work"},
            ],
        }],
        "volumes": [
            {"name": "settings", "configMap": {"name": "settings"}}, {"name": "key", "secret": {"secretName": "key"}},
            {"name": "scratch", "emptyDir": {}},
        ],
    });
    cluster.create_pod("equipped", spec).await;
    cluster.pod_in_phase("equipped", "Succeeded").await;
    cluster.wait_for_log("equipped", "equipped green xyzzy round I-am-equipped\ngreenxyzzyhi\n").await;
}

async fn a_volume_is_put_together_from_several_sources() {
    let cluster = Cluster::start();
    let settings =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "green"}});
    cluster.create("/api/v1/namespaces/default/configmaps", settings).await;
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"word": "xyzzy"}});
    cluster.create("/api/v1/namespaces/default/secrets", secret).await;
    let name = json!({"path": "name", "fieldRef": {"fieldPath": "metadata.name"}});
    let labels = json!({"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}});
    let script = "cat all/colour all/hidden/word all/name about/labels";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "equipped", "labels": {"a": "1", "b": "2"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "main", "image": "none", "command": ["sh", "-c", script],
                "volumeMounts": [{"name": "all", "mountPath": "/all"}, {"name": "about", "mountPath": "/about"}],
            }],
            "volumes": [
                {"name": "all", "projected": {"sources": [
                    {"configMap": {"name": "settings"}},
                    {"secret": {"name": "key", "items": [{"key": "word", "path": "hidden/word"}]}},
                    {"downwardAPI": {"items": [name]}},
                    {"configMap": {"name": "nowhere", "optional": true}},
                ]}},
                {"name": "about", "downwardAPI": {"items": [labels]}},
            ],
        },
    });
    cluster.create("/api/v1/namespaces/default/pods", pod).await;
    cluster.pod_in_phase("equipped", "Succeeded").await;
    cluster.wait_for_log("equipped", "greenxyzzyequippeda=\"1\"\nb=\"2\"").await;
}

async fn init_containers_run_first_and_one_after_the_other() {
    let cluster = Cluster::start();
    let note = cluster.scratch().join("note");
    let container = |name: &str, word: &str| {
        let script = format!("echo {word} >> {0}; cat {0}", note.display());
        json!({"name": name, "image": "none", "command": ["sh", "-c", script]})
    };
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [container("one", "one"), container("two", "two")], "containers": [container("main", "main")],
    });
    cluster.create_pod("in-order", spec).await;
    let pod = cluster.pod_in_phase("in-order", "Succeeded").await;
    cluster.wait_for_log("in-order", "one\ntwo\nmain\n").await;
    assert_eq!(pod["status"]["initContainerStatuses"][1]["state"]["terminated"]["reason"], "Completed", "{pod:#}");
}

async fn a_pod_that_runs_too_long_is_stopped() {
    let cluster = Cluster::start();
    let mut spec = sh("sleep 600");
    spec["activeDeadlineSeconds"] = json!(1);
    cluster.create_pod("slow", spec).await;
    let pod = cluster.pod_in_phase("slow", "Failed").await;
    assert_eq!(pod["status"]["reason"], "DeadlineExceeded", "{pod:#}");
}

async fn a_node_that_goes_down_reports_its_pods_as_failed() {
    let cluster = Cluster::start_without_node();
    let node = cluster.start_node();
    cluster.create_pod("left", sh("sleep 600")).await;
    cluster.pod_in_phase("left", "Running").await;
    node.cancel();
    cluster.pod_in_phase("left", "Failed").await;
}

async fn a_restarted_node_reports_its_former_pods_as_failed() {
    let cluster = Cluster::start_without_node();
    let mut spec = sh("echo again");
    spec["nodeName"] = json!("node-1");
    cluster.create_pod("former", spec).await;
    let pod = cluster.pod_in_phase("former", "Pending").await;
    // What a node leaves behind that was killed while it ran the pod.
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    std::fs::create_dir_all(cluster.scratch().join("pods").join(uid)).unwrap();
    cluster.start_node();
    let pod = cluster.pod_in_phase("former", "Failed").await;
    assert_eq!(pod["status"]["reason"], "NodeRestarted", "{pod:#}");
}
