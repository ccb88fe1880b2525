//! One embedded cluster: an API server, the controllers that make it a cluster, and a node that runs pods as processes.

use std::{
    collections::BTreeMap,
    fs,
    hash::{BuildHasher, Hasher, RandomState},
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use jobferry_apiserver::{Access, ApiServer, Credentials, Serving};
use jobferry_cluster::JobOptions;
use jobferry_node::Node;
use kube::Client;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{home::write_privately, logs::NodeLogs};
use crate::dispatcher::wall_clock;

/// What a cluster is to be.
pub(crate) struct ClusterPlan {
    pub(crate) name: String,
    pub(crate) jobs: JobOptions,
    pub(crate) capacity: BTreeMap<String, String>,
    /// Files and logs of its pods; with `durable` also everything else.
    pub(crate) directory: PathBuf,
    pub(crate) durable: bool,
}

/// A running cluster.
pub(crate) struct Cluster {
    pub(crate) name: String,
    /// Without a socket in between.
    pub(crate) client: Client,
    server: ApiServer,
    credentials: Credentials,
    access: Access,
    port: u16,
    /// `None` while it is cut off.
    serving: Option<Serving>,
}

/// How a cluster is reached, kept over restarts so that kubeconfigs stay good.
#[derive(Serialize, Deserialize)]
struct StoredAccess {
    port: u16,
    credentials: Credentials,
}

impl Cluster {
    /// Starts it; its tasks end with `stop`.
    pub(crate) async fn start(
        plan: ClusterPlan,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(&plan.directory).with_context(|| plan.directory.display().to_string())?;
        let options = jobferry_apiserver::Options::new(wall_clock, random_seed());
        let server = if plan.durable {
            ApiServer::open(options, &plan.directory.join("store.redb"))?
        } else {
            ApiServer::new(options)
        };
        let client = Client::new(server.service(), "default");
        let (listener, credentials) = listen(&plan).await?;
        let port = listener.local_addr()?.port();
        let serving = server.serve(listener, &credentials)?;
        let access = credentials.access(serving.address());
        let clock = jobferry_cluster::system_clock();
        let node = Node::new(
            client.clone(),
            jobferry_node::Options {
                name: format!("{}-node", plan.name),
                labels: BTreeMap::new(),
                capacity: plan.capacity,
                directory: plan.directory.join("node"),
                program: None,
                clock: Arc::clone(&clock),
            },
        );
        server.set_pod_logs(Arc::new(NodeLogs(node.logs())));
        let stopped = stop.clone();
        let cluster = plan.name.clone();
        tasks.spawn(async move {
            if let Err(error) = node.run(stopped).await {
                tracing::error!(cluster, %error, "the node does not run");
            }
        });
        let options =
            jobferry_cluster::Options { jobs: plan.jobs, ..jobferry_cluster::Options::new(clock, random_seed()) };
        tasks.spawn(jobferry_cluster::run(client.clone(), options, stop.clone()));
        Ok(Self { name: plan.name, client, server, credentials, access, port, serving: Some(serving) })
    }

    /// How to reach it over TLS.
    pub(crate) fn kubeconfig(&self) -> String {
        self.access.kubeconfig(&self.name)
    }

    /// Nobody reaches it any more. Inside, everything goes on.
    pub(crate) async fn cut_off(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.shutdown().await;
        }
    }

    /// It can be reached again, at the same address.
    pub(crate) async fn reconnect(&mut self) -> anyhow::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await?;
        self.serving = Some(self.server.serve(listener, &self.credentials)?);
        Ok(())
    }

    pub(crate) async fn shutdown(mut self) {
        self.cut_off().await;
    }
}

/// Listens where the cluster listened before, with the same credentials.
async fn listen(plan: &ClusterPlan) -> anyhow::Result<(TcpListener, Credentials)> {
    let path = plan.directory.join("access.json");
    let stored = if plan.durable { read_access(&path)? } else { None };
    let bound = match &stored {
        Some(stored) => TcpListener::bind((Ipv4Addr::LOCALHOST, stored.port)).await.map_err(|error| {
            tracing::warn!(cluster = plan.name, port = stored.port, %error, "its port is taken; it gets another one");
        }),
        None => Err(()),
    };
    let listener = match bound {
        Ok(listener) => listener,
        Err(()) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?,
    };
    let credentials = match stored {
        Some(stored) => stored.credentials,
        None => Credentials::generate()?,
    };
    if plan.durable {
        let access = StoredAccess { port: listener.local_addr()?.port(), credentials: credentials.clone() };
        write_privately(&path, &serde_json::to_vec(&access)?)?;
    }
    Ok((listener, credentials))
}

fn read_access(path: &Path) -> anyhow::Result<Option<StoredAccess>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).with_context(|| path.display().to_string())?)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Randomness from the operating system, by way of the seeds that the standard library gives its hash maps.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
