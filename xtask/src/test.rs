//! `cargo xtask test`: the one test command.
//!
//! Stages run one after the other, also past a failed one, so that one look at the summary shows all that is wrong.
//! Tests that need real Kubernetes carry `#[ignore]` and live in test targets called `real_*` (`full_*`: too long for
//! every run). Plain `cargo test` so stays fast and says what it left out; this command runs them with `--ignored`
//! once the test bed is built.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::stopwatch::Stopwatch;
use crate::test_report::{Report, Stage, Tests, Verdict};
use crate::testbed_build::{self, INSTALL_GO};
use crate::testbed_products::{MAIN_VERSION, NEWEST_VERSION, OPERATORS, kubernetes};
use crate::{hot_paths, layering, workspace};

pub(crate) fn run(options: &[&str]) -> Result<()> {
    let full = match options {
        [] => false,
        ["--full"] => true,
        other => bail!("test takes only --full, not `{}`", other.join(" ")),
    };
    let mut report = Report::default();
    report.add(stage("formatting", || run_to_end(workspace::cargo().args(["fmt", "--all", "--check"]))));
    report.add(stage("clippy", || {
        run_to_end(workspace::cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--keep-going",
            "--",
            "--deny",
            "warnings",
        ]))
    }));
    report.add(stage("rustdoc", || {
        run_to_end(
            workspace::cargo()
                .args(["doc", "--workspace", "--no-deps", "--keep-going"])
                .env("RUSTDOCFLAGS", "--deny warnings"),
        )
    }));
    report.add(stage("layering", || {
        let breaches = layering::breaches()?;
        ensure!(breaches.is_empty(), "{}", breaches.join("\n"));
        Ok((Tests::default(), Verdict::Passed))
    }));
    report.add(stage("unit and CLI tests", || cargo_test(workspace::cargo().args(["test", "--tests"]), &[])));
    report.add(stage("doc tests", || cargo_test(workspace::cargo().args(["test", "--doc"]), &[])));
    // Real clusters leave much of a machine idle.
    let search = full.then(search_small_worlds);
    let main = Versions::all(MAIN_VERSION);
    report.add_catching_up(stage(&format!("real Kubernetes {main}"), || real_kubernetes(main, "real_")));
    if full {
        let (newest, mixed) = (Versions::all(NEWEST_VERSION), Versions { workers: NEWEST_VERSION, ..main });
        report.add(stage(&format!("real Kubernetes {newest}"), || real_kubernetes(newest, "real_")));
        // The scenarios are what runs over several clusters.
        report.add(stage(&format!("real Kubernetes {mixed}"), || real_kubernetes(mixed, "real_scenarios")));
        report.add(stage(&format!("the same, disturbed, {mixed}"), || real_kubernetes(mixed, "real_disturbances")));
        report.add_catching_up(stage("long tests", || real_kubernetes(main, "full_")));
        report.add(stage("instructions of the hot paths", instructions));
    }
    if let Some(search) = search {
        report.add(stage("every small world", || {
            let status = search?.wait().context("waiting for the simulator")?;
            ensure!(status.success(), "failed ({status})");
            Ok((Tests::default(), Verdict::Passed))
        }));
    }
    print!("\n{report}");
    ensure!(report.is_good(), "not all stages passed");
    Ok(())
}

/// Every interleaving of small worlds: many minutes of computing, beside the stages that wait for clusters.
fn search_small_worlds() -> Result<Child> {
    let simulator = ["run", "--release", "--quiet", "--package", "jobferry-sim", "--", "--exhaustive"];
    let search = workspace::cargo().args(simulator).spawn().context("starting the simulator")?;
    // The clusters go first: their tests wait for real time. Where there is no `renice`, they are merely slower.
    let _ = Command::new("renice").args(["-n", "19", "-p", &search.id().to_string()]).stdout(Stdio::null()).status();
    Ok(search)
}

fn stage(name: &str, work: impl FnOnce() -> Result<(Tests, Verdict)>) -> Stage {
    eprintln!("\n==> {name}");
    let stopwatch = Stopwatch::start();
    let (tests, verdict) = work().unwrap_or_else(|error| {
        eprintln!("{error:#}");
        (Tests::default(), Verdict::Failed(error.to_string().lines().next().unwrap_or_default().to_owned()))
    });
    Stage { name: name.to_owned(), verdict, tests, time: stopwatch.read() }
}

/// A pure part must not grow dear unnoticed.
fn instructions() -> Result<(Tests, Verdict)> {
    if !hot_paths::can_count() {
        return Ok((Tests::default(), Verdict::Skipped("no valgrind here; to enable: install it".to_owned())));
    }
    hot_paths::check()?;
    Ok((Tests::default(), Verdict::Passed))
}

fn run_to_end(command: &mut Command) -> Result<(Tests, Verdict)> {
    let status = command.status().with_context(|| format!("running {command:?}"))?;
    ensure!(status.success(), "failed ({status})");
    Ok((Tests::default(), Verdict::Passed))
}

/// Runs a `cargo test` over the workspace, passes its lines through and adds up the results in them.
fn cargo_test(command: &mut Command, harness_options: &[&str]) -> Result<(Tests, Verdict)> {
    command.args(["--workspace", "--no-fail-fast", "--"]).args(harness_options).stdout(Stdio::piped());
    let mut child = command.spawn().context("running `cargo test`")?;
    let mut tests = Tests::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.context("reading the output of `cargo test`")?;
            println!("{line}");
            tests += Tests::parse(&line).unwrap_or_default();
        }
    }
    let status = child.wait().context("waiting for `cargo test`")?;
    let verdict = match (status.success(), tests.failed) {
        (true, _) => Verdict::Passed,
        (false, 0) => Verdict::Failed(format!("`cargo test` failed before its tests could ({status})")),
        (false, failed) => Verdict::Failed(format!("{failed} failed")),
    };
    Ok((tests, verdict))
}

/// Which Kubernetes the clusters of a stage are.
#[derive(Clone, Copy)]
struct Versions {
    manager: &'static str,
    workers: &'static str,
}

impl Versions {
    const fn all(version: &'static str) -> Self {
        Self { manager: version, workers: version }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { manager, workers } = self;
        if manager == workers { f.write_str(manager) } else { write!(f, "{manager} with workers of {workers}") }
    }
}

/// Runs the test targets whose name starts with `prefix` on real clusters.
fn real_kubernetes(versions: Versions, prefix: &str) -> Result<(Tests, Verdict)> {
    if !has_test_targets(prefix)? {
        return Ok((Tests::default(), Verdict::Skipped(format!("there is no test target {prefix}* yet"))));
    }
    if !testbed_build::go_is_installed() {
        return Ok((Tests::default(), Verdict::Skipped(format!("no Go here; to enable: {INSTALL_GO}"))));
    }
    let operators = if prefix.starts_with("full_") { OPERATORS.as_slice() } else { &OPERATORS[..1] };
    let operators = operators.iter().map(|operator| testbed_build::build(*operator)).collect::<Result<Vec<_>>>()?;
    let mut command = workspace::cargo();
    command
        .args(["test", "--test", &format!("{prefix}*")])
        .env("JOBFERRY_TESTBED", testbed_build::build(kubernetes(versions.manager)?)?)
        .env("JOBFERRY_WORKER_TESTBED", testbed_build::build(kubernetes(versions.workers)?)?)
        .env("JOBFERRY_OPERATORS", std::env::join_paths(operators)?);
    cargo_test(&mut command, &["--ignored"])
}

/// Whether any crate has one: `cargo test --test 'x*'` is an error where nothing matches.
fn has_test_targets(prefix: &str) -> Result<bool> {
    let crates = workspace::root().join("crates");
    for entry in std::fs::read_dir(&crates).with_context(|| format!("reading {}", crates.display()))? {
        if has_entry_with_prefix(&entry?.path().join("tests"), prefix) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_entry_with_prefix(directory: &Path, prefix: &str) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
}
