//! A fleet without Kubernetes: a management cluster, workers and a dispatcher in this process.
//!
//! ```text
//!   manager   API server (loopback TLS) + controllers + node <── dispatcher
//!   worker-1  API server (loopback TLS) + controllers + node <──────┘ by the kubeconfig in a Secret, as anywhere
//! ```

mod cluster;
pub(crate) mod home;
mod logs;
mod plan;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use base64::{Engine, prelude::BASE64_STANDARD};
use futures::future::join_all;
use jobferry_api::{DISPATCHER_LEASE, KUBECONFIG_KEY, SYSTEM_NAMESPACE, managed_by};
use jobferry_cluster::JobOptions;
use jobferry_core::kind::Table;
use jobferry_dispatcher::{KubeconfigSecrets, Options, RunError};
use jobferry_kubeio::{self as kubeio, Backoff, Patch};
use kube::Client;
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    dispatcher::{self, wall_clock},
    install,
    worker::{self, WORKERS},
};
pub(crate) use cluster::random_seed;
use cluster::{Cluster, ClusterPlan};
use home::Home;
pub(crate) use plan::{FleetPlan, MANAGER, WorkerPlan};

/// How long the dispatcher may take to connect to a worker in the same process.
const CONNECTED_WITHIN_SECONDS: u64 = 30;

/// A running fleet.
pub(crate) struct Fleet {
    manager: Cluster,
    workers: Vec<Cluster>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Fleet {
    /// Starts the clusters and the dispatcher, and waits until it is connected to every worker. Pods keep their files
    /// and logs in `home`; what is `durable` keeps everything there.
    pub(crate) async fn start(home: &Home, plan: &FleetPlan, durable: bool) -> anyhow::Result<Self> {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let clock = jobferry_cluster::system_clock();
        let start = async |name: &str, own: &[&str], worker: WorkerPlan| {
            let mut jobs = JobOptions::standard(Arc::clone(&clock), random_seed());
            jobs.managed_by.extend(own.iter().map(ToString::to_string));
            let (directory, capacity) = (home.cluster(name), worker.capacity);
            let plan = ClusterPlan { name: name.to_owned(), jobs, capacity, directory, durable };
            Cluster::start(plan, &tasks, &stop).await.with_context(|| format!("cluster {name} does not start"))
        };
        let manager = start(MANAGER, &[managed_by::LOCAL], WorkerPlan::default()).await?;
        let mut workers = Vec::new();
        for worker in &plan.workers {
            workers.push(start(&worker.name, &[], worker.clone()).await?);
        }
        let fleet = Self { manager, workers, tasks, stop };
        fleet.register(&plan.workers, home.stored_plan()?.as_ref()).await?;
        fleet.take_lease_over().await?;
        fleet.dispatch();
        for worker in &plan.workers {
            worker::wait_until_connected(fleet.manager(), &worker.name, CONNECTED_WITHIN_SECONDS).await?;
        }
        Ok(fleet)
    }

    /// A client for each cluster, the manager first.
    pub(crate) fn clients(&self) -> impl Iterator<Item = (&str, &Client)> {
        std::iter::once(&self.manager).chain(&self.workers).map(|cluster| (cluster.name.as_str(), &cluster.client))
    }

    /// The worker of that name, to be cut off for a while.
    pub(crate) fn worker(&mut self, name: &str) -> Option<&mut Cluster> {
        self.workers.iter_mut().find(|cluster| cluster.name == name)
    }

    /// A client for the management cluster.
    pub(crate) const fn manager(&self) -> &Client {
        &self.manager.client
    }

    /// One kubeconfig with a context a cluster, the manager's the current one.
    pub(crate) fn kubeconfig(&self) -> anyhow::Result<String> {
        let mut merged = json!({"apiVersion": "v1", "kind": "Config", "current-context": self.manager.name});
        for list in ["clusters", "users", "contexts"] {
            merged[list] = json!([]);
        }
        for cluster in std::iter::once(&self.manager).chain(&self.workers) {
            let single: Value = serde_json::from_str(&cluster.kubeconfig())?;
            for list in ["clusters", "users", "contexts"] {
                if let (Some(into), Some(from)) = (merged[list].as_array_mut(), single[list].as_array()) {
                    into.extend(from.iter().cloned());
                }
            }
        }
        Ok(format!("{merged:#}\n"))
    }

    /// Stops the dispatcher, the pods and the clusters, in this order of their tasks ending.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        join_all(self.workers.into_iter().chain([self.manager]).map(Cluster::shutdown)).await;
    }

    /// `before` is the fleet that was here, whose labels may have to go. Those that somebody else gave a Worker stay.
    async fn register(&self, plans: &[WorkerPlan], before: Option<&FleetPlan>) -> anyhow::Result<()> {
        install::install(self.manager()).await?;
        for (plan, cluster) in plans.iter().zip(&self.workers) {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": plan.name, "namespace": SYSTEM_NAMESPACE},
                "data": {KUBECONFIG_KEY: BASE64_STANDARD.encode(cluster.kubeconfig())},
            });
            let secrets = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets");
            install::apply(self.manager(), &secrets, &secret).await?;
            let worker = json!({
                "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker",
                "metadata": {"name": plan.name, "labels": plan.labels}, "spec": {"kubeconfigSecret": plan.name},
            });
            install::apply(self.manager(), WORKERS, &worker).await?;
            let gone: Vec<&String> = before.iter().flat_map(|before| before.labels_gone(plan)).collect();
            if !gone.is_empty() {
                let labels: Value = gone.into_iter().map(|key| (key.clone(), Value::Null)).collect();
                let change = json!({"metadata": {"labels": labels}}).to_string().into_bytes();
                let path = format!("{WORKERS}/{}", plan.name);
                let patched = kubeio::patch(self.manager(), &path, Patch::Merge, change, install::DEADLINE).await;
                patched.with_context(|| format!("cannot take labels off Worker {}", plan.name))?;
            }
        }
        Ok(())
    }

    /// Whoever held the lease is dead: this process holds the fleet's directory. No need to wait for its end.
    async fn take_lease_over(&self) -> anyhow::Result<()> {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{DISPATCHER_LEASE}");
        match kubeio::delete(self.manager(), &path, Vec::new(), install::DEADLINE).await {
            Err(error) if !error.is_not_found() => Err(error).context("cannot take over the dispatcher's lease"),
            _ => Ok(()),
        }
    }

    fn dispatch(&self) {
        let manager = self.manager().clone();
        let secrets = KubeconfigSecrets::new(manager.clone(), SYSTEM_NAMESPACE);
        let options = Options {
            lease: Some(dispatcher::lease(managed_by::DISPATCHER)),
            kinds: Table::built_in().ok(),
            ..Options::new(Arc::new(secrets), Arc::new(wall_clock), random_seed())
        };
        let stop = self.stop.clone();
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), options.seed);
        self.tasks.spawn(async move {
            // Clusters and dispatcher are one process here: nobody else would start it again.
            while let Err(error) = jobferry_dispatcher::run(manager.clone(), options.clone(), stop.clone()).await {
                tracing::error!(%error, "the dispatcher ended");
                if !matches!(error, RunError::Broken) {
                    break;
                }
                stop.run_until_cancelled(tokio::time::sleep(backoff.next_delay())).await;
            }
        });
    }
}
