//! Every command as a user types it, with all that it prints: `tests/transcripts/*.txt`, played with the real binary.
//! `support/transcript.rs` says how such a file reads and how it is updated.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::{fs, time::Duration};

use jobferry_kubeio::{self as kubeio, Patch};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use support::{Background, eventually, old_server, transcript::Terminal};

/// A fleet on this machine answers within milliseconds, unless much else runs.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Plays these transcripts one after the other in one terminal.
fn play(terminal: &Terminal, names: &[&str]) {
    let misfits: Vec<String> = names.iter().flat_map(|name| terminal.play(name)).collect();
    assert!(misfits.is_empty(), "{}\nJOBFERRY_UPDATE=1 accepts what was printed", misfits.join("\n"));
}

/// A fleet of `jobferry up` and a terminal whose KUBECONFIG is the fleet's.
struct Fleet {
    terminal: Terminal,
    kubeconfig: String,
    _up: Background,
}

impl Fleet {
    fn start(flags: &str) -> Self {
        let mut terminal = Terminal::open();
        let mut up = Background::start(terminal.command(&format!("exec jobferry up --ephemeral {flags} 2>up.err")));
        let kubeconfig = up.until("export KUBECONFIG=").trim_start_matches("export KUBECONFIG=").to_owned();
        up.until("ready");
        terminal.expect_change(kubeconfig.trim_end_matches("/kubeconfig"), "<fleet>");
        terminal.set("KUBECONFIG", &kubeconfig);
        Self { terminal, kubeconfig, _up: up }
    }

    /// A kubeconfig like the fleet's, changed.
    fn other_kubeconfig(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut config: Value = serde_json::from_slice(&fs::read(&self.kubeconfig).unwrap()).unwrap();
        change(&mut config);
        fs::write(self.terminal.path(name), config.to_string()).unwrap();
    }

    /// The kubeconfig of one of its clusters, as a dispatcher stores it.
    fn kubeconfig_of(&self, context: &str, change: impl FnOnce(&mut Value)) -> String {
        let config: Value = serde_json::from_slice(&fs::read(&self.kubeconfig).unwrap()).unwrap();
        let of = |list: &str| config[list].as_array().unwrap().iter().filter(|entry| entry["name"] == context).cloned();
        let mut single = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": context,
            "clusters": of("clusters").collect::<Vec<_>>(), "users": of("users").collect::<Vec<_>>(),
            "contexts": of("contexts").collect::<Vec<_>>(),
        });
        change(&mut single);
        single.to_string()
    }

    /// Creates objects on its manager, as an admin with kubectl would.
    fn create(&self, objects: &[(&str, Value)]) {
        self.create_on(None, objects);
    }

    /// The same on any of its clusters.
    fn create_on(&self, context: Option<&str>, objects: &[(&str, Value)]) {
        self.with_client(context, async |client| {
            for (path, object) in objects {
                let body = object.to_string().into_bytes();
                kubeio::create(&client, path, body, ANSWER_WITHIN).await.expect(path);
            }
        });
    }

    /// Changes an object on its manager, as the controller of this name would.
    fn change_as(&self, controller: &str, path: &str, change: &Value) {
        self.with_client(None, async |client| {
            let (path, body) = (format!("{path}?fieldManager={controller}"), change.to_string().into_bytes());
            kubeio::patch(&client, &path, Patch::Merge, body, ANSWER_WITHIN).await.expect(&path);
        });
    }

    fn with_client(&self, context: Option<&str>, act: impl AsyncFnOnce(Client)) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
            let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
            act(Client::try_from(config).unwrap()).await;
        });
    }

    fn says(&self, command: &str, words: &str) -> bool {
        let output = self.terminal.command(command).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains(words)
    }
}

fn namespace(name: &str) -> (&'static str, Value) {
    ("/api/v1/namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
}

/// The kubeconfig of a cluster that does not answer.
fn nobody() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "gone",
        "clusters": [{"name": "gone", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "gone", "user": {}}],
        "contexts": [{"name": "gone", "context": {"cluster": "gone", "user": "gone"}}],
    })
}

/// A kind that the manager has and no worker, an object of it, and another kind whose rules make no sense.
fn another_kind() -> Vec<(&'static str, Value)> {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "etlruns.workloads.example.dev"},
        "spec": {
            "group": "workloads.example.dev", "scope": "Namespaced",
            "names": {"kind": "EtlRun", "listKind": "EtlRunList", "plural": "etlruns", "singular": "etlrun"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    });
    let rules = |file| serde_saphyr::from_str(file).unwrap();
    let kinds = "/apis/jobferry.dev/v1alpha1/workloadkinds";
    vec![
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition),
        (kinds, rules(include_str!("../../../examples/kind-etl-run.yaml"))),
        (kinds, rules(include_str!("transcripts/files/endless-kind.yaml"))),
        ("/apis/workloads.example.dev/v1alpha1/namespaces/lonely/etlruns", etl_run("nightly")),
    ]
}

fn etl_run(name: &str) -> Value {
    json!({
        "apiVersion": "workloads.example.dev/v1alpha1", "kind": "EtlRun", "metadata": {"name": name},
        "spec": {"control": {"managedBy": "jobferry.dev/dispatcher"}},
    })
}

/// A Worker and the Secret with its kubeconfig.
fn worker(name: &str, kubeconfig: &str) -> [(&'static str, Value); 2] {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"kubeconfig": kubeconfig}});
    let worker = json!({
        "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker", "metadata": {"name": name},
        "spec": {"kubeconfigSecret": name},
    });
    [("/api/v1/namespaces/jobferry-system/secrets", secret), ("/apis/jobferry.dev/v1alpha1/workers", worker)]
}

#[test]
fn without_a_cluster() {
    let terminal = Terminal::open();
    fs::write(terminal.path("broken.kubeconfig"), "clusters: [").unwrap();
    fs::write(terminal.path("empty.kubeconfig"), "").unwrap();
    fs::write(terminal.path("gone.kubeconfig"), nobody().to_string()).unwrap();
    fs::write(terminal.path("undecided.kubeconfig"), nobody().to_string().replace("current-context", "x")).unwrap();
    play(&terminal, &["no-cluster", "wrong-context", "tools", "kinds", "plugin"]);
}

#[test]
fn on_a_healthy_fleet() {
    let fleet = Fleet::start("--workers 2");
    fleet.create(&[namespace("lonely")]);
    fleet.other_kubeconfig("wrong.kubeconfig", |config| {
        for user in config["users"].as_array_mut().unwrap() {
            user["user"] = json!({"token": "wrong"});
        }
    });
    fleet.other_kubeconfig("manager-only.kubeconfig", |config| {
        config["contexts"].as_array_mut().unwrap().truncate(1);
    });
    let about_jobs = ["jobs", "job-troubles", "logs"];
    let about_workers = ["workers", "already-joined", "explain", "unknown-name", "forgetting", "wrong-token"];
    play(&fleet.terminal, &[&about_jobs[..], &about_workers].concat());
}

#[test]
fn on_a_fleet_with_sick_workers() {
    let fleet = Fleet::start("--workers 2");
    let unreachable = fleet.kubeconfig_of("worker-1", |config| {
        config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1".into();
    });
    let expired = fleet.kubeconfig_of("worker-1", |config| config["users"][0]["user"] = json!({"token": "stale"}));
    let twin = fleet.kubeconfig_of("worker-2", |_| {});
    fleet.create(&[worker("gone", &unreachable), worker("stale", &expired), worker("twin", &twin)].concat());
    eventually("the dispatcher has looked at every worker", || {
        !fleet.says("jobferry worker list", "Unknown") && fleet.says("jobferry worker list", "Lost")
    });
    fleet.create(&[namespace("lonely")]);
    fleet.create(&another_kind());
    let unreachable = |cluster: &mut Value| cluster["cluster"]["server"] = "https://127.0.0.1:1".into();
    fleet.other_kubeconfig("gone.kubeconfig", |config| {
        config["clusters"].as_array_mut().unwrap().iter_mut().for_each(unreachable);
    });
    fleet.other_kubeconfig("unreachable.kubeconfig", |config| unreachable(&mut config["clusters"][1]));
    play(&fleet.terminal, &["other-kinds", "sick-workers", "unreachable-worker"]);
}

#[test]
fn on_a_fleet_that_runs_another_kind() {
    let fleet = Fleet::start("--workers 1");
    let [definition, rules, ..] = &another_kind()[..] else { panic!("a definition and its rules") };
    fleet.create_on(Some("worker-1"), std::slice::from_ref(definition));
    fleet.create(&[definition.clone(), rules.clone()]);
    let runs = "/apis/workloads.example.dev/v1alpha1/namespaces/default/etlruns";
    fleet.create(&[(runs, etl_run("contested"))]);
    eventually("it is placed", || fleet.says("jobferry get -k EtlRun", "worker-1"));
    fleet.change_as("etl-operator", &format!("{runs}/contested/status"), &json!({"status": {"phase": "Running"}}));
    fleet.create(&[(runs, etl_run("nightly"))]);
    play(&fleet.terminal, &["contested", "forgetting-other-kinds"]);
}

#[test]
fn on_a_manager_that_drops_managed_by() {
    let terminal = Terminal::open();
    fs::write(terminal.path("old.kubeconfig"), old_server::start("v1.31.9")).unwrap();
    fs::write(terminal.path("new.kubeconfig"), old_server::start("v1.35.8")).unwrap();
    fs::write(terminal.path("gone.kubeconfig"), nobody().to_string()).unwrap();
    play(&terminal, &["old-server"]);
}

#[test]
fn of_the_demo() {
    play(&Terminal::open(), &["demo"]);
}

#[test]
fn of_a_fleet_itself() {
    play(&Terminal::open(), &["fleet"]);
}

#[test]
fn of_the_examples() {
    let fleet = Fleet::start("--config fleet.yaml");
    let policy = fs::read_to_string(fleet.terminal.path("policy.yaml")).unwrap();
    let policy: Value = serde_saphyr::from_str(&policy).unwrap();
    fleet.create(&[("/apis/jobferry.dev/v1alpha1/dispatchpolicies", policy)]);
    play(&fleet.terminal, &["examples"]);
}

/// An example that nobody runs is a promise that nobody keeps.
#[test]
fn every_example_is_run() {
    let examples = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples")).unwrap().flatten();
    let played = include_str!("transcripts/examples.txt");
    for example in examples.map(|file| file.file_name().into_string().unwrap()) {
        assert!(played.contains(&example), "{example}");
    }
}
