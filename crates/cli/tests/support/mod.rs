//! Running the real binary, and kubectl beside it.
#![allow(dead_code, reason = "each test target uses a part of it")]

pub(crate) mod changing;
pub(crate) mod expired;
pub(crate) mod old_server;
pub(crate) mod road;
pub(crate) mod transcript;

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, ChildStdout, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// The binary under test.
pub(crate) fn jobferry(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobferry"));
    command.args(arguments).env_remove("KUBECONFIG");
    command
}

/// kubectl of the test bed, by this kubeconfig.
pub(crate) fn kubectl(kubeconfig: &Path, arguments: &[&str]) -> Command {
    let testbed = jobferry_testkit::Testbed::from_environment().unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new(testbed.kubectl());
    command.arg("--kubeconfig").arg(kubeconfig).args(arguments);
    command
}

/// Runs to the end and returns stdout; panics with all output if it fails.
pub(crate) fn succeed(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?} failed\n{}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs to the end and returns stderr; panics if it does not fail.
pub(crate) fn fail(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{command:?} succeeded\n{}", text(&output));
    String::from_utf8(output.stderr).unwrap()
}

fn text(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Waits until this holds, a minute at most.
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    #[allow(clippy::disallowed_methods, reason = "real clusters take real time")]
    let now = Instant::now;
    let started = now();
    while !holds() {
        assert!(now().duration_since(started) < Duration::from_secs(60), "{what} did not come about");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A process in the background that ends with the test.
pub(crate) struct Background {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Background {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Reads its output up to the line that holds this text.
    pub(crate) fn until(&mut self, text: &str) -> String {
        let mut seen = Vec::new();
        for line in self.output.by_ref().lines().map_while(Result::ok) {
            if line.contains(text) {
                return line;
            }
            seen.push(line);
        }
        panic!("it ended without a line that holds {text:?}; it said\n{}", seen.join("\n"));
    }

    /// Reads its output up to this line, and returns all of it.
    pub(crate) fn through(&mut self, last: &str) -> Vec<String> {
        let mut seen = Vec::new();
        for line in self.output.by_ref().lines().map_while(Result::ok) {
            seen.push(line);
            if seen.last().is_some_and(|line| line == last) {
                return seen;
            }
        }
        panic!("it ended without the line {last:?}; it said\n{}", seen.join("\n"));
    }

    /// Presses Ctrl-C: the signal that a terminal sends.
    pub(crate) fn interrupt(&self) {
        let sent = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// What it says up to its end, which must be a good one.
    pub(crate) fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        self.until_end();
        rest
    }

    /// Waits until it has ended by itself.
    pub(crate) fn until_end(&mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
