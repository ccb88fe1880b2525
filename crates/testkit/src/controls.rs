//! What a test does to a fleet from outside: closes roads, stops and starts dispatchers. The same code for embedded and
//! for real clusters.
#![allow(clippy::panic, reason = "a test that names a worker which does not exist fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jobferry_api::KUBECONFIG_KEY;
use jobferry_dispatcher::Options;
use jobferry_kubeio::metrics::Observed as _;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::fault::{Passage, Road};
use crate::gate::Gate;
use crate::mortal::{Life, mortal, mortal_options};

/// The hands on a fleet.
pub(crate) struct Controls {
    /// From the dispatcher to each worker.
    pub(crate) roads: BTreeMap<String, Road>,
    /// The doors of embedded workers; real ones have admission of their own.
    pub(crate) gates: Option<BTreeMap<String, Gate>>,
    /// By which the dispatcher reaches each worker.
    pub(crate) kubeconfigs: BTreeMap<String, String>,
    /// Whether the clusters have a CronJob controller.
    pub(crate) run_cron_jobs: bool,
    pub(crate) dispatchers: Dispatchers,
}

impl Controls {
    pub(crate) fn set_road(&self, worker: &str, open: bool) {
        let passage = Passage { there: open, back: open };
        let road = self.roads.get(worker);
        road.unwrap_or_else(|| panic!("there is no worker {worker}")).set(passage);
    }

    /// The Secret by which the dispatcher reaches a worker.
    pub(crate) fn secret(&self, worker: &str) -> Value {
        secret(worker, self.kubeconfigs.get(worker).map_or("", String::as_str))
    }
}

/// A Secret with a kubeconfig.
pub(crate) fn secret(name: &str, kubeconfig: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "data": {KUBECONFIG_KEY: BASE64_STANDARD.encode(kubeconfig)},
    })
}

/// Dispatchers in this process.
pub(crate) struct Dispatchers {
    manager: Client,
    options: Options,
    running: Mutex<Vec<Running>>,
}

struct Running {
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl Dispatchers {
    /// None is running yet.
    pub(crate) fn new(manager: Client, options: Options) -> Self {
        Self { manager, options, running: Mutex::default() }
    }

    /// What they tell of themselves, as Prometheus reads it.
    pub(crate) fn metrics(&self) -> String {
        self.options.vitals.metrics()
    }

    /// Starts one more.
    pub(crate) async fn start(&self) {
        self.run(self.manager.clone(), self.options.clone()).await;
    }

    /// Starts one more that asks nobody whether it may work.
    pub(crate) async fn start_without_lease(&self) {
        self.run(self.manager.clone(), Options { lease: None, ..self.options.clone() }).await;
    }

    /// Starts one that ends like a killed process once `writes` of its writes have been carried out.
    pub(crate) async fn start_mortal(&self, writes: usize) -> Arc<Life> {
        let life = Life::of(writes);
        let options = Options { lease: None, ..self.options.clone() };
        self.run(mortal(self.manager.clone(), &life), mortal_options(options, &life)).await;
        life
    }

    /// One for another management cluster.
    pub(crate) async fn start_for(&self, manager: Client, change: impl FnOnce(Options) -> Options + Send) {
        self.run(manager, change(Options { lease: None, canary: None, ..self.options.clone() })).await;
    }

    async fn run(&self, manager: Client, options: Options) {
        let stop = CancellationToken::new();
        let shutdown = stop.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = jobferry_dispatcher::run(manager, options, shutdown).await {
                tracing::warn!(%error, "a dispatcher ended");
            }
        });
        self.running.lock().await.push(Running { stop: stop.drop_guard(), task });
    }

    /// Ends all of them in an orderly way.
    pub(crate) async fn stop(&self) {
        for Running { stop, task } in std::mem::take(&mut *self.running.lock().await) {
            drop(stop);
            // A dispatcher that panicked has said so on stderr, and its test fails for what it left undone.
            let _ = task.await;
        }
    }
}
