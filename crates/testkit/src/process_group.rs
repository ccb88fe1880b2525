//! Processes that cannot outlive their holder, however it ends.
//!
//! ```text
//!   holder ──pipe──► guard (sh, leader of the group)
//!     └─ children, put into the guard's group before they run their first instruction
//! ```
//!
//! The guard does nothing but read its end of the pipe. When the holder ends, by whatever signal, the kernel closes the
//! other end, the read returns, and the guard kills the whole group, itself included. This needs neither unsafe code
//! nor Linux' parent-death signal (which follows the forking *thread*, a trap in a test harness that ends threads).

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Stopped children make the kernel hang up on a group whose parent has died; the guard must survive that to kill
/// what ignores it. `$1` is a directory to remove first, or empty.
const GUARD: &str = r#"trap '' HUP INT TERM; read -r _; [ -z "$1" ] || rm -rf -- "$1"; kill -9 0"#;

/// A group of child processes that is killed when this value is dropped, or when the process that holds it ends.
#[derive(Debug)]
pub struct ProcessGroup {
    guard: Child,
}

impl ProcessGroup {
    /// An empty group. `scratch` is removed together with it.
    pub fn new(scratch: Option<&Path>) -> io::Result<Self> {
        let guard = Command::new("sh")
            .args(["-c", GUARD, "testbed-guard"])
            .arg(scratch.unwrap_or_else(|| Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { guard })
    }

    /// Starts a process as a member of the group. The caller reaps it.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let group = i32::try_from(self.guard.id()).map_err(io::Error::other)?;
        command.stdin(Stdio::null()).process_group(group).spawn()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // Nothing is left to be done about a failure; the guard is no longer ours to wait for then.
        let _ = self.guard.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, kill_process};

    fn sleeper() -> Command {
        let mut command = Command::new("sleep");
        command.arg("600");
        command
    }

    fn was_killed(mut child: Child) -> bool {
        use std::os::unix::process::ExitStatusExt;
        child.wait().unwrap().signal() == Some(9)
    }

    #[test]
    fn dropping_the_group_kills_every_member_and_removes_the_scratch_directory() {
        let scratch = tempfile::tempdir().unwrap().keep();
        let group = ProcessGroup::new(Some(&scratch)).unwrap();
        let (first, second) = (group.spawn(&mut sleeper()).unwrap(), group.spawn(&mut sleeper()).unwrap());
        drop(group);
        assert!(was_killed(first) && was_killed(second));
        assert!(!scratch.exists());
    }

    #[test]
    fn a_frozen_member_dies_too() {
        let group = ProcessGroup::new(None).unwrap();
        let member = group.spawn(&mut sleeper()).unwrap();
        kill_process(Pid::from_child(&member), Signal::STOP).unwrap();
        drop(group);
        assert!(was_killed(member));
    }
}
