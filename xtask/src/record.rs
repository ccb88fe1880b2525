//! `cargo xtask record`: what a real API server says about random Jobs, for `cargo test -p job-api` to agree with.

use anyhow::{Result, ensure};

use crate::testbed_products::{MAIN_VERSION, kubernetes};
use crate::{testbed_build, workspace};

const RECORDINGS: &str = "crates/job-api/tests/recordings";

pub(crate) fn run(options: &[&str]) -> Result<()> {
    let (version, options) = match options {
        ["--version", version, rest @ ..] => (*version, rest),
        rest => (MAIN_VERSION, rest),
    };
    let binaries = testbed_build::build(kubernetes(version)?)?;
    let status = workspace::cargo()
        .args(["run", "--package", "jobferry-testkit", "--bin", "record-job-api", "--", "--out", RECORDINGS])
        .args(options)
        .env("JOBFERRY_TESTBED", binaries)
        .status()?;
    ensure!(status.success(), "recording failed");
    Ok(())
}
