//! `cargo xtask testbed up`: real clusters for a person to play with.
//!
//! The clusters themselves belong to `jobferry-testkit`, which tests use too. This process *becomes* its `testbed`
//! binary, so that a signal sent to the command reaches the one that has to act on it.

use std::os::unix::process::CommandExt;

use anyhow::{Result, bail};

use crate::testbed_products::{MAIN_VERSION, kubernetes};
use crate::{testbed_build, workspace};

pub(crate) fn run(options: &[&str]) -> Result<()> {
    let mut version = MAIN_VERSION;
    let mut passed_on = Vec::new();
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match *option {
            "--version" => match options.next() {
                Some(wanted) => version = wanted,
                None => bail!("--version needs a value: 1.35 or 1.37"),
            },
            other => passed_on.push(other),
        }
    }
    let binaries = testbed_build::build(kubernetes(version)?)?;
    let failed = workspace::cargo()
        .current_dir(".") // a relative --dir means what it means to the caller
        .args(["run", "--package", "jobferry-testkit", "--bin", "testbed", "--", "up"])
        .args(passed_on)
        .env("JOBFERRY_TESTBED", binaries)
        .exec();
    bail!("cannot run cargo: {failed}")
}
