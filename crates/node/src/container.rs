//! One container: set up, run, run again by its policy, stopped when the pod is.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::sync::watch;

use crate::{
    NodeContext,
    board::{Board, Place},
    env::{self, SetupError},
    logs::LogFile,
    process::{Launch, Process},
    status::{ContainerState, Ended, RestartPolicy},
    volumes,
};

/// The first wait before a container that ended is started again; the very first restart does not wait.
const FIRST_CRASH_DELAY: Duration = Duration::from_secs(10);
/// The longest wait.
const LONGEST_CRASH_DELAY: Duration = Duration::from_mins(5);

/// The exit code of a container that could not be started, as container runtimes report it.
const START_FAILED: i32 = 128;

/// Whether, and how gently, containers are to be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Run,
    /// SIGTERM, and SIGKILL after this time.
    Stop(Duration),
}

/// What a container needs beside its spec.
pub(crate) struct Surroundings<'a> {
    pub(crate) context: &'a Arc<NodeContext>,
    pub(crate) pod: &'a Pod,
    pub(crate) directory: PathBuf,
    pub(crate) volumes: &'a BTreeMap<String, PathBuf>,
    pub(crate) board: &'a Board,
    pub(crate) policy: RestartPolicy,
}

impl Surroundings<'_> {
    /// Runs a container to its end. Returns whether it ended well; when the pod is stopped, it did not.
    pub(crate) async fn run(&self, container: &Container, place: Place, wish: watch::Receiver<Wish>) -> bool {
        let ended_well = self.run_by_policy(container, place, wish).await;
        self.context.close_log(self.pod_uid(), &container.name);
        ended_well
    }

    async fn run_by_policy(&self, container: &Container, place: Place, mut wish: watch::Receiver<Wish>) -> bool {
        for attempt in 0.. {
            let started = (self.context.clock)();
            let (code, failure) = match self.start(container, attempt).await {
                Ok(process) => {
                    self.board.update_container(place, |run| run.state = ContainerState::Running { since: started });
                    (run_to_end(process, &mut wish).await, None)
                }
                Err(error) => (START_FAILED, Some(error.to_string())),
            };
            let mut ended = Ended::with_code(code, started, (self.context.clock)());
            if let Some(message) = failure {
                ended = Ended { reason: "StartError".to_owned(), message, ..ended };
            }
            let stopped = *wish.borrow() != Wish::Run;
            if stopped || !self.policy.restarts(code) {
                self.board.update_container(place, |run| run.state = ContainerState::Ended(ended));
                return code == 0;
            }
            self.board.update_container(place, |run| {
                run.last = Some(ended.clone());
                run.state = ContainerState::Waiting {
                    reason: if attempt == 0 { "ContainerCreating" } else { "CrashLoopBackOff" }.to_owned(),
                    message: ended.message.clone(),
                };
            });
            tokio::select! { biased;
                _ = wish.wait_for(|wish| *wish != Wish::Run) => {
                    self.board.update_container(place, |run| run.state = ContainerState::Ended(ended));
                    return false;
                }
                () = tokio::time::sleep(crash_delay(attempt)) => {}
            }
            self.board.update_container(place, |run| run.restarts += 1);
        }
        false
    }

    async fn start(&self, container: &Container, attempt: u32) -> Result<Process, SetupError> {
        let context = self.context;
        let root = self.directory.join("containers").join(&container.name);
        let files = |path: &std::path::Path| {
            let path = path.display().to_string();
            move |source| SetupError::Files { path, source }
        };
        std::fs::create_dir_all(&root).map_err(files(&root))?;
        let mut variables = env::resolve(&context.client, self.pod, container, &context.address).await?;
        let command = env::command(container, &variables)?;
        variables.extend(volumes::mount(container, self.volumes, &root)?);
        variables.entry("HOME".to_owned()).or_insert_with(|| root.display().to_string());
        let directory = container.working_dir.as_ref().map_or(root, PathBuf::from);
        let program = command.first().cloned().unwrap_or_default();
        let launch = Launch { command, env: variables, directory, mark: context.mark.clone() };
        let log = context.log_path(self.pod_uid(), &container.name, attempt);
        log.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(files(&log))?;
        let log = LogFile::new(log, Arc::clone(&context.clock));
        launch.start(log, Arc::clone(&context.reaper)).map_err(|source| SetupError::Files { path: program, source })
    }

    fn pod_uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }
}

async fn run_to_end(mut process: Process, wish: &mut watch::Receiver<Wish>) -> i32 {
    let grace = tokio::select! { biased;
        code = process.wait() => return code,
        grace = stopped(wish) => grace,
    };
    process.terminate();
    if let Ok(code) = tokio::time::timeout(grace, process.wait()).await {
        return code;
    }
    process.kill();
    process.wait().await
}

/// Waits until the pod is to be stopped; returns the time that its containers have for it.
async fn stopped(wish: &mut watch::Receiver<Wish>) -> Duration {
    match wish.wait_for(|wish| *wish != Wish::Run).await.as_deref() {
        Ok(Wish::Stop(grace)) => *grace,
        // Nobody can ask any more: the node is going down.
        _ => Duration::ZERO,
    }
}

fn crash_delay(attempt: u32) -> Duration {
    match attempt.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => (FIRST_CRASH_DELAY * (1 << doublings.min(5))).min(LONGEST_CRASH_DELAY),
    }
}
