//! Where the binaries of a real control plane are.

use std::path::{Path, PathBuf};

/// The environment variable that names their directory. `cargo xtask test` sets it.
pub const TESTBED_VARIABLE: &str = "JOBFERRY_TESTBED";

/// The same for the workers of a fleet, where they are of another version than its manager.
pub const WORKER_TESTBED_VARIABLE: &str = "JOBFERRY_WORKER_TESTBED";

/// A directory with etcd, kube-apiserver, kube-controller-manager and kubectl of one Kubernetes version.
#[derive(Debug, Clone)]
pub struct Testbed {
    directory: PathBuf,
}

/// There is no test bed here.
#[derive(Debug, thiserror::Error)]
pub enum TestbedMissing {
    /// The variable is not set.
    #[error(
        "no real Kubernetes: run the tests by `cargo xtask test`, or set {TESTBED_VARIABLE}=$(cargo xtask testbed build)"
    )]
    Unset,
    /// The variable is set, but something is missing there.
    #[error("{TESTBED_VARIABLE} names {0}, which does not exist: set it to what `cargo xtask testbed build` prints")]
    NotThere(PathBuf),
}

impl Testbed {
    /// The test bed that [`TESTBED_VARIABLE`] names.
    pub fn from_environment() -> Result<Self, TestbedMissing> {
        let directory = std::env::var_os(TESTBED_VARIABLE).filter(|value| !value.is_empty());
        Self::at(directory.ok_or(TestbedMissing::Unset)?)
    }

    /// The test bed of a fleet's workers: what [`WORKER_TESTBED_VARIABLE`] names, else the same as the manager's.
    pub fn for_workers() -> Result<Self, TestbedMissing> {
        match std::env::var_os(WORKER_TESTBED_VARIABLE).filter(|value| !value.is_empty()) {
            Some(directory) => Self::at(directory),
            None => Self::from_environment(),
        }
    }

    pub(crate) fn at(directory: impl Into<PathBuf>) -> Result<Self, TestbedMissing> {
        let testbed = Self { directory: directory.into() };
        match testbed.binary("kube-apiserver") {
            binary if binary.is_file() => Ok(testbed),
            binary => Err(TestbedMissing::NotThere(binary)),
        }
    }

    pub(crate) fn binary(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The directory itself, to be put on a `PATH`.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of kubectl.
    pub fn kubectl(&self) -> PathBuf {
        self.binary("kubectl")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_binaries_is_refused_with_the_next_step() {
        let empty = tempfile::tempdir().unwrap();
        let refusal = Testbed::at(empty.path()).unwrap_err().to_string();
        assert!(refusal.contains("kube-apiserver") && refusal.contains("cargo xtask testbed build"), "{refusal}");
    }
}
