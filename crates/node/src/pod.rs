//! One pod on this node, from its binding to its end.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jobferry_kubeio::{self as kubeio, Patch};
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use crate::{
    API_DEADLINE, NodeContext,
    board::Board,
    container::Wish,
    sequence,
    status::{ContainerRun, ContainerState, PodRun, RestartPolicy},
};

/// Changes within this time make one status write; a container that ends at once is never reported as running.
const GATHER: Duration = Duration::from_millis(25);
/// How long to wait before a status that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Why a pod failed that an earlier run of this node had.
const NODE_RESTARTED: &str = "NodeRestarted";

/// What the API server wants of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// It is to run.
    Run,
    /// It is to end within this time, then the object is to be deleted.
    Stop(Duration),
    /// The node goes down: it is to end within this time, and its status is to say so.
    Leave(Duration),
    /// The object is gone: nobody wants to know how it ended.
    Vanish,
}

/// A pod that this node has taken.
pub(crate) struct PodTask {
    context: Arc<NodeContext>,
    pod: Pod,
    board: Arc<Board>,
    /// Conditions as they were written last.
    conditions: Vec<Value>,
}

impl PodTask {
    pub(crate) fn new(context: Arc<NodeContext>, pod: Pod) -> Self {
        let spec = pod.spec.as_ref();
        let list = |containers: Option<&Vec<Container>>, reason: &str| -> Vec<ContainerRun> {
            let image = |c: &Container| c.image.clone().unwrap_or_default();
            let run = |c: &Container| ContainerRun {
                sidecar: sequence::is_sidecar(c),
                ..ContainerRun::waiting(&c.name, &image(c), reason)
            };
            containers.into_iter().flatten().map(run).collect()
        };
        let policy = spec.and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always");
        let init = list(spec.and_then(|spec| spec.init_containers.as_ref()), "PodInitializing");
        let first = if init.is_empty() { "ContainerCreating" } else { "PodInitializing" };
        let run = PodRun {
            started: (context.clock)(),
            restart_policy: RestartPolicy::of(policy),
            main: list(spec.map(|spec| &spec.containers), first),
            init,
            address: context.address.clone(),
            failure: None,
        };
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let conditions = conditions.into_iter().flatten().filter_map(|c| serde_json::to_value(c).ok()).collect();
        Self { context, pod, board: Arc::new(Board::new(run)), conditions }
    }

    fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }

    fn path(&self) -> String {
        let meta = &self.pod.metadata;
        let (namespace, name) =
            (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
        format!("/api/v1/namespaces/{namespace}/pods/{name}")
    }

    /// Runs the pod to its end and beyond, until its object is gone.
    pub(crate) async fn run(mut self, mut order: watch::Receiver<Order>) {
        let directory = self.context.pod_directory(self.uid());
        if directory.exists() {
            // An earlier run of this node had it: what became of its processes nobody knows, only that they are gone.
            let message = "the node was restarted while the pod ran on it";
            self.board.update(|run| run.failure = Some((NODE_RESTARTED.to_owned(), message.to_owned())));
        } else if let Err(error) = std::fs::create_dir_all(&directory) {
            let message = format!("{}: {error}", directory.display());
            self.board.update(|run| run.failure = Some(("NodeError".to_owned(), message)));
        } else if self.run_containers(directory.clone(), &mut order).await {
            return clean(&directory);
        }
        self.fail_what_never_ran();
        self.write_status_until_stored(&mut order).await;
        // The object stays until somebody deletes it.
        let _ = order.wait_for(|order| *order != Order::Run).await;
        while matches!(*order.borrow(), Order::Stop(_)) && !self.delete_object().await {
            tokio::time::sleep(RETRY).await;
        }
        if matches!(*order.borrow(), Order::Leave(_)) {
            return;
        }
        let _ = order.wait_for(|order| *order == Order::Vanish).await;
        clean(&directory);
    }

    /// Runs all containers and keeps the status current. Returns whether the object vanished meanwhile.
    async fn run_containers(&mut self, directory: PathBuf, order: &mut watch::Receiver<Order>) -> bool {
        let (wish, wishes) = watch::channel(Wish::Run);
        let context = Arc::clone(&self.context);
        let pod = self.pod.clone();
        let board = Arc::clone(&self.board);
        let mut vanished = false;
        {
            let work = sequence::run(&context, &pod, &board, directory, wishes);
            tokio::pin!(work);
            let mut news = board.subscribe();
            let mut write_at: Option<Instant> = Some(Instant::now() + GATHER);
            let allowed = pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
            let mut deadline = allowed
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map(|s| Instant::now() + Duration::from_secs(s));
            loop {
                let due = write_at.unwrap_or_else(Instant::now);
                tokio::select! { biased;
                    () = &mut work => break,
                    changed = order.changed() => {
                        match *order.borrow_and_update() {
                            Order::Run => {}
                            Order::Stop(grace) | Order::Leave(grace) => drop(wish.send(Wish::Stop(grace))),
                            Order::Vanish => {
                                vanished = true;
                                let _ = wish.send(Wish::Stop(Duration::ZERO));
                            }
                        }
                        if changed.is_err() {
                            // The node goes down: its containers go with it.
                            let _ = wish.send(Wish::Stop(Duration::ZERO));
                            break;
                        }
                    }
                    () = sleep_until(deadline), if deadline.is_some() => {
                        deadline = None;
                        let message = "Pod was active on the node longer than the specified deadline";
                        board.update(|run| run.failure = Some(("DeadlineExceeded".to_owned(), message.to_owned())));
                        let _ = wish.send(Wish::Stop(grace_of(&pod)));
                    }
                    _ = news.changed(), if write_at.is_none() => write_at = Some(Instant::now() + GATHER),
                    () = tokio::time::sleep_until(due), if write_at.is_some() => {
                        let run = news.borrow_and_update().clone();
                        let stored = run.ended() || vanished || self.write_status(&run).await;
                        write_at = (!stored).then(|| Instant::now() + RETRY);
                    }
                }
            }
        }
        vanished
    }

    /// The pod is over. A container that never started has a state that says so.
    fn fail_what_never_ran(&self) {
        let now = (self.context.clock)();
        self.board.update(|run| {
            // What became of containers of an earlier run of the node is not known, however the pod ended.
            let is_unknown = run.failure.as_ref().is_some_and(|(reason, _)| reason == NODE_RESTARTED);
            if run.ended() && !is_unknown {
                return;
            }
            for container in run.init.iter_mut().chain(&mut run.main) {
                if !matches!(container.state, ContainerState::Ended(_)) {
                    let ended = crate::status::Ended {
                        reason: "ContainerStatusUnknown".to_owned(),
                        message: "the container was stopped before it was seen to end".to_owned(),
                        ..crate::status::Ended::with_code(137, now, now)
                    };
                    container.state = ContainerState::Ended(ended);
                }
            }
        });
    }

    async fn write_status_until_stored(&mut self, order: &mut watch::Receiver<Order>) {
        loop {
            let run = self.board.read();
            if *order.borrow() == Order::Vanish || self.write_status(&run).await {
                return;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Writes the status; true if it is stored or nobody is left to store it for.
    async fn write_status(&mut self, run: &PodRun) -> bool {
        let status = run.status(&self.conditions, (self.context.clock)());
        let path = format!("{}/status", self.path());
        let body = json!({"metadata": {"uid": self.uid()}, "status": status}).to_string().into_bytes();
        match kubeio::patch(&self.context.client, &path, Patch::Strategic, body, API_DEADLINE).await {
            Ok(_) => {
                self.conditions = status["conditions"].as_array().cloned().unwrap_or_default();
                true
            }
            Err(error) if is_gone(&error) => true,
            Err(error) => {
                tracing::warn!(pod = self.path(), %error, "a pod's status could not be written; trying again");
                false
            }
        }
    }

    /// The containers are gone, now the object may go.
    async fn delete_object(&self) -> bool {
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid()}}).to_string().into_bytes();
        match kubeio::delete(&self.context.client, &self.path(), options, API_DEADLINE).await {
            Ok(_) => true,
            Err(error) if is_gone(&error) => true,
            Err(error) => {
                tracing::warn!(pod = self.path(), %error, "a pod could not be deleted; trying again");
                false
            }
        }
    }
}

fn clean(directory: &Path) {
    if let Err(error) = std::fs::remove_dir_all(directory) {
        tracing::debug!(path = %directory.display(), %error, "a pod's directory could not be removed");
    }
}

async fn sleep_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// How long the containers of a pod may take to end when nobody says otherwise.
pub(crate) fn grace_of(pod: &Pod) -> Duration {
    let seconds = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    Duration::from_secs(seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(30))
}

/// The object does not exist any more, or another one has its name.
fn is_gone(error: &kubeio::CallError) -> bool {
    error.is_not_found() || error.refusal().is_some_and(|refusal| matches!(refusal.code, 409 | 422))
}
