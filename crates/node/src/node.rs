//! The node itself: its object, its lease, and the pods that are bound to it.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt, pin_mut};
use jobferry_kubeio::{self as kubeio, CallError, Collection, Event, Patch};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::Client;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    logs::{self, LogQuery},
    pod::{Order, PodTask},
    reaper::Reaper,
    status::seconds,
};

/// How long one request may take.
pub(crate) const API_DEADLINE: Duration = Duration::from_secs(15);
/// How often the node says that it is alive; as a kubelet does.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How often the node's status is written.
const STATUS_INTERVAL: Duration = Duration::from_mins(5);
/// Where nodes keep their leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// How long pods have to end when the node is shut down.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// The file beside the logs of a container that says that it has ended for good.
const CLOSED: &str = "closed";

/// Tells the time of day.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a node is.
#[derive(Clone)]
pub struct Options {
    /// Its name.
    pub name: String,
    /// Labels beside those that every node has.
    pub labels: BTreeMap<String, String>,
    /// What pods may request in total, for example `cpu: "4"`. Bookkeeping: nothing is enforced.
    pub capacity: BTreeMap<String, String>,
    /// Where scratch directories and logs are kept. It tells a restarted node which pods it had.
    pub directory: PathBuf,
    /// The program that is started as the reaper: this one, unless its `main` does not call
    /// [`enter_if_asked`](crate::enter_if_asked).
    pub program: Option<PathBuf>,
    /// The time.
    pub clock: Clock,
}

/// Why a node cannot run.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The directory cannot be used.
    #[error("directory {path} of node {node} cannot be used: {source}")]
    Directory {
        /// The node.
        node: String,
        /// The directory.
        path: PathBuf,
        /// What the file system says.
        source: io::Error,
    },
    /// The reaper cannot be started, so containers could survive the node.
    #[error("the reaper of node {node} cannot be started ({program}): {source}")]
    Reaper {
        /// The node.
        node: String,
        /// The program that should have been the reaper.
        program: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// What all pods of a node share.
pub(crate) struct NodeContext {
    pub(crate) client: Client,
    pub(crate) address: String,
    pub(crate) clock: Clock,
    pub(crate) reaper: Arc<Reaper>,
    pub(crate) mark: String,
    directory: PathBuf,
}

impl NodeContext {
    /// Scratch space of a pod. It is made before the first process starts, and so says whether one ever did.
    pub(crate) fn pod_directory(&self, uid: &str) -> PathBuf {
        self.directory.join("pods").join(uid)
    }

    pub(crate) fn log_path(&self, uid: &str, container: &str, attempt: u32) -> PathBuf {
        log_directory(&self.directory, uid, container).join(format!("{attempt}.log"))
    }

    /// Nothing will be added to this container's log: whoever follows it has reached the end.
    pub(crate) fn close_log(&self, uid: &str, container: &str) {
        let mark = log_directory(&self.directory, uid, container).join(CLOSED);
        if let Err(error) = std::fs::write(&mark, b"") {
            tracing::debug!(path = %mark.display(), %error, "the end of a log could not be marked");
        }
    }
}

fn log_directory(directory: &std::path::Path, uid: &str, container: &str) -> PathBuf {
    directory.join("pods").join(uid).join("logs").join(container)
}

/// A node.
pub struct Node {
    client: Client,
    options: Options,
}

impl Node {
    /// A node that has not registered yet.
    pub fn new(client: Client, options: Options) -> Self {
        Self { client, options }
    }

    /// Reads logs of pods that are, or were, on this node.
    pub fn logs(&self) -> Logs {
        Logs { directory: self.options.directory.clone() }
    }

    /// Registers the node and runs what is bound to it until `shutdown`; then stops its containers.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), NodeError> {
        let context = self.context()?;
        let registration = keep_registered(&self.client, &self.options);
        let pods = run_pods(&context, &self.options.name, &shutdown);
        pin_mut!(registration, pods);
        tokio::select! { biased;
            () = &mut pods => {}
            () = &mut registration => {}
        }
        Ok(())
    }

    fn context(&self) -> Result<Arc<NodeContext>, NodeError> {
        let options = &self.options;
        let node = || options.name.clone();
        let path = options.directory.join("pods");
        std::fs::create_dir_all(&path).map_err(|source| NodeError::Directory { node: node(), path, source })?;
        let program = match &options.program {
            Some(program) => Ok(program.clone()),
            None => std::env::current_exe(),
        };
        let program = program.map_err(|source| NodeError::Reaper { node: node(), program: PathBuf::new(), source })?;
        // The mark is unique to this run of the node: a later run must not be taken for it.
        let mark = format!("{}-{}-{}", options.name, std::process::id(), (options.clock)().as_nanosecond());
        let reaper =
            Reaper::start(&program, &mark).map_err(|source| NodeError::Reaper { node: node(), program, source })?;
        Ok(Arc::new(NodeContext {
            client: self.client.clone(),
            address: "127.0.0.1".to_owned(),
            clock: Arc::clone(&options.clock),
            reaper: Arc::new(reaper),
            mark,
            directory: options.directory.clone(),
        }))
    }
}

/// Logs of a node's pods.
#[derive(Debug, Clone)]
pub struct Logs {
    directory: PathBuf,
}

impl Logs {
    /// Opens the log of a container of the pod with this UID.
    pub async fn open(
        &self,
        pod_uid: &str,
        container: &str,
        query: LogQuery,
    ) -> io::Result<impl Stream<Item = Bytes> + Send + use<>> {
        let directory = log_directory(&self.directory, pod_uid, container);
        let mut runs: Vec<u32> = std::fs::read_dir(&directory)
            .map(|files| files.flatten().filter_map(|file| file.path().file_stem()?.to_str()?.parse().ok()).collect())
            .unwrap_or_default();
        runs.sort_unstable();
        let wanted = if query.previous { runs.len().checked_sub(2) } else { runs.len().checked_sub(1) };
        let run = wanted.and_then(|at| runs.get(at));
        let path = run.map_or_else(|| directory.join("none.log"), |run| directory.join(format!("{run}.log")));
        let (closed, pod) = (directory.join(CLOSED), self.directory.join("pods").join(pod_uid));
        logs::read(&path, query, move || closed.exists() || !pod.exists()).await
    }
}

async fn run_pods(context: &Arc<NodeContext>, name: &str, shutdown: &CancellationToken) {
    let collection =
        Collection::new("/api/v1/pods", |pod: &Pod| pod.metadata.resource_version.as_deref().unwrap_or(""))
            .fields(format!("spec.nodeName={name}"));
    let stream = kubeio::watch(context.client.clone(), collection);
    pin_mut!(stream);
    let mut pods = Pods { context: Arc::clone(context), tasks: BTreeMap::new() };
    loop {
        let event = tokio::select! { biased;
            () = shutdown.cancelled() => break,
            event = stream.next() => event,
        };
        match event {
            Some(Event::Reset(list)) => pods.reset(list),
            Some(Event::Applied(pod)) => pods.apply(pod),
            Some(Event::Deleted(pod)) => pods.vanish(pod.metadata.uid.as_deref().unwrap_or_default()),
            Some(Event::Interrupted(error)) => tracing::warn!(node = name, %error, "pods cannot be watched"),
            Some(Event::Resumed) => {}
            None => break,
        }
    }
    pods.stop().await;
}

/// The pods that this node has taken, by UID.
struct Pods {
    context: Arc<NodeContext>,
    tasks: BTreeMap<String, (watch::Sender<Order>, JoinHandle<()>)>,
}

impl Pods {
    fn reset(&mut self, list: Vec<Pod>) {
        let named: Vec<&str> = list.iter().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
        let gone: Vec<String> = self.tasks.keys().filter(|uid| !named.contains(&uid.as_str())).cloned().collect();
        for uid in gone {
            self.vanish(&uid);
        }
        for pod in list {
            self.apply(pod);
        }
    }

    fn apply(&mut self, pod: Pod) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let order = order(&pod);
        if let Some((sender, _)) = self.tasks.get(&uid) {
            sender.send_if_modified(|known| {
                let changed = *known != order && order != Order::Run;
                if changed {
                    *known = order;
                }
                changed
            });
            return;
        }
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) && order == Order::Run {
            return;
        }
        let (sender, receiver) = watch::channel(order);
        let task = tokio::spawn(PodTask::new(Arc::clone(&self.context), pod).run(receiver));
        self.tasks.insert(uid, (sender, task));
    }

    fn vanish(&mut self, uid: &str) {
        if let Some((sender, _)) = self.tasks.remove(uid) {
            let _ = sender.send(Order::Vanish);
        }
    }

    /// The node goes down: containers are stopped, statuses are written if there is time for it.
    async fn stop(self) {
        let tasks: Vec<_> = self.tasks.into_values().collect();
        for (sender, _) in &tasks {
            let _ = sender.send(Order::Leave(SHUTDOWN_GRACE));
        }
        let waiting = futures::future::join_all(tasks.into_iter().map(|(sender, mut task)| async move {
            let _ = tokio::time::timeout(SHUTDOWN_GRACE + Duration::from_secs(1), &mut task).await;
            task.abort();
            drop(sender);
        }));
        waiting.await;
    }
}

fn order(pod: &Pod) -> Order {
    if pod.metadata.deletion_timestamp.is_none() {
        return Order::Run;
    }
    let grace = pod.metadata.deletion_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Order::Stop(Duration::from_secs(grace.unwrap_or(30)))
}

/// Creates the Node object and says again and again that it is alive: in its lease often, in its status rarely, because
/// everybody watches nodes and nobody watches leases.
async fn keep_registered(client: &Client, options: &Options) {
    let mut status_at = Instant::now();
    loop {
        let outcome = async {
            if Instant::now() >= status_at {
                register(client, options).await?;
                status_at = Instant::now() + STATUS_INTERVAL;
            }
            renew_lease(client, options).await
        };
        let pause = match outcome.await {
            Ok(()) => HEARTBEAT,
            Err(error) => {
                tracing::warn!(node = options.name, %error, "the node could not register; trying again");
                Duration::from_secs(1)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn renew_lease(client: &Client, options: &Options) -> Result<(), CallError> {
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases");
    let renewed = (options.clock)().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let spec = json!({"holderIdentity": options.name, "leaseDurationSeconds": 40, "renewTime": renewed});
    let body = json!({"spec": spec}).to_string().into_bytes();
    let path = format!("{leases}/{}", options.name);
    match kubeio::patch(client, &path, Patch::Merge, body, API_DEADLINE).await {
        Err(error) if error.is_not_found() => {}
        other => return other.map(drop),
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}});
    match kubeio::create(client, "/api/v1/namespaces", namespace.to_string().into_bytes(), API_DEADLINE).await {
        Err(error) if !error.is_already_exists() => return Err(error),
        _ => {}
    }
    let metadata = json!({"name": options.name, "namespace": LEASE_NAMESPACE});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec});
    kubeio::create(client, &leases, lease.to_string().into_bytes(), API_DEADLINE).await.map(drop)
}

async fn register(client: &Client, options: &Options) -> Result<(), CallError> {
    let path = format!("/api/v1/nodes/{}", options.name);
    let status = node_status(options);
    let body = json!({"status": status}).to_string().into_bytes();
    match kubeio::patch(client, &format!("{path}/status"), Patch::Strategic, body.clone(), API_DEADLINE).await {
        Err(error) if error.is_not_found() => {}
        other => return other.map(drop),
    }
    let mut labels = options.labels.clone();
    for (label, value) in [
        ("kubernetes.io/hostname", options.name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }),
    ] {
        labels.entry(label.to_owned()).or_insert_with(|| value.to_owned());
    }
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": options.name, "labels": labels}, "spec": {}, "status": status,
    });
    kubeio::create(client, "/api/v1/nodes", node.to_string().into_bytes(), API_DEADLINE).await?;
    // An API server taints new nodes as not ready and leaves it to a controller to take that back; we are ready.
    let ready = json!({"spec": {"taints": null}}).to_string().into_bytes();
    kubeio::patch(client, &path, Patch::Merge, ready, API_DEADLINE).await?;
    kubeio::patch(client, &format!("{path}/status"), Patch::Strategic, body, API_DEADLINE).await.map(drop)
}

fn node_status(options: &Options) -> Value {
    let now = seconds((options.clock)());
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": now});
    let mut capacity = options.capacity.clone();
    for (resource, amount) in [("cpu", "8"), ("memory", "16Gi"), ("pods", "1000")] {
        capacity.entry(resource.to_owned()).or_insert_with(|| amount.to_owned());
    }
    json!({
        "capacity": capacity, "allocatable": capacity,
        "conditions": [condition("Ready", "True", "NodeReady", "pods run as local processes")],
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": options.name}],
        "nodeInfo": {
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "operatingSystem": "linux", "osImage": "host", "kernelVersion": "", "machineID": "", "systemUUID": "",
            "bootID": "", "containerRuntimeVersion": "process://1", "kubeletVersion": concat!("v", env!("CARGO_PKG_VERSION"), "-jobferry"),
            "kubeProxyVersion": "",
        },
    })
}
