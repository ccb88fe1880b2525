//! The name that this program was called by: `jobferry`, or by kubectl as its plugin.
//!
//! kubectl finds `kubectl-jobferry` on the PATH and runs it for `kubectl jobferry ...`. For completion it runs
//! `kubectl_complete-jobferry` with the words so far and expects candidates, one a line, then a line with a directive.
//! Both are links to this program.

use std::path::Path;

use clap::Command;

/// A name and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalledAs {
    Jobferry,
    /// As a plugin of kubectl.
    Plugin,
    /// By kubectl, to complete a command line.
    Completer,
}

/// No file names are offered beside the candidates.
const NO_FILES: &str = ":4";
/// The shell offers file names.
const FILES: &str = ":0";

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

/// What could stand in place of the last word.
pub(crate) fn complete(program: &Command, words: &[String]) -> String {
    let Some((begun, before)) = words.split_last() else { return format!("{NO_FILES}\n") };
    let command = before.iter().fold(program, |command, word| command.find_subcommand(word).unwrap_or(command));
    let subcommands =
        command.get_subcommands().filter(|command| !command.is_hide_set()).map(|c| c.get_name().to_owned());
    let flags = command.get_opts().chain(command.get_arguments().filter(|arg| !arg.is_positional()));
    let flags = flags.filter_map(|flag| flag.get_long().map(|long| format!("--{long}")));
    let all: Vec<String> = if begun.starts_with('-') { flags.collect() } else { subcommands.collect() };
    let mut fitting: Vec<String> = all.into_iter().filter(|word| word.starts_with(begun)).collect();
    fitting.sort();
    fitting.dedup();
    let directive = if command.has_subcommands() || begun.starts_with('-') { NO_FILES } else { FILES };
    fitting.push(directive.to_owned());
    fitting.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

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

    #[test]
    fn kubectl_gets_subcommands_flags_and_a_directive() {
        let complete = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            complete(&crate::Cli::command(), &words)
        };
        assert_eq!(complete(&["sub"]), "submit\n:4\n");
        assert_eq!(complete(&["worker", "c"]), "cordon\n:4\n");
        assert_eq!(complete(&["logs", "--fo"]), "--follow\n:4\n");
        assert_eq!(complete(&["lint", "x"]), ":0\n");
    }
}
