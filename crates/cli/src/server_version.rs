//! `--server 1.35`: whose rules apply. And which servers are too old to be part of a fleet.

use std::fmt;
use std::str::FromStr;

use job_api::Rules;
use jobferry_kubeio::{self as kubeio, CallError};
use kube::Client;
use serde::Deserialize;

use crate::install::DEADLINE;

/// The oldest minor version for managers and workers alike: older managers drop `spec.managedBy` and run delegated Jobs
/// themselves, and of older workers nobody has checked what they make of a mirror.
pub(crate) const OLDEST_MINOR: u32 = 32;

/// Whether a server of this version, as `/version` tells it, cannot be part of a fleet. What cannot be read is not judged.
pub(crate) fn is_too_old(git_version: &str) -> bool {
    let minor = git_version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    git_version.starts_with("v1.") && minor.is_some_and(|minor| minor < OLDEST_MINOR)
}

/// Asks a cluster for its version.
pub(crate) async fn read(client: &Client) -> Result<String, CallError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        git_version: String,
    }
    kubeio::get(client, "/version", DEADLINE).await.map(|Version { git_version }| git_version)
}

/// The version of an API server, as far as it decides about the rules for Jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerVersion {
    minor: u32,
    patch: Option<u32>,
}

impl ServerVersion {
    /// The version whose answers our own are compared with.
    pub(crate) const DEFAULT: &str = "1.35";

    pub(crate) fn rules(self) -> Rules {
        Rules::for_server(1, self.minor, self.patch)
    }

    pub(crate) fn is_at_least(self, minor: u32) -> bool {
        self.minor >= minor
    }
}

impl Default for ServerVersion {
    fn default() -> Self {
        Self { minor: 35, patch: None }
    }
}

impl FromStr for ServerVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || format!("`{text}` is none of the servers that are known, 1.32 to 1.37 (also 1.35.8)");
        let mut numbers = text.trim_start_matches('v').split('.').map(str::parse::<u32>);
        match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(1)), Some(Ok(minor @ 32..=37)), None, None) => Ok(Self { minor, patch: None }),
            (Some(Ok(1)), Some(Ok(minor @ 32..=37)), Some(Ok(patch)), None) => Ok(Self { minor, patch: Some(patch) }),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_from_before_the_oldest_are_too_old() {
        for (version, too_old) in
            [("v1.31.9", true), ("v1.32.0", false), ("v1.35.8+k3s1", false), ("v2.0.0", false), ("unknown", false)]
        {
            assert_eq!(is_too_old(version), too_old, "{version}");
        }
    }

    #[test]
    fn a_version_is_a_minor_with_or_without_patch() {
        for (text, expected) in [
            ("1.35", Some(Rules::for_server(1, 35, None))),
            ("v1.34.1", Some(Rules::for_server(1, 34, Some(1)))),
            ("1.31", None),
            ("1.38", None),
            ("2.35", None),
            ("1", None),
            ("1.35.x", None),
            ("1.35.8.1", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<ServerVersion>().ok().map(ServerVersion::rules), expected, "{text}");
        }
    }
}
