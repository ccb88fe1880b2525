//! Who ferries the Jobs: a process of its own.

use std::{path::Path, process::Command, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use clap::ValueEnum;
use jobferry_api::{KUBECONFIG_KEY, SYSTEM_NAMESPACE};
use jobferry_kubeio as kubeio;
use jobferry_testkit::{
    User,
    operator::{KUEUE, KUEUE_UNLIMITED, MultiKueue},
};
use serde_json::json;

use crate::{
    fleet::{Fleet, NAMESPACE},
    floor,
    measure::{process::Process, usage},
};

const ANSWER_WITHIN: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contender {
    /// The bare client.
    Floor,
    /// The shipped binary.
    Jobferry,
    /// MultiKueue as it ships.
    KueueShipped,
    /// MultiKueue as fast as its settings allow.
    KueueBest,
}

/// A contender at work.
pub(crate) enum Ferry {
    Process(Process),
    /// A process on every cluster.
    Kueue(MultiKueue),
}

impl Ferry {
    /// What comes of `work`, unless the contender ends meanwhile.
    pub(crate) async fn watched<T>(&mut self, work: impl Future<Output = T>) -> T {
        match self {
            Self::Process(process) => process.watched(work).await,
            Self::Kueue(kueue) => tokio::select! {
                done = work => done,
                end = kueue.ended() => panic!("{end}"),
            },
        }
    }

    pub(crate) fn cpu(&self) -> Duration {
        self.ids().into_iter().map(usage::cpu).sum()
    }

    /// Of all its processes, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.ids().into_iter().map(usage::peak_memory).sum()
    }

    fn ids(&self) -> Vec<u32> {
        match self {
            Self::Process(process) => vec![process.id()],
            Self::Kueue(kueue) => kueue.ids().collect(),
        }
    }
}

impl Contender {
    pub(crate) const ALL: [Self; 4] = [Self::Floor, Self::Jobferry, Self::KueueShipped, Self::KueueBest];

    /// As `--only` takes it.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether it is MultiKueue, however tuned.
    pub(crate) const fn is_kueue(self) -> bool {
        matches!(self, Self::KueueShipped | Self::KueueBest)
    }

    pub(crate) async fn start(self, fleet: &Fleet, jobferry: &Path) -> Ferry {
        let log = fleet.manager.directory().join("contender.log");
        let program = match self {
            Self::Floor => return Ferry::Process(Process::start(floor_command(fleet), log)),
            Self::Jobferry => {
                set_up(fleet, jobferry).await;
                return Ferry::Process(Process::start(jobferry_command(fleet, jobferry), log));
            }
            Self::KueueShipped => KUEUE,
            Self::KueueBest => KUEUE_UNLIMITED,
        };
        let kueue = MultiKueue::start(&program, &fleet.manager, &fleet.workers, NAMESPACE).await;
        Ferry::Kueue(kueue.unwrap_or_else(|error| panic!("{error}")))
    }
}

fn floor_command(fleet: &Fleet) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(floor::ROLE).arg("--manager").arg(fleet.manager.kubeconfig_path(User::Dispatcher));
    for worker in &fleet.workers {
        command.arg("--worker").arg(worker.kubeconfig_path(User::Dispatcher));
    }
    command
}

fn jobferry_command(fleet: &Fleet, jobferry: &Path) -> Command {
    let mut command = Command::new(jobferry);
    command.args(["dispatcher", "--metrics-address", "127.0.0.1:0", "--kubeconfig"]);
    command.arg(fleet.manager.kubeconfig_path(User::Dispatcher));
    command
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
