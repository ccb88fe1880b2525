//! Several real clusters with nodes, started once for all tests of a binary.

use tokio::sync::OnceCell;

use crate::{ClusterError, PodRunner, RealCluster, Testbed, TestbedMissing, User};

/// Real clusters whose Jobs really finish: each has a scripted node.
pub struct RealFleet {
    clusters: Vec<RealCluster>,
    /// Dropped before the clusters that they talk to would be missed; a static fleet never is.
    _runners: Vec<PodRunner>,
}

/// Why there is no fleet.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// There are no binaries to start it from.
    #[error(transparent)]
    NoTestbed(#[from] TestbedMissing),
    /// A cluster did not start.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A scripted node did not start.
    #[error("starting the pod runner of cluster {cluster}: {source}")]
    PodRunner {
        /// Whose node.
        cluster: String,
        /// Why not.
        source: std::io::Error,
    },
}

impl RealFleet {
    /// The fleet that all tests of this process share: `manager`, `worker-1` and `worker-2`. The first caller starts it;
    /// it ends with the process. Tests keep apart by namespaces, and must leave the components alone: those that freeze
    /// or kill start clusters of their own.
    pub async fn shared() -> Result<&'static Self, FleetError> {
        static SHARED: OnceCell<RealFleet> = OnceCell::const_new();
        SHARED.get_or_try_init(|| Self::start(&["manager", "worker-1", "worker-2"])).await
    }

    /// Starts one scratch cluster a name, all at the same time. The first one is the manager.
    pub async fn start(names: &[&str]) -> Result<Self, FleetError> {
        let (manager, workers) = (Testbed::from_environment()?, Testbed::for_workers()?);
        let beds = std::iter::once(&manager).chain(std::iter::repeat(&workers));
        let starts = names.iter().zip(beds).map(|(name, testbed)| RealCluster::start_scratch(testbed, name));
        let clusters = futures::future::try_join_all(starts).await?;
        let mut runners = Vec::new();
        for cluster in &clusters {
            let runner = PodRunner::start(cluster.config(User::PodRunner).await?);
            let failed = |source| FleetError::PodRunner { cluster: cluster.name().to_owned(), source };
            runners.push(runner.map_err(failed)?);
        }
        Ok(Self { clusters, _runners: runners })
    }

    /// The clusters, in the order of their names at start.
    pub fn clusters(&self) -> &[RealCluster] {
        &self.clusters
    }

    /// The first cluster.
    pub fn manager(&self) -> &RealCluster {
        &self.clusters[0]
    }

    /// All clusters but the first.
    pub fn workers(&self) -> &[RealCluster] {
        &self.clusters[1..]
    }
}
