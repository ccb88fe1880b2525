//! A manager and a worker that is joined by the real binary; a dispatcher whose clock the test sets.
#![allow(dead_code, reason = "each test target uses a part of it")]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, prelude::BASE64_STANDARD, prelude::BASE64_URL_SAFE_NO_PAD};
use jobferry_api::SYSTEM_NAMESPACE;
use jobferry_dispatcher::{KubeconfigSecrets, Options, Vitals};
use jobferry_testkit::{AuditMark, AuditRecord, RealCluster, RealFleet, User};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::support::{eventually, jobferry, kubectl, succeed};

/// The name of the one worker.
pub(crate) const WORKER: &str = "eu-1";

/// Two real clusters.
pub(crate) struct Pair {
    fleet: RealFleet,
    directory: tempfile::TempDir,
}

impl Pair {
    pub(crate) async fn start() -> Self {
        let fleet = RealFleet::start(&["manager", WORKER]).await.unwrap();
        Self { fleet, directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn manager(&self) -> &RealCluster {
        self.fleet.manager()
    }

    pub(crate) fn worker(&self) -> &RealCluster {
        &self.fleet.workers()[0]
    }

    /// kubectl on the manager, as its administrator.
    pub(crate) fn on_manager(&self, arguments: &[&str]) -> String {
        succeed(kubectl(&self.manager().kubeconfig_path(User::Admin), arguments))
    }

    /// kubectl on the worker, as its administrator.
    pub(crate) fn on_worker(&self, arguments: &[&str]) -> String {
        succeed(kubectl(&self.worker().kubeconfig_path(User::Admin), arguments))
    }

    /// `jobferry COMMAND --kubeconfig MANAGER`.
    pub(crate) fn jobferry(&self, command: &[&str]) -> std::process::Command {
        let manager = self.manager().kubeconfig_path(User::Admin);
        jobferry(&[command, &["--kubeconfig", manager.to_str().unwrap()]].concat())
    }

    /// `jobferry worker COMMAND NAME` with an administrator's kubeconfig of the worker.
    pub(crate) fn with_worker(&self, command: &[&str]) -> std::process::Command {
        let worker = self.worker().kubeconfig_path(User::Admin);
        self.jobferry(&[&["worker"], command, &["--worker-kubeconfig", worker.to_str().unwrap()]].concat())
    }

    /// The name of what join made on the worker.
    pub(crate) fn account(&self) -> String {
        let selector = ["-l", "app.kubernetes.io/managed-by=jobferry", "-o", "jsonpath={.items[0].metadata.name}"];
        self.on_worker(&[&["get", "serviceaccounts", "-n", SYSTEM_NAMESPACE], &selector[..]].concat())
    }

    /// The kubeconfig that the dispatcher uses for the worker.
    pub(crate) fn stored_kubeconfig(&self) -> Value {
        let path = "jsonpath={.data.kubeconfig}";
        let stored = self.on_manager(&["get", "secret", WORKER, "-n", SYSTEM_NAMESPACE, "-o", path]);
        serde_saphyr::from_str(std::str::from_utf8(&BASE64_STANDARD.decode(stored).unwrap()).unwrap()).unwrap()
    }

    pub(crate) fn stored_token(&self) -> String {
        self.stored_kubeconfig()["users"][0]["user"]["token"].as_str().unwrap().to_owned()
    }

    /// A kubeconfig of the manager for the dispatcher's own ServiceAccount, by a token as `kubectl create token` makes it.
    pub(crate) fn dispatchers_kubeconfig(&self) -> PathBuf {
        let token = self.on_manager(&["create", "token", "jobferry-dispatcher", "-n", SYSTEM_NAMESPACE]);
        let kubeconfig = self.manager().kubeconfig(User::Admin);
        let line = |line: &str| match line.split_once("token:") {
            Some((indent, _)) => format!("{indent}token: {}\n", token.trim()),
            None => format!("{line}\n"),
        };
        self.write("dispatcher", &kubeconfig.lines().map(line).collect::<String>())
    }

    /// A file with a kubeconfig.
    pub(crate) fn write(&self, name: &str, kubeconfig: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, kubeconfig).unwrap();
        path
    }

    /// What the dispatcher asked the worker for since then.
    pub(crate) fn asked_of_worker(&self, since: AuditMark) -> Vec<AuditRecord> {
        let records = self.worker().audit().records_since(since).unwrap();
        let prefix = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:jobferry-");
        records.into_iter().filter(|record| record.user.starts_with(&prefix)).collect()
    }

    /// A field of the Worker's status.
    pub(crate) fn worker_status(&self, path: &str) -> String {
        self.on_manager(&["get", "worker", WORKER, "-o", &format!("jsonpath={{.status.{path}}}")])
    }

    pub(crate) fn until_connected(&self) {
        let connected = r#"conditions[?(@.type=="Connected")].status"#;
        eventually("a connected worker", || self.worker_status(connected) == "True");
    }

    /// The message of `Accepted`, once the dispatcher refuses the worker.
    pub(crate) fn until_refused(&self) -> String {
        let refused = |field: &str| self.worker_status(&format!(r#"conditions[?(@.type=="Accepted")].{field}"#));
        eventually("a refused worker", || refused("status") == "False");
        refused("message")
    }
}

/// What a token says of itself.
pub(crate) fn claims(token: &str) -> Value {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice(&claims).unwrap()
}

/// A client by the kubeconfig in a file.
pub(crate) async fn client(path: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// A dispatcher in this process whose clock is ahead of the world's.
pub(crate) struct Ahead {
    pub(crate) vitals: Arc<Vitals>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Ahead {
    pub(crate) fn start(manager: Client, by: SignedDuration) -> Self {
        let (stop, vitals) = (CancellationToken::new(), Arc::<Vitals>::default());
        let secrets = KubeconfigSecrets::new(manager.clone(), SYSTEM_NAMESPACE);
        #[allow(clippy::disallowed_methods, reason = "real clusters live by the real clock")]
        let clock = move || Timestamp::now().checked_add(by).unwrap();
        let options = Options {
            canary: Some(SYSTEM_NAMESPACE.into()),
            kinds: jobferry_core::kind::Table::built_in().ok(),
            lease: Some(jobferry_dispatcher::Lease {
                namespace: SYSTEM_NAMESPACE.into(),
                name: jobferry_api::DISPATCHER_LEASE.into(),
                identity: format!("ahead by {by}"),
            }),
            vitals: Arc::clone(&vitals),
            ..Options::new(Arc::new(secrets), Arc::new(clock), 1)
        };
        let stopped = stop.clone();
        let task = tokio::spawn(async move { jobferry_dispatcher::run(manager, options, stopped).await.unwrap() });
        Self { vitals, stop, task }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}
