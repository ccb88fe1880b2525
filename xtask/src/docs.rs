//! `cargo xtask docs`: `docs/reference`, written from the code that it describes.
//!
//! A test of the CLI compares the pages with the code on every run; here it writes them.

use anyhow::{Result, ensure};

use crate::workspace;

/// What makes tests write what they otherwise compare.
const UPDATE: &str = "JOBFERRY_UPDATE";

pub(crate) fn run() -> Result<()> {
    let status = workspace::cargo()
        .args([
            "test",
            "--package",
            "jobferry",
            "--bin",
            "jobferry",
            "--",
            "--exact",
            "reference::the_reference_is_up_to_date",
        ])
        .env(UPDATE, "1")
        .status()?;
    ensure!(status.success(), "docs/reference could not be written");
    Ok(())
}
