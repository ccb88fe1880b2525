//! One real management cluster and its workers.

use std::time::Duration;

use clap::ValueEnum;
use futures::future::join_all;
use jobferry_testkit::{AuditMark, Component, PodRunner, RealCluster, Testbed, User};
use kube::Client;

use crate::{
    contender::Contender,
    measure::usage::{ServersCpu, cpu},
};

/// Where all Jobs of the bench are.
pub(crate) const NAMESPACE: &str = "bench";

/// What becomes of mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Nobody runs them.
    Inert,
    /// The workers' Job controllers run them; pods end at once.
    Running,
}

pub(crate) struct Fleet {
    pub(crate) mode: Mode,
    pub(crate) manager: RealCluster,
    pub(crate) workers: Vec<RealCluster>,
    _nodes: Vec<PodRunner>,
}

/// Writes of the contender during a burst.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Writes {
    /// To the management cluster, about Jobs and what stands for them.
    pub(crate) manager: usize,
    /// To all workers, likewise.
    pub(crate) workers: usize,
    /// Everything else: Events, leases, statuses of other objects.
    pub(crate) other: usize,
}

impl Fleet {
    pub(crate) async fn start(testbed: &Testbed, mode: Mode, workers: usize) -> Self {
        let names = (0..=workers).map(|n| if n == 0 { "manager".to_owned() } else { format!("worker-{n}") });
        let starts = names.map(|name| async move {
            let cluster = RealCluster::start_scratch(testbed, &name).await.unwrap();
            cluster.create_namespace(NAMESPACE).await.unwrap();
            cluster
        });
        let mut clusters = join_all(starts).await;
        let manager = clusters.remove(0);
        let mut nodes = Vec::new();
        for worker in &clusters {
            match mode {
                Mode::Inert => worker.stop(Component::ControllerManager).await.unwrap(),
                Mode::Running => {
                    nodes.push(PodRunner::start(worker.config(User::PodRunner).await.unwrap()).unwrap());
                }
            }
        }
        Self { mode, manager, workers: clusters, _nodes: nodes }
    }

    /// The client of whoever creates and watches.
    pub(crate) async fn client(cluster: &RealCluster) -> Client {
        cluster.client(User::Admin).await.unwrap()
    }

    /// What all clusters have spent so far.
    pub(crate) fn cpu(&self) -> ServersCpu {
        let spent = |cluster: &RealCluster, component| cluster.process(component).map(cpu).unwrap_or_default();
        let of = |cluster: &RealCluster, is_manager: bool| {
            let api = spent(cluster, Component::Etcd) + spent(cluster, Component::ApiServer);
            let controllers = spent(cluster, Component::ControllerManager);
            let (manager, workers) = if is_manager { (api, Duration::ZERO) } else { (Duration::ZERO, api) };
            ServersCpu { manager, workers, controllers }
        };
        self.workers.iter().map(|worker| of(worker, false)).chain([of(&self.manager, true)]).sum()
    }

    /// The ends of all audit logs, the manager's first.
    pub(crate) fn audit_marks(&self) -> Vec<AuditMark> {
        self.clusters().map(|cluster| cluster.audit().mark().unwrap()).collect()
    }

    /// What the contender wrote since.
    pub(crate) fn writes_since(&self, marks: &[AuditMark], contender: Contender) -> Writes {
        let mut writes = Writes::default();
        for (number, (cluster, mark)) in self.clusters().zip(marks).enumerate() {
            let user = if contender.is_kueue() { User::Kueue } else { User::Dispatcher };
            for record in cluster.audit().records_of(user, *mark).unwrap() {
                let about_jobs = record.resource.starts_with("jobs") || record.resource.starts_with("workloads");
                match record.verb.as_str() {
                    "get" | "list" | "watch" => {}
                    _ if !about_jobs => writes.other += 1,
                    _ if number == 0 => writes.manager += 1,
                    _ => writes.workers += 1,
                }
            }
        }
        writes
    }

    fn clusters(&self) -> impl Iterator<Item = &RealCluster> {
        std::iter::once(&self.manager).chain(&self.workers)
    }
}
