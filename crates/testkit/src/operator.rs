//! Operators of other kinds than Job, as they were released, each a process beside the cluster that it works on.
//!
//! ```text
//!   Program: what it needs, as data ──┬──► definitions and webhooks on the cluster
//!   OperatorBuild: what was built   ──┘    a process with a kubeconfig, whose webhooks are called at loopback
//! ```

mod build;
mod install;
mod kueue;
mod programs;
mod ray_dashboard;

use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

pub use build::{OPERATORS_VARIABLE, OperatorBuild, OperatorMissing};
pub use kueue::{KUEUE, KUEUE_UNLIMITED, MULTIKUEUE_QUEUE, MultiKueue, QUEUE_LABEL};
pub use programs::*;

use crate::cluster_error::doing;
use crate::fleet::ScenarioError;
use crate::real_cluster::{READY_WITHIN, tail};
use crate::{ClusterError, ProcessGroup, RealCluster, User};
use install::{Installation, Ports};
use ray_dashboard::RayDashboard;

/// Between two looks at a process that starts.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// An operator that works on one cluster until it is dropped.
pub struct Operator {
    name: &'static str,
    cluster: String,
    log: PathBuf,
    process: Child,
    ports: Ports,
    _dashboard: Option<RayDashboard>,
    _group: ProcessGroup,
}

/// Why an operator does not run.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// It was not built.
    #[error(transparent)]
    Missing(#[from] OperatorMissing),
    /// A file or process operation failed, or there is no client.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The cluster does not take its objects.
    #[error("installing operator {operator} on cluster {cluster}: {source}")]
    Install {
        /// Which one.
        operator: &'static str,
        /// Where.
        cluster: String,
        /// What failed.
        source: ScenarioError,
    },
    /// It ended, or did not come up in time.
    #[error("operator {operator} of cluster {cluster} {why}; the end of {}:\n{tail}", log.display())]
    NotReady {
        /// Which one.
        operator: &'static str,
        /// Where.
        cluster: String,
        /// What is wrong.
        why: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },
}

impl Operator {
    /// Installs an operator on a cluster, starts it, and waits until it serves.
    pub async fn start(program: &Program, cluster: &RealCluster) -> Result<Self, OperatorError> {
        Self::start_as(User::Admin, program, cluster).await
    }

    /// The same for one that the audit log can tell from others.
    pub async fn start_as(user: User, program: &Program, cluster: &RealCluster) -> Result<Self, OperatorError> {
        let installation = Installation::prepare(program, cluster, user).await?;
        installation.install().await?;
        let (name, cluster) = (program.name, cluster.name().to_owned());
        let spare = installation.ports.spare.number();
        let dashboard = if program.ray_dashboard {
            Some(doing("starting a Ray dashboard", RayDashboard::start(spare).await)?)
        } else {
            None
        };
        let group = doing("starting the guard process", ProcessGroup::new(None))?;
        let process = installation.spawn(&group)?;
        let (log, ports) = (installation.log(), installation.ports);
        let mut operator = Self { name, cluster, log, process, ports, _dashboard: dashboard, _group: group };
        let Ports { webhook, health, .. } = &operator.ports;
        let chosen = if program.webhooks.is_some() { webhook } else { health };
        operator.until_listening(program.fixed_port.unwrap_or_else(|| chosen.number())).await?;
        Ok(operator)
    }

    /// Puts the definitions of an operator on a cluster, and does not start it.
    pub async fn install(program: &Program, cluster: &RealCluster) -> Result<(), OperatorError> {
        Installation::prepare(program, cluster, User::Admin).await?.install().await
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for its end, which nobody wants.
    pub async fn ended(&mut self) -> OperatorError {
        loop {
            match doing(format!("looking after {}", self.name), self.process.try_wait()) {
                Ok(None) => sleep(LOOK_EVERY).await,
                Ok(Some(status)) => return self.not_ready(format!("ended ({status})")),
                Err(error) => return error.into(),
            }
        }
    }

    async fn until_listening(&mut self, port: u16) -> Result<(), OperatorError> {
        let listening = async {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                sleep(LOOK_EVERY).await;
            }
        };
        let listening = tokio::select! {
            listening = timeout(READY_WITHIN, listening) => listening,
            end = self.ended() => return Err(end),
        };
        listening.map_err(|_| self.not_ready(format!("did not listen within {READY_WITHIN:?}")))
    }

    fn not_ready(&self, why: String) -> OperatorError {
        let (operator, cluster, log) = (self.name, self.cluster.clone(), self.log.clone());
        OperatorError::NotReady { operator, cluster, why, tail: tail(&log), log }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // Reaps it; the group's guard makes sure of the rest.
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}
