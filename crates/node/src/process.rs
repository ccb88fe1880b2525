//! One run of a container: a process in a group of its own, its output in a log file.

use std::{
    collections::BTreeMap,
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use crate::{
    logs::LogFile,
    reaper::{MARK, Reaper},
};

/// After the process has ended, its output is read for at most this long: a child in the background may keep it open.
const DRAIN: Duration = Duration::from_millis(500);

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) command: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) directory: PathBuf,
    pub(crate) mark: String,
}

/// A running process group.
pub(crate) struct Process {
    child: Child,
    group: Option<Pid>,
    output: tokio::task::JoinHandle<()>,
    reaper: Arc<Reaper>,
}

impl Launch {
    /// Starts the process.
    pub(crate) fn start(&self, log: LogFile, reaper: Arc<Reaper>) -> io::Result<Process> {
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no command"))?;
        let mut command = std::process::Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "LANG" || name == "TZ"))
            .envs(&self.env)
            .env(MARK, &self.mark)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = Command::from(command).spawn()?;
        let group = child.id();
        group.inspect(|group| reaper.add(*group));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let output = tokio::spawn(async move { log.write(stdout, stderr).await });
        let group = group.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Process { child, group, output, reaper })
    }
}

impl Process {
    /// Waits for the end; the exit code, 128 + signal if a signal ended it. Cancel-safe.
    pub(crate) async fn wait(&mut self) -> i32 {
        let code = match self.child.wait().await {
            Ok(status) => exit_code(status),
            Err(error) => {
                tracing::error!(%error, "a container's process cannot be waited for");
                255
            }
        };
        self.signal(Signal::KILL);
        let _ = tokio::time::timeout(DRAIN, &mut self.output).await;
        if let Some(group) = self.group.take() {
            self.reaper.remove(group.as_raw_nonzero().get().unsigned_abs());
        }
        code
    }

    /// Asks the whole group to end.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends the whole group.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that is gone needs no signal.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// A task that is cut off takes its processes with it.
impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        self.output.abort();
    }
}

fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255)
}
