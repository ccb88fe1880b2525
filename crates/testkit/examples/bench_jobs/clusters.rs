//! The two clusters, with the same node.

use std::collections::BTreeMap;

use jobferry_apiserver::{ApiServer, Credentials, Serving};
use jobferry_cluster::{Options, run, run_scheduler, system_clock};
use jobferry_node::Node;
use jobferry_testkit::{RealCluster, Testbed, User};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tempfile::TempDir;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// A cluster that runs Jobs.
pub(crate) struct Cluster {
    /// Over TLS, in both cases.
    pub(crate) client: Client,
    server: Server,
    tasks: JoinSet<()>,
    shutdown: CancellationToken,
    directory: TempDir,
}

enum Server {
    Embedded(Serving),
    /// Ends when it is dropped.
    Kubernetes(#[allow(dead_code, reason = "held for its end")] Box<RealCluster>),
}

impl Cluster {
    pub(crate) async fn embedded() -> Self {
        let clock = system_clock();
        let server_clock = clock.clone();
        let server = ApiServer::new(jobferry_apiserver::Options::new(move || server_clock(), 1));
        let inside = Client::new(server.service(), "default");
        let credentials = Credentials::generate().unwrap();
        let serving = server.serve(TcpListener::bind(("127.0.0.1", 0)).await.unwrap(), &credentials).unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&credentials.access(serving.address()).kubeconfig("embedded")).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let mut cluster = Self::around(Client::try_from(config).unwrap(), Server::Embedded(serving));
        cluster.start_node(inside.clone());
        cluster.tasks.spawn(run(inside, Options::new(clock, 1), cluster.shutdown.clone()));
        cluster
    }

    pub(crate) async fn kubernetes(testbed: &Testbed) -> Self {
        let real = RealCluster::start_unaudited(testbed, "jobs").await.unwrap();
        let (client, other) = (real.client(User::Admin).await.unwrap(), real.client(User::PodRunner).await.unwrap());
        let mut cluster = Self::around(client, Server::Kubernetes(Box::new(real)));
        cluster.start_node(other.clone());
        cluster.tasks.spawn(run_scheduler(other, system_clock(), cluster.shutdown.clone()));
        cluster
    }

    fn around(client: Client, server: Server) -> Self {
        let (tasks, shutdown) = (JoinSet::new(), CancellationToken::new());
        Self { client, server, tasks, shutdown, directory: TempDir::new().unwrap() }
    }

    fn start_node(&mut self, client: Client) {
        let options = jobferry_node::Options {
            name: "node-1".to_owned(),
            labels: BTreeMap::new(),
            capacity: BTreeMap::new(),
            directory: self.directory.path().to_owned(),
            program: None,
            clock: system_clock(),
        };
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move { Node::new(client, options).run(shutdown).await.unwrap() });
    }

    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
        while self.tasks.join_next().await.is_some() {}
        if let Server::Embedded(serving) = self.server {
            serving.shutdown().await;
        }
    }
}
