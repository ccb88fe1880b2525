//! Clusters whose pods are processes on this machine.
#![allow(dead_code, reason = "each test program needs a part of it")]

use std::{collections::BTreeMap, path::Path};

use jobferry_apiserver::ApiServer;
use jobferry_cluster::{JobOptions, Options, run, run_jobs, run_scheduler, system_clock};
use jobferry_node::Node;
use kube::Client;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A node, and what stops it.
pub(crate) struct Workers {
    pub(crate) directory: TempDir,
    shutdown: CancellationToken,
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Workers {
    /// Beside a real control plane: a scheduler, a node and, for delegated Jobs, our Job controller.
    pub(crate) fn start(client: Client, managed_by: Option<&str>) -> Self {
        let workers = Self::node(client.clone());
        if let Some(controller) = managed_by {
            let options = JobOptions::delegated(controller, system_clock(), 1);
            tokio::spawn(run_jobs(client.clone(), options, workers.shutdown.clone()));
        }
        tokio::spawn(run_scheduler(client, system_clock(), workers.shutdown.clone()));
        workers
    }

    fn node(client: Client) -> Self {
        let directory = TempDir::new().unwrap();
        let shutdown = CancellationToken::new();
        let node = Node::new(client, node_options(directory.path()));
        let stop = shutdown.clone();
        tokio::spawn(async move { node.run(stop).await.unwrap() });
        Self { directory, shutdown }
    }
}

/// A whole embedded cluster.
pub(crate) struct Embedded {
    pub(crate) client: Client,
    pub(crate) directory: TempDir,
    shutdown: CancellationToken,
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Embedded {
    pub(crate) fn start() -> Self {
        Self::of_seed(1)
    }

    /// The seed decides its identity: clusters of one fleet must differ.
    pub(crate) fn of_seed(seed: u64) -> Self {
        let clock = system_clock();
        let server_clock = clock.clone();
        let server = ApiServer::new(jobferry_apiserver::Options::new(move || server_clock(), seed));
        let client = Client::new(server.service(), "default");
        let directory = TempDir::new().unwrap();
        let shutdown = CancellationToken::new();
        let node = Node::new(client.clone(), node_options(directory.path()));
        let stop = shutdown.clone();
        tokio::spawn(run(client.clone(), Options::new(clock, seed), shutdown.clone()));
        tokio::spawn(async move { node.run(stop).await.unwrap() });
        Self { client, directory, shutdown }
    }
}

/// A node with room for everything.
pub(crate) fn node_options(directory: &Path) -> jobferry_node::Options {
    jobferry_node::Options {
        name: "node-1".to_owned(),
        labels: BTreeMap::new(),
        capacity: BTreeMap::new(),
        directory: directory.to_owned(),
        program: None,
        clock: system_clock(),
    }
}
