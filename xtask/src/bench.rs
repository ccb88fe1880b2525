//! `cargo xtask bench NAME`: figures of this machine, side by side in one run. Each bench is an example of
//! `jobferry-testkit` called `bench_NAME`, so that it measures the same clusters that the tests run on.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};

use crate::testbed_products::{self, KUEUE, MAIN_VERSION};
use crate::{hot_paths, testbed_build, workspace};

/// The benches that there are, with what each compares.
pub(crate) const BENCHES: [(&str, &str); 5] = [
    ("apiserver", "the embedded API server beside a real kube-apiserver"),
    ("jobs", "our Job controller beside kube-controller-manager, with the same node"),
    ("dispatch", "the dispatcher beside a bare client that does nothing but its writes, on real clusters"),
    ("scale", "the dispatcher with 1,000 and 100,000 Jobs, with one worker and a hundred, embedded clusters"),
    ("hot-paths", "instructions and allocations of what is computed for every event, beside those committed"),
];

/// Benches that need no Kubernetes.
const EMBEDDED: [&str; 1] = ["scale"];
/// Benches that start the shipped binary as a process of its own.
const OF_THE_BINARY: [&str; 2] = ["dispatch", "scale"];

pub(crate) fn run(options: &[&str]) -> Result<()> {
    let names = || BENCHES.map(|(name, what)| format!("  {name:<10} {what}")).join("\n");
    let [name, options @ ..] = options else { bail!("which bench?\n{}", names()) };
    if *name == "hot-paths" {
        return hot_paths::run(options);
    }
    if !BENCHES.iter().any(|(known, _)| known == name) {
        bail!("there is no bench `{name}`; there are\n{}", names());
    }
    let mut bench = workspace::cargo();
    bench
        .args(["run", "--release", "--package", "jobferry-testkit", "--example", &format!("bench_{name}"), "--"])
        .args(options);
    if !EMBEDDED.contains(name) {
        bench.env("JOBFERRY_TESTBED", testbed_build::build(testbed_products::kubernetes(MAIN_VERSION)?)?);
    }
    if options.windows(2).any(|pair| pair == ["--opponent", "kueue"]) || options.contains(&"--opponent=kueue") {
        bench.env("JOBFERRY_OPERATORS", testbed_build::build(KUEUE)?);
    }
    if OF_THE_BINARY.contains(name) {
        bench.env("JOBFERRY_BINARY", build_shipped_binary()?);
    }
    ensure!(bench.status()?.success(), "the bench did not come to its end");
    Ok(())
}

/// The path of `jobferry` as it is shipped.
fn build_shipped_binary() -> Result<PathBuf> {
    let built = workspace::cargo().args(["build", "--release", "--package", "jobferry"]).status()?;
    ensure!(built.success(), "`cargo build --release --package jobferry` failed");
    Ok(workspace::target_directory().join("release/jobferry"))
}
