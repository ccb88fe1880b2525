//! Who ferries the Jobs: a process of its own.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use clap::ValueEnum;
use jobferry_api::{KUBECONFIG_KEY, SYSTEM_NAMESPACE};
use jobferry_kubeio as kubeio;
use jobferry_testkit::User;
use serde_json::json;

use crate::{
    fleet::Fleet,
    floor,
    kueue::{Kueue, Tuning},
    measure::process::Process,
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

/// What contenders are started from.
pub(crate) struct Binaries {
    pub(crate) jobferry: PathBuf,
    pub(crate) kueue: Option<Kueue>,
}

/// A contender at work: one process, and those on workers of one that wants them.
pub(crate) struct Ferry {
    main: Process,
    on_workers: Vec<Process>,
}

impl Ferry {
    /// What comes of `work`, unless the contender ends meanwhile.
    pub(crate) async fn watched<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.main.watched(work).await
    }

    pub(crate) fn cpu(&self) -> Duration {
        self.main.cpu() + self.on_workers.iter().map(Process::cpu).sum::<Duration>()
    }

    /// Of all its processes, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.main.peak_memory() + self.on_workers.iter().map(Process::peak_memory).sum::<u64>()
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

    pub(crate) async fn start(self, fleet: &Fleet, binaries: &Binaries) -> Ferry {
        let log = fleet.manager.directory().join("contender.log");
        let alone = |command| Ferry { main: Process::start(command, log), on_workers: Vec::new() };
        let tuning = match self {
            Self::Floor => return alone(floor_command(fleet)),
            Self::Jobferry => {
                set_up(fleet, &binaries.jobferry).await;
                return alone(jobferry_command(fleet, &binaries.jobferry));
            }
            Self::KueueShipped => Tuning::Shipped,
            Self::KueueBest => Tuning::Best,
        };
        let kueue = binaries.kueue.as_ref().expect("Kueue was built: --opponent kueue");
        let mut processes = kueue.start(fleet, tuning).await;
        Ferry { main: processes.remove(0), on_workers: processes }
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
