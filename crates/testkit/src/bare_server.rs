//! A real API server and nothing around it, to be compared with another one.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use jobferry_kubeio as kubeio;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use tokio::time::{Duration, Instant, sleep};

use crate::cluster_error::{ClusterError, doing};
use crate::credentials::{Credentials, write_private};
use crate::ports::Port;
use crate::real_cluster::READY_WITHIN;
use crate::{ProcessGroup, Testbed, User};

const NAME: &str = "bare";
/// Between two looks at a server that starts.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const PROBE_WITHIN: Duration = Duration::from_secs(2);

/// What etcd does before it acknowledges a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Writes it to disk, as etcd comes.
    Fsync,
    /// Nothing: `--unsafe-no-fsync`.
    None,
}

/// kube-apiserver and etcd alone: no controllers, no audit log, no ServiceAccount admission (which would want a
/// controller), everything allowed. Its processes and files end with it.
pub struct BareServer {
    client: kube::Client,
    api_server: Child,
    etcd: Child,
    _group: ProcessGroup,
    _ports: [Port; 3],
    _directory: tempfile::TempDir,
}

impl BareServer {
    /// Starts both and waits until they serve.
    pub async fn start(testbed: &Testbed, durability: Durability) -> Result<Self, ClusterError> {
        let directory = doing("making a scratch directory", tempfile::tempdir())?;
        let reserve = || doing("reserving a port", Port::reserve());
        let ports = [reserve()?, reserve()?, reserve()?];
        let [etcd_url, peer_url] = [&ports[0], &ports[1]].map(|port| format!("http://127.0.0.1:{}", port.number()));
        let credentials = Credentials::generate()?;
        for (file, text) in [
            ("serving.crt", &credentials.serving_certificate),
            ("serving.key", &credentials.serving_key),
            ("service-account.key", &credentials.service_account_key),
            ("service-account.pub", &credentials.service_account_public_key),
            ("tokens.csv", &credentials.token_file()),
        ] {
            doing(format!("writing {file}"), write_private(&directory.path().join(file), text))?;
        }
        let group = doing("starting the guard process", ProcessGroup::new(None))?;
        let mut command = component(testbed, directory.path(), "etcd");
        command.args(etcd(&etcd_url, &peer_url, durability));
        let etcd = doing("starting etcd", group.spawn(&mut command))?;
        let mut command = component(testbed, directory.path(), "kube-apiserver");
        command.args(api_server(&etcd_url, &ports[2]));
        let api_server = doing("starting kube-apiserver", group.spawn(&mut command))?;
        let server = format!("https://127.0.0.1:{}", ports[2].number());
        let client = client(&credentials.kubeconfig(NAME, &server, User::Admin)).await?;
        wait_until_ready(&client).await?;
        Ok(Self { client, api_server, etcd, _group: group, _ports: ports, _directory: directory })
    }

    /// A client that never repeats a request by itself.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The process of kube-apiserver.
    pub fn api_server_process(&self) -> u32 {
        self.api_server.id()
    }

    /// The process of etcd.
    pub fn etcd_process(&self) -> u32 {
        self.etcd.id()
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        for process in [&mut self.api_server, &mut self.etcd] {
            // Reaps them; the group's guard makes sure of the rest.
            let _ = process.kill().and_then(|()| process.wait());
        }
    }
}

fn component(testbed: &Testbed, directory: &Path, name: &str) -> Command {
    let mut command = Command::new(testbed.binary(name));
    command.current_dir(directory).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn etcd(client: &str, peer: &str, durability: Durability) -> Vec<String> {
    let mut options = vec![
        "--data-dir=etcd-data".into(),
        "--log-level=warn".into(),
        "--quota-backend-bytes=8589934592".into(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
    ];
    if durability == Durability::None {
        options.push("--unsafe-no-fsync".into());
    }
    options
}

fn api_server(etcd: &str, port: &Port) -> Vec<String> {
    let fixed = [
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--cert-dir=certificates",
        "--tls-cert-file=serving.crt",
        "--tls-private-key-file=serving.key",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=service-account.pub",
        "--service-account-signing-key-file=service-account.key",
        "--token-auth-file=tokens.csv",
        "--anonymous-auth=false",
        "--authorization-mode=AlwaysAllow",
        "--disable-admission-plugins=ServiceAccount",
        "--profiling=false",
    ];
    let given = [format!("--etcd-servers={etcd}"), format!("--secure-port={}", port.number())];
    fixed.map(str::to_owned).into_iter().chain(given).collect()
}

async fn client(kubeconfig: &str) -> Result<kube::Client, ClusterError> {
    let no_client =
        |reason: &dyn std::error::Error| ClusterError::Client { cluster: NAME.to_owned(), reason: reason.to_string() };
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(|error| no_client(&error))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|error| no_client(&error))?;
    config.default_retry = false;
    config.proxy_url = None;
    kube::Client::try_from(config).map_err(|error| no_client(&error))
}

async fn wait_until_ready(client: &kube::Client) -> Result<(), ClusterError> {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        let request = http::Request::get("/readyz").body(kube::client::Body::empty());
        let request =
            request.map_err(|error| ClusterError::Client { cluster: NAME.to_owned(), reason: error.to_string() })?;
        match kubeio::call(client, request, PROBE_WITHIN).await {
            Ok(_) => return Ok(()),
            Err(source) if Instant::now() > deadline => {
                return Err(ClusterError::Call { cluster: NAME.to_owned(), source });
            }
            Err(_) => sleep(LOOK_EVERY).await,
        }
    }
}
