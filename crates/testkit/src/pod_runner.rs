//! A node that runs no containers: it plays the kubelet's part in the API, by a script on the pod.
//!
//! ```text
//!   pod created ──► bound to our node ──► Running ──run-seconds──► Succeeded or Failed, by exit-code
//!   deletionTimestamp set ──► Failed (exit code 143), unless it had ended ──► removed with grace period 0
//! ```
//!
//! No scheduler and no kubelet are needed, so Jobs live their whole life on a bare control plane. The script is in
//! annotations, usually of a Job's pod template; a pod without any succeeds at once.

mod script;
mod status;

use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::thread;
use std::time::Duration;

use futures::StreamExt;
use jobferry_kubeio::{self as kubeio, Backoff, CallError, Collection, Event, Patch};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

pub use script::{EXIT_CODE, FAILING_INDEXES, RUN_SECONDS};

use script::Script;

/// The node that all pods are bound to.
const NODE: &str = "testkit-node";
/// What a process that was asked to end by SIGTERM ends with.
const TERMINATED: i32 = 143;
/// Longer than a loaded API server takes, shorter than anyone wants to wait for a frozen one that is back.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Runs the pods of one cluster by their scripts until it is dropped.
///
/// It has a thread and a runtime of its own: tests come and go with theirs, while a shared cluster's node stays.
#[derive(Debug)]
pub struct PodRunner {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl PodRunner {
    /// Starts running the pods of the cluster that `config` leads to.
    pub fn start(config: kube::Config) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = {
            let _entered = runtime.enter();
            kube::Client::try_from(config).map_err(io::Error::other)?
        };
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("pod-runner".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = run_pods(client) => {}
                }
            });
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for PodRunner {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A runner that panicked has said so on stderr; there is nobody else to tell.
            let _ = thread.join();
        }
    }
}

/// What is being done about a pod; ends when dropped.
enum Work {
    Running(AbortHandle),
    Ending(AbortHandle),
}

impl Drop for Work {
    fn drop(&mut self) {
        let (Self::Running(task) | Self::Ending(task)) = self;
        task.abort();
    }
}

/// Runs the pods of a cluster by their scripts, on the current runtime, for ever.
pub(crate) async fn run_pods(client: kube::Client) {
    let pods =
        Collection::new("/api/v1/pods", |pod: &Pod| pod.metadata.resource_version.as_deref().unwrap_or_default());
    let mut events = pin!(kubeio::watch(client.clone(), pods));
    let mut work: HashMap<String, Work> = HashMap::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Reset(pods) => {
                create_node(&client).await;
                work.retain(|uid, _| pods.iter().any(|pod| pod.metadata.uid.as_ref() == Some(uid)));
                for pod in &pods {
                    look_at(&client, pod, &mut work);
                }
            }
            Event::Applied(pod) => look_at(&client, &pod, &mut work),
            Event::Deleted(pod) => drop(work.remove(&pod.metadata.uid.unwrap_or_default())),
            Event::Interrupted(error) => tracing::debug!(%error, "pod runner cannot watch pods"),
            Event::Resumed => {}
        }
    }
}

fn look_at(client: &kube::Client, pod: &Pod, work: &mut HashMap<String, Work>) {
    let Some(uid) = pod.metadata.uid.clone() else { return };
    let is_over = has_ended(pod);
    let is_held_back = pod.spec.as_ref().is_some_and(|spec| spec.scheduling_gates.is_some());
    let task = Task { client: client.clone(), pod: pod.clone() };
    if pod.metadata.deletion_timestamp.is_some() {
        if !matches!(work.get(&uid), Some(Work::Ending(_))) {
            work.insert(uid, Work::Ending(tokio::spawn(task.end()).abort_handle()));
        }
    } else if !is_over && !is_held_back {
        work.entry(uid).or_insert_with(|| Work::Running(tokio::spawn(task.run()).abort_handle()));
    }
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Pods bound to a node that does not exist are removed by the pod garbage collector after a while.
async fn create_node(client: &kube::Client) {
    let ready = json!({"type": "Ready", "status": "True", "reason": "Scripted"});
    let status = json!({"conditions": [ready]});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": status});
    send(client, Write::Create, "/api/v1/nodes", &node).await;
}

struct Task {
    client: kube::Client,
    pod: Pod,
}

impl Task {
    async fn run(self) {
        let script = Script::of(&self.pod);
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": NODE});
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": self.identity(), "target": target});
        send(&self.client, Write::Create, &format!("{}/binding", self.path()), &binding).await;
        let started_at = status::now();
        self.write_status(&status::running(&self.pod, &started_at)).await;
        tokio::time::sleep(script.run_time).await;
        self.write_status(&status::ended(&self.pod, &started_at, script.exit_code)).await;
    }

    async fn end(self) {
        if self.pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
            return; // the server removes it without us
        }
        if !has_ended(&self.pod) {
            self.write_status(&status::ended(&self.pod, &status::now(), TERMINATED)).await;
        }
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": self.pod.metadata.uid}});
        send(&self.client, Write::Delete, &self.path(), &options).await;
    }

    async fn write_status(&self, status: &Value) {
        let patch = json!({"metadata": self.identity(), "status": status});
        send(&self.client, Write::Patch, &format!("{}/status", self.path()), &patch).await;
    }

    /// The UID keeps us from touching a newer pod of the same name.
    fn identity(&self) -> Value {
        json!({"name": self.pod.metadata.name, "namespace": self.pod.metadata.namespace, "uid": self.pod.metadata.uid})
    }

    fn path(&self) -> String {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        format!("/api/v1/namespaces/{}/pods/{}", part(&self.pod.metadata.namespace), part(&self.pod.metadata.name))
    }
}

#[derive(Clone, Copy)]
enum Write {
    Create,
    Patch,
    Delete,
}

/// Sends a write until the server has taken it, or has said that there is nothing to take it for: the pod is gone, is
/// another one by now, or was bound already.
async fn send(client: &kube::Client, write: Write, path: &str, body: &Value) {
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2), 0);
    loop {
        let body = body.to_string().into_bytes();
        let answer = match write {
            Write::Create => kubeio::create(client, path, body, ANSWER_WITHIN).await,
            Write::Patch => kubeio::patch(client, path, Patch::Strategic, body, ANSWER_WITHIN).await,
            Write::Delete => kubeio::delete(client, path, body, ANSWER_WITHIN).await,
        };
        match answer {
            Ok(_) => return,
            Err(CallError::Refused(refusal)) if matches!(refusal.code, 404 | 409) => return,
            Err(error) => tracing::debug!(%error, path, "pod runner tries again"),
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}
