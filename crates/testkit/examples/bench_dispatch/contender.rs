//! Who ferries the Jobs: a process of its own.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    pin::pin,
    process::{Child, Command},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use clap::ValueEnum;
use jobferry_api::{KUBECONFIG_KEY, SYSTEM_NAMESPACE};
use jobferry_kubeio as kubeio;
use jobferry_testkit::{ProcessGroup, User};
use serde_json::json;

use crate::{fleet::Fleet, floor, usage};

const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Between two looks whether a contender still runs.
const LOOK_EVERY: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contender {
    /// The bare client.
    Floor,
    /// The shipped binary.
    Jobferry,
}

/// A running contender. Ends when dropped.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    _group: ProcessGroup,
}

impl Contender {
    pub(crate) async fn start(self, fleet: &Fleet, jobferry: &Path) -> Process {
        let manager = fleet.manager.kubeconfig_path(User::Dispatcher);
        let command = match self {
            Self::Floor => {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.arg(floor::ROLE).arg("--manager").arg(manager);
                for worker in &fleet.workers {
                    command.arg("--worker").arg(worker.kubeconfig_path(User::Dispatcher));
                }
                command
            }
            Self::Jobferry => {
                set_up(fleet, jobferry).await;
                let mut command = Command::new(jobferry);
                command.args(["dispatcher", "--metrics-address", "127.0.0.1:0", "--kubeconfig"]).arg(manager);
                command
            }
        };
        Process::start(command, fleet.manager.directory().join("contender.log"))
    }
}

/// What a user does: install, then join the workers.
async fn set_up(fleet: &Fleet, jobferry: &Path) {
    let kubeconfig = fleet.manager.kubeconfig_path(User::Admin);
    let installed = Command::new(jobferry).args(["install", "--kubeconfig"]).arg(kubeconfig).output().unwrap();
    assert!(installed.status.success(), "jobferry install: {}", String::from_utf8_lossy(&installed.stderr));
    let client = Fleet::client(&fleet.manager).await;
    for worker in &fleet.workers {
        let name = worker.name();
        let kubeconfig = BASE64_STANDARD.encode(worker.kubeconfig(User::Dispatcher));
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {KUBECONFIG_KEY: kubeconfig},
        });
        let worker = json!({
            "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker",
            "metadata": {"name": name}, "spec": {"kubeconfigSecret": name},
        });
        let secrets = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets");
        for (collection, object) in [(secrets.as_str(), secret), ("/apis/jobferry.dev/v1alpha1/workers", worker)] {
            kubeio::create(&client, collection, object.to_string().into_bytes(), ANSWER_WITHIN).await.unwrap();
        }
    }
}

impl Process {
    fn start(mut command: Command, log: PathBuf) -> Self {
        let file = File::create(&log).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file);
        let group = ProcessGroup::new(None).unwrap();
        Self { child: group.spawn(&mut command).unwrap(), log, _group: group }
    }

    /// What comes of `work`, unless this process ends meanwhile.
    pub(crate) async fn watched<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            if let Ok(done) = tokio::time::timeout(LOOK_EVERY, work.as_mut()).await {
                return done;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the contender ended ({status}):\n{}", fs::read_to_string(&self.log).unwrap_or_default());
            }
        }
    }

    pub(crate) fn cpu(&self) -> Duration {
        usage::cpu(self.child.id())
    }

    pub(crate) fn peak_memory(&self) -> u64 {
        usage::peak_memory(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Reaps it; the group's guard makes sure of the rest.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
