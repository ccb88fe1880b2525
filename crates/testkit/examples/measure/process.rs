//! A process that is measured.

use std::{
    fs::{self, File},
    path::PathBuf,
    pin::pin,
    process::{Child, Command},
    time::Duration,
};

use jobferry_testkit::ProcessGroup;
use rustix::process::{Pid, Signal, kill_process};

use super::usage;

/// Between two looks whether it still runs.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Ends when dropped.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    _group: ProcessGroup,
}

impl Process {
    pub(crate) fn start(mut command: Command, log: PathBuf) -> Self {
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
                panic!("the measured process ended ({status}):\n{}", self.log());
            }
        }
    }

    /// What it has said so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn cpu(&self) -> Duration {
        usage::cpu(self.id())
    }

    pub(crate) fn cpu_since(&self, before: Duration) -> Duration {
        self.cpu().saturating_sub(before)
    }

    /// In bytes.
    pub(crate) fn memory(&self) -> u64 {
        usage::memory(self.id())
    }

    /// In bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        usage::peak_memory(self.id())
    }

    /// Ends it in an orderly way.
    pub(crate) fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Reaps it; the group's guard makes sure of the rest.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
