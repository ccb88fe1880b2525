//! Whatever ends the process that holds a cluster, nothing of the cluster stays behind.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jobferry_testkit::Testbed;
use rustix::process::{Pid, Signal, kill_process};

/// `testbed up` with one cluster, ready.
struct Holder {
    process: Child,
    kubeconfig: PathBuf,
}

impl Holder {
    fn start(directory: &Path) -> Self {
        let testbed = Testbed::from_environment().unwrap_or_else(|missing| panic!("{missing}"));
        let mut process = Command::new(env!("CARGO_BIN_EXE_testbed"))
            .args(["up", "--clusters", "1", "--dir"])
            .arg(directory)
            .env(jobferry_testkit::TESTBED_VARIABLE, testbed.directory())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, kubeconfig: PathBuf::from(line.trim()) }
    }

    fn end_by(&mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Holder {
    /// A test that failed halfway must not leave it running.
    fn drop(&mut self) {
        let _ = self.process.kill();
    }
}

/// Every process whose command line names the directory: the components, and the guard.
fn processes_in(directory: &Path) -> Vec<(Pid, String)> {
    let directory = directory.display().to_string();
    let ids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let command_line = |id: i32| {
        let text = std::fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?.replace('\0', " ");
        text.contains(&directory).then_some((Pid::from_raw(id)?, text))
    };
    ids.filter_map(command_line).collect()
}

fn pid_of(binary: &str, directory: &Path) -> Pid {
    let found = processes_in(directory).into_iter().find(|(_, command)| command.contains(&format!("/{binary} ")));
    found.unwrap_or_else(|| panic!("no {binary} in {}", directory.display())).0
}

fn assert_nothing_is_left(directory: &Path) {
    for _ in 0..200 {
        if processes_in(directory).is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("still there: {:?}", processes_in(directory));
}

#[test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
fn kill_minus_nine_leaves_no_process_behind_not_even_a_frozen_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut holder = Holder::start(directory.path());
    let components = ["etcd", "kube-apiserver", "kube-controller-manager"];
    let pids = components.map(|binary| pid_of(binary, directory.path()));
    kill_process(pids[0], Signal::STOP).unwrap();
    holder.end_by(Signal::KILL);
    assert_nothing_is_left(directory.path());
}

#[test]
#[ignore = "needs real Kubernetes: cargo xtask test"]
fn sigterm_ends_everything_and_the_directory_can_be_used_again() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let mut holder = Holder::start(directory.path());
        let mode = holder.kubeconfig.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "a kubeconfig holds a secret");
        pid_of("kube-apiserver", directory.path());
        holder.end_by(Signal::TERM);
        assert_nothing_is_left(directory.path());
    }
}
