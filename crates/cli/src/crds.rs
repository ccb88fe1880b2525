//! `jobferry crds`: the custom resource definitions, as YAML for `kubectl apply -f -`.

use std::process::ExitCode;

use crate::manifests;

/// Prints them.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    print!("{}", manifests::custom_resource_definitions()?);
    Ok(ExitCode::SUCCESS)
}
