//! Containers die with their node, also when the node is killed with `kill -9`.
//!
//! Linux has a signal for the death of a parent, but setting it needs code between fork and exec, which is `unsafe` in
//! Rust; and it follows the *thread* that forked, not the process. So the node starts a second process, the reaper: the
//! program itself with another argument. It holds the reading end of a pipe whose only writing end is in the node. When
//! the node ends, however it ends, the pipe closes and the reaper kills what is left: the process groups that the node has
//! told it, and every process whose environment carries the node's mark. The second catches a container that
//! was started in the last moment, and children that left their process group.

use std::{
    collections::BTreeSet,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The argument that makes a program act as a reaper; see [`enter_if_asked`].
pub const REAPER_ARGUMENT: &str = "__node-reaper";
/// The environment variable that marks every process of a node.
pub(crate) const MARK: &str = "JOBFERRY_NODE_RUN";
/// A process that forks while it is killed needs another round.
const ROUNDS: usize = 20;

/// Acts as a reaper and returns true if the program was started as one. To be called first in `main`: a node starts its
/// own program again as its reaper.
pub fn enter_if_asked() -> bool {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(REAPER_ARGUMENT) {
        return false;
    }
    let mark = arguments.next().unwrap_or_default();
    reap_at_the_end(io::stdin().lock(), &mark);
    true
}

/// Waits for the end of `node`, then kills.
fn reap_at_the_end(node: impl Read, mark: &str) {
    let mut groups = BTreeSet::new();
    for line in BufReader::new(node).lines() {
        let Ok(line) = line else { break };
        match line.split_at_checked(1) {
            Some(("+", group)) => drop(group.parse::<i32>().map(|group| groups.insert(group))),
            Some(("-", group)) => drop(group.parse::<i32>().map(|group| groups.remove(&group))),
            _ => {}
        }
    }
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let entry = format!("{MARK}={mark}");
    for _ in 0..ROUNDS {
        let marked = marked_processes(entry.as_bytes());
        if marked.is_empty() {
            return;
        }
        for process in marked {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

fn marked_processes(entry: &[u8]) -> Vec<Pid> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = processes.flatten().filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok());
    let marked = ids.filter(|id| {
        std::fs::read(format!("/proc/{id}/environ"))
            .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|variable| variable == entry))
    });
    marked.filter_map(Pid::from_raw).collect()
}

/// The node's end of the pipe.
#[derive(Debug)]
pub(crate) struct Reaper {
    pipe: Mutex<Option<ChildStdin>>,
    child: Mutex<Child>,
}

impl Reaper {
    /// Starts `program` as the reaper of the node that marks its processes with `mark`.
    pub(crate) fn start(program: &PathBuf, mark: &str) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args([REAPER_ARGUMENT, mark])
            .env_remove(MARK)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A Ctrl-C in the terminal is for the node.
            .process_group(0)
            .spawn()?;
        Ok(Self { pipe: Mutex::new(child.stdin.take()), child: Mutex::new(child) })
    }

    pub(crate) fn add(&self, group: u32) {
        self.say('+', group);
    }

    pub(crate) fn remove(&self, group: u32) {
        self.say('-', group);
    }

    fn say(&self, sign: char, group: u32) {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipe) = pipe.as_mut()
            && let Err(error) = writeln!(pipe, "{sign}{group}")
        {
            tracing::error!(%error, "the reaper is gone: containers would survive this process");
        }
    }
}

/// The node ends: the reaper kills what is left, then it is waited for.
impl Drop for Reaper {
    fn drop(&mut self) {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = self.child.lock().unwrap_or_else(PoisonError::into_inner).wait();
    }
}
