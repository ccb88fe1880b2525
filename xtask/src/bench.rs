//! `cargo xtask bench NAME`: figures of this machine, side by side in one run. Each bench is an example of
//! `jobferry-testkit` called `bench_NAME`, so that it measures the same clusters that the tests run on.

use anyhow::{Result, bail, ensure};

use crate::{testbed_build, workspace};

/// The benches that there are, with what each compares.
pub(crate) const BENCHES: [(&str, &str); 2] = [
    ("apiserver", "the embedded API server beside a real kube-apiserver"),
    ("jobs", "our Job controller beside kube-controller-manager, with the same node"),
];

pub(crate) fn run(options: &[&str]) -> Result<()> {
    let names = || BENCHES.map(|(name, what)| format!("  {name:<10} {what}")).join("\n");
    let [name, options @ ..] = options else { bail!("which bench?\n{}", names()) };
    if !BENCHES.iter().any(|(known, _)| known == name) {
        bail!("there is no bench `{name}`; there are\n{}", names());
    }
    let binaries = testbed_build::build(testbed_build::MAIN_VERSION)?;
    let status = workspace::cargo()
        .args(["run", "--release", "--package", "jobferry-testkit", "--example", &format!("bench_{name}"), "--"])
        .args(options)
        .env("JOBFERRY_TESTBED", binaries)
        .status()?;
    ensure!(status.success(), "the bench did not come to its end");
    Ok(())
}
