//! A node that runs no containers: it plays the kubelet's part in the API, and keeps the one truth that no API shows,
//! which processes really run.
//!
//! What a pod does is in its annotations, as for [`jobferry_testkit::PodRunner`]; unlike that one this node lives in
//! virtual time, takes its time to end a process that was told to, and tells the [`Hub`](crate::hub::Hub) of each. A node
//! that is started again still knows what its machines run.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jobferry_api::labels;
use jobferry_kubeio::{self as kubeio, CallError, Collection, Event, Patch};
use jobferry_testkit::{EXIT_CODE, FAILING_INDEXES, RUN_SECONDS};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cluster::{Clock, Cluster};
use crate::dice::Dice;
use crate::truth::is_manager;

const NODE: &str = "sim-node";
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// What a process ends with that was told to end.
const TERMINATED: i64 = 143;
/// The longest that a process takes to end after it was told to.
const GRACE_SECONDS: u64 = 8;
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The machines of a cluster: what runs on them is there whatever an API server says.
#[derive(Clone, Default)]
pub(crate) struct Machines {
    processes: Arc<Mutex<BTreeMap<String, Running>>>,
    off: CancellationToken,
}

/// A process, by the UID of its pod.
#[derive(Clone)]
struct Running {
    /// It is told to end.
    end: CancellationToken,
    /// What it ended with.
    exit_code: Option<i64>,
}

impl Machines {
    /// Everything that runs ends at once, and nobody is told.
    pub(crate) fn switch_off(&self) {
        self.off.cancel();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Running>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process of a pod that is no more.
    fn end(&self, pod: &str) {
        if let Some(process) = self.lock().remove(pod) {
            process.end.cancel();
        }
    }

    fn end_all_but(&self, pods: &[Pod]) {
        let listed = |uid: &String| pods.iter().any(|pod| pod.metadata.uid.as_ref() == Some(uid));
        let gone: Vec<String> = self.lock().keys().filter(|uid| !listed(uid)).cloned().collect();
        for uid in gone {
            self.end(&uid);
        }
    }
}

/// Runs the pods of a cluster, for ever.
pub(crate) async fn run(client: Client, cluster: Cluster, machines: Machines, seed: u64, clock: Clock) {
    let mut events = pin!(kubeio::watch(client.clone(), Collection::new("/api/v1/pods", version)));
    let mut dice = Dice::new(seed, "node");
    while let Some(event) = events.next().await {
        let pods = match event {
            Event::Reset(pods) => {
                machines.end_all_but(&pods);
                pods
            }
            Event::Applied(pod) => vec![pod],
            Event::Deleted(pod) => {
                machines.end(&pod.metadata.uid.unwrap_or_default());
                continue;
            }
            Event::Interrupted(_) | Event::Resumed => continue,
        };
        for pod in pods {
            let Some(uid) = pod.metadata.uid.clone() else { continue };
            let known = machines.lock().get(&uid).cloned();
            let process = Process {
                client: client.clone(),
                cluster: cluster.clone(),
                clock: Clock::clone(&clock),
                machines: machines.clone(),
                pod,
            };
            match known {
                Some(Running { end, exit_code: None }) if process.pod.metadata.deletion_timestamp.is_some() => {
                    end.cancel();
                }
                // Nothing runs any more, or, if the API server was set back, not for a long time.
                _ if process.pod.metadata.deletion_timestamp.is_some() => {
                    tokio::spawn(async move { process.remove().await });
                }
                // The API server has forgotten how it ended.
                Some(Running { exit_code: Some(code), .. }) if !has_ended(&process.pod) => {
                    tokio::spawn(async move { process.write_end(code).await });
                }
                None if !has_ended(&process.pod) => {
                    let end = CancellationToken::new();
                    machines.lock().insert(uid, Running { end: end.clone(), exit_code: None });
                    let grace = dice.time(Duration::ZERO, Duration::from_secs(GRACE_SECONDS));
                    tokio::spawn(process.live(end, grace));
                }
                _ => {}
            }
        }
    }
}

fn version(pod: &Pod) -> &str {
    pod.metadata.resource_version.as_deref().unwrap_or_default()
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Asks again until the server says something: it may stand still for a while.
async fn until_answered<T, F>(ask: impl Fn() -> F) -> Result<T, CallError>
where
    F: Future<Output = Result<T, CallError>>,
{
    loop {
        match ask().await {
            Err(error) if error.refusal().is_none() => {}
            answered => return answered,
        }
    }
}

struct Process {
    client: Client,
    cluster: Cluster,
    clock: Clock,
    machines: Machines,
    pod: Pod,
}

impl Process {
    async fn live(self, end: CancellationToken, grace: Duration) {
        if self.pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
            let bound = self.bind().await;
            if bound.is_err() || end.is_cancelled() {
                // Bound and deleted in the same moment: the server waits for us to confirm.
                return self.remove().await;
            }
        }
        let (seconds, exit_code) = self.script();
        self.tell_started();
        self.write_status("Running", None).await;
        let off = self.machines.off.clone();
        let was_told = tokio::select! { biased;
            () = off.cancelled() => return self.tell_stopped(),
            () = end.cancelled() => true,
            () = tokio::time::sleep(seconds) => false,
        };
        if was_told {
            tokio::select! { biased;
                () = off.cancelled() => return self.tell_stopped(),
                () = tokio::time::sleep(grace) => {}
            }
        }
        self.tell_stopped();
        let exit_code = if was_told { TERMINATED } else { exit_code };
        if let Some(process) = self.machines.lock().get_mut(self.uid()) {
            process.exit_code = Some(exit_code);
        }
        self.write_end(exit_code).await;
        end.cancelled().await;
        self.remove().await;
    }

    async fn bind(&self) -> Result<(), CallError> {
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": NODE});
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": self.identity(), "target": target});
        let path = format!("{}/binding", self.path());
        let binding = binding.to_string().into_bytes();
        until_answered(|| kubeio::create(&self.client, &path, binding.clone(), ANSWER_WITHIN)).await.map(drop)
    }

    async fn write_end(&self, exit_code: i64) {
        self.write_status(if exit_code == 0 { "Succeeded" } else { "Failed" }, Some(exit_code)).await;
    }

    fn tell_started(&self) {
        if let Some(workload) = self.workload() {
            let owner = self.pod.metadata.owner_references.iter().flatten().next();
            let mirror = owner.map(|owner| owner.uid.as_str()).unwrap_or_default();
            self.cluster.hub().started(&self.cluster.name, workload, mirror, self.uid(), self.name());
        }
    }

    fn tell_stopped(&self) {
        if let Some(workload) = self.workload() {
            self.cluster.hub().stopped(&self.cluster.name, workload, self.uid(), self.name());
        }
    }

    fn script(&self) -> (Duration, i64) {
        let annotation = |name: &str| self.pod.metadata.annotations.as_ref()?.get(name).map(String::as_str);
        let seconds = annotation(RUN_SECONDS).and_then(|text| text.parse().ok()).unwrap_or(0);
        let exit_code = annotation(EXIT_CODE).and_then(|text| text.parse().ok()).unwrap_or(0);
        let fails = match (annotation(FAILING_INDEXES), annotation(COMPLETION_INDEX)) {
            (Some(failing), Some(index)) => failing.split(',').any(|failing| failing == index),
            _ => false,
        };
        (Duration::from_secs(seconds), if fails { 1 } else { exit_code })
    }

    async fn write_status(&self, phase: &str, exit_code: Option<i64>) {
        let now = (self.clock)().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let ready = json!({"type": "Ready", "status": if exit_code.is_none() { "True" } else { "False" }});
        let state = match exit_code {
            None => json!({"running": {"startedAt": now}}),
            Some(code) => json!({"running": null, "terminated": {"exitCode": code, "finishedAt": now}}),
        };
        let container = json!({"name": "main", "image": "work", "imageID": "", "restartCount": 0,
                               "ready": exit_code.is_none(), "state": state});
        let status = json!({"phase": phase, "startTime": now, "conditions": [ready], "containerStatuses": [container]});
        let body = json!({"metadata": self.identity(), "status": status}).to_string().into_bytes();
        let path = format!("{}/status", self.path());
        // A refusal means that the pod is gone.
        let _ =
            until_answered(|| kubeio::patch(&self.client, &path, Patch::Strategic, body.clone(), ANSWER_WITHIN)).await;
    }

    async fn remove(&self) {
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid()}});
        let (path, options) = (self.path(), options.to_string().into_bytes());
        let _ = until_answered(|| kubeio::delete(&self.client, &path, options.clone(), ANSWER_WITHIN)).await;
    }

    /// The workload that it belongs to. On a management cluster that is the Job itself, which should not run there.
    fn workload(&self) -> Option<&str> {
        if is_manager(&self.cluster.name) {
            return self.pod.metadata.owner_references.iter().flatten().next().map(|owner| owner.uid.as_str());
        }
        self.pod.metadata.labels.as_ref()?.get(labels::ORIGIN_UID).map(String::as_str)
    }

    /// The UID keeps us from touching a newer pod of the same name.
    fn identity(&self) -> Value {
        json!({"name": self.name(), "namespace": self.pod.metadata.namespace, "uid": self.uid()})
    }

    fn path(&self) -> String {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        format!("/api/v1/namespaces/{namespace}/pods/{}", self.name())
    }

    fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }
}
