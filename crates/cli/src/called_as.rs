//! The name that this program was called by: `jobferry`, or by kubectl as its plugin.
//!
//! kubectl finds `kubectl-jobferry` on the PATH and runs it for `kubectl jobferry ...`. For completion it runs
//! `kubectl_complete-jobferry` with the words so far and expects candidates, one a line, then a line with a directive.
//! Both are links to this program.

use std::path::Path;

/// A name and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalledAs {
    Jobferry,
    /// As a plugin of kubectl.
    Plugin,
    /// By kubectl, to complete a command line.
    Completer,
}

impl CalledAs {
    /// From the first word of the command line.
    pub(crate) fn from_program(program: &str) -> Self {
        match Path::new(program).file_name().and_then(|name| name.to_str()) {
            Some("kubectl-jobferry") => Self::Plugin,
            Some("kubectl_complete-jobferry") => Self::Completer,
            _ => Self::Jobferry,
        }
    }

    /// The name that usage lines show.
    pub(crate) const fn shown(self) -> &'static str {
        match self {
            Self::Jobferry => "jobferry",
            Self::Plugin | Self::Completer => "kubectl jobferry",
        }
    }

    /// The name of the file that a shell completes.
    pub(crate) const fn file(self) -> &'static str {
        match self {
            Self::Jobferry => "jobferry",
            Self::Plugin | Self::Completer => "kubectl-jobferry",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides_who_is_spoken_to() {
        for (program, expected) in [
            ("jobferry", CalledAs::Jobferry),
            ("target/release/jobferry", CalledAs::Jobferry),
            ("/usr/local/bin/kubectl-jobferry", CalledAs::Plugin),
            ("kubectl_complete-jobferry", CalledAs::Completer),
        ] {
            assert_eq!(CalledAs::from_program(program), expected, "{program}");
        }
    }
}
