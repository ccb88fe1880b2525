//! The servers that are measured, each a process of its own.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use jobferry_apiserver::{ApiServer, Credentials, Options};
use jobferry_testkit::{BareServer, Durability, ProcessGroup, Testbed};
use k8s_openapi::jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// A server that is not ready by then never will be.
const READY_WITHIN: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    Embedded,
    Kubernetes,
}

/// A running server. Its processes and files go with it.
pub(crate) struct Server {
    pub(crate) maker: Maker,
    pub(crate) durability: Durability,
    pub(crate) client: Client,
    process: Process,
}

enum Process {
    Embedded { child: Child, _group: ProcessGroup, _directory: TempDir },
    Kubernetes(BareServer),
}

/// Resident memory.
pub(crate) struct Memory {
    pub(crate) api_server_mebibytes: f64,
    pub(crate) etcd_mebibytes: Option<f64>,
}

impl Server {
    /// This program as the embedded server.
    pub(crate) async fn embedded(durability: Durability) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join("kubeconfig");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("serve").arg(&kubeconfig);
        if durability == Durability::Fsync {
            command.arg(directory.path().join("store"));
        }
        let group = ProcessGroup::new(None).unwrap();
        let child = group.spawn(&mut command).unwrap();
        let deadline = Instant::now() + READY_WITHIN;
        while !kubeconfig.exists() {
            assert!(Instant::now() < deadline, "the embedded server does not start");
            sleep(LOOK_EVERY).await;
        }
        let client = client(&fs::read_to_string(&kubeconfig).unwrap()).await;
        let process = Process::Embedded { child, _group: group, _directory: directory };
        Self { maker: Maker::Embedded, durability, client, process }
    }

    /// kube-apiserver and etcd.
    pub(crate) async fn kubernetes(testbed: &Testbed, durability: Durability) -> Self {
        let server = BareServer::start(testbed, durability).await.unwrap();
        let client = server.client();
        Self { maker: Maker::Kubernetes, durability, client, process: Process::Kubernetes(server) }
    }

    pub(crate) fn memory(&self) -> Memory {
        match &self.process {
            Process::Embedded { child, .. } => {
                Memory { api_server_mebibytes: resident_mebibytes(child.id()), etcd_mebibytes: None }
            }
            Process::Kubernetes(server) => Memory {
                api_server_mebibytes: resident_mebibytes(server.api_server_process()),
                etcd_mebibytes: Some(resident_mebibytes(server.etcd_process())),
            },
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Self::Embedded { child, .. } = self {
            // Reaps it; the group makes sure of the rest.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

fn resident_mebibytes(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

/// The embedded server, until somebody kills this process.
// The one place where the real clock is read.
#[allow(clippy::disallowed_methods)]
pub(crate) async fn serve(kubeconfig: &Path, store: Option<&Path>) {
    let options = Options::new(Timestamp::now, 1);
    let server = match store {
        Some(path) => ApiServer::open(options, path).unwrap(),
        None => ApiServer::new(options),
    };
    let credentials = Credentials::generate().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let serving = server.serve(listener, &credentials).unwrap();
    // Renamed into place: whoever sees the file sees all of it.
    let unfinished = kubeconfig.with_extension("new");
    fs::write(&unfinished, credentials.access(serving.address()).kubeconfig("bench")).unwrap();
    fs::rename(&unfinished, kubeconfig).unwrap();
    std::future::pending::<()>().await;
}

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    config.proxy_url = None;
    Client::try_from(config).unwrap()
}
