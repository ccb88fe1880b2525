//! `jobferry crds`: the custom resource definitions, as YAML for `kubectl apply -f -`.

use std::process::ExitCode;

/// Prints them.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    for definition in jobferry_api::custom_resource_definitions() {
        println!("---\n{}", serde_saphyr::to_string(&definition)?.trim_end());
    }
    Ok(ExitCode::SUCCESS)
}
