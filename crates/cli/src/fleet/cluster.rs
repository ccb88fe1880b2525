//! One embedded cluster: an API server, the controllers that make it a cluster, and a node that runs pods as processes.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, Hasher, RandomState},
    path::Path,
    sync::Arc,
};

use jobferry_apiserver::{Access, ApiServer, Credentials, Serving};
use jobferry_cluster::JobOptions;
use jobferry_node::Node;
use kube::Client;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::logs::NodeLogs;
use crate::dispatcher::wall_clock;

/// A running cluster.
pub(crate) struct Cluster {
    pub(crate) name: String,
    /// Without a socket in between.
    pub(crate) client: Client,
    access: Access,
    serving: Serving,
}

impl Cluster {
    /// Starts it; its tasks end with `stop`.
    pub(crate) async fn start(
        name: &str,
        jobs: JobOptions,
        directory: &Path,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> anyhow::Result<Self> {
        let server = ApiServer::new(jobferry_apiserver::Options::new(wall_clock, random_seed()));
        let client = Client::new(server.service(), "default");
        let credentials = Credentials::generate()?;
        let serving = server.serve(TcpListener::bind(("127.0.0.1", 0)).await?, &credentials)?;
        let access = credentials.access(serving.address());
        let clock = jobferry_cluster::system_clock();
        let node = Node::new(
            client.clone(),
            jobferry_node::Options {
                name: format!("{name}-node"),
                labels: BTreeMap::new(),
                capacity: BTreeMap::new(),
                directory: directory.join("node"),
                program: None,
                clock: Arc::clone(&clock),
            },
        );
        server.set_pod_logs(Arc::new(NodeLogs(node.logs())));
        let stopped = stop.clone();
        let cluster = name.to_owned();
        tasks.spawn(async move {
            if let Err(error) = node.run(stopped).await {
                tracing::error!(cluster, %error, "the node does not run");
            }
        });
        let options = jobferry_cluster::Options { jobs, ..jobferry_cluster::Options::new(clock, random_seed()) };
        tasks.spawn(jobferry_cluster::run(client.clone(), options, stop.clone()));
        Ok(Self { name: name.to_owned(), client, access, serving })
    }

    /// How to reach it over TLS.
    pub(crate) fn kubeconfig(&self) -> String {
        self.access.kubeconfig(&self.name)
    }

    pub(crate) async fn shutdown(self) {
        self.serving.shutdown().await;
    }
}

/// Randomness from the operating system, by way of the seeds that the standard library gives its hash maps.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
