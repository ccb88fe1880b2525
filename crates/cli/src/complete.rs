//! Completion of a command line, as kubectl asks for it: candidates, one a line, then a directive for the shell.

use std::{path::PathBuf, time::Duration};

use clap::{Arg, Command};
use jobferry_kubeio as kubeio;
use serde::Deserialize;

use crate::{install::DEADLINE, target::Target, worker::WORKERS};

/// No file names are offered beside the candidates.
const NO_FILES: &str = ":4";
/// The shell offers file names.
const FILES: &str = ":0";
/// Nobody waits longer for a key to do something.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// What a word of a command line names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    Jobs,
    Workers,
}

impl Named {
    /// What the words after this command name.
    fn after(command: &[&str]) -> Option<Self> {
        match command {
            ["get" | "explain" | "wait" | "logs"] => Some(Self::Jobs),
            ["worker", "describe" | "cordon" | "uncordon" | "leave" | "forget"] => Some(Self::Workers),
            _ => None,
        }
    }
}

/// What could stand in place of the last word. `ask` asks the cluster for names.
pub(crate) fn complete(program: &Command, words: &[String], ask: impl FnOnce(Named) -> Vec<String>) -> String {
    let Some((begun, before)) = words.split_last() else { return format!("{NO_FILES}\n") };
    let (mut command, mut path) = (program, Vec::new());
    for word in before {
        if let Some(next) = command.find_subcommand(word) {
            command = next;
            path.push(word.as_str());
        }
    }
    let wants_value = before.last().and_then(|word| flag_of(command, word)).filter(|flag| takes_value(flag));
    let named = Named::after(&path);
    let all = match wants_value {
        Some(_) => Vec::new(),
        None if begun.starts_with('-') => flags(command),
        None if command.has_subcommands() => {
            let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
            shown.map(|command| command.get_name().to_owned()).collect()
        }
        None => named.map(ask).unwrap_or_default(),
    };
    let mut fitting: Vec<String> = all.into_iter().filter(|word| word.starts_with(begun.as_str())).collect();
    fitting.sort();
    fitting.dedup();
    let is_file = match wants_value {
        Some(flag) => flag.get_value_names().is_some_and(|names| names.iter().any(|name| name.as_str() == "FILE")),
        None => !command.has_subcommands() && !begun.starts_with('-') && named.is_none(),
    };
    fitting.push(if is_file { FILES } else { NO_FILES }.to_owned());
    fitting.join("\n") + "\n"
}

fn flags(command: &Command) -> Vec<String> {
    let flags = command.get_arguments().filter(|flag| !flag.is_positional());
    flags.filter_map(|flag| flag.get_long().map(|long| format!("--{long}"))).collect()
}

fn flag_of<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let named = |flag: &&Arg| {
        let long = flag.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
        long || flag.get_short().is_some_and(|short| word == format!("-{short}"))
    };
    command.get_arguments().find(named)
}

fn takes_value(flag: &Arg) -> bool {
    flag.get_action().takes_values()
}

/// The names that the cluster of this command line knows; none if it does not say so at once.
pub(crate) async fn ask(named: Named, words: &[String]) -> Vec<String> {
    tokio::time::timeout(ANSWERED_WITHIN, list(named, words)).await.ok().and_then(Result::ok).unwrap_or_default()
}

async fn list(named: Named, words: &[String]) -> anyhow::Result<Vec<String>> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
    }
    let kubeconfig = value_of(words, &["--kubeconfig"]).map(PathBuf::from);
    let target = Target { kubeconfig, context: value_of(words, &["--context"]) };
    let client = target.client().await?;
    let namespace = value_of(words, &["-n", "--namespace"]).unwrap_or_else(|| client.default_namespace().to_owned());
    let path = match named {
        Named::Jobs => format!("/apis/batch/v1/namespaces/{namespace}/jobs"),
        Named::Workers => WORKERS.to_owned(),
    };
    let list: List = kubeio::get(&client, &path, DEADLINE).await?;
    Ok(list.items.into_iter().map(|item| item.metadata.name).collect())
}

/// The value of a flag: `--flag value` or `--flag=value`.
fn value_of(words: &[String], flags: &[&str]) -> Option<String> {
    let beside = words.windows(2).find(|pair| flags.contains(&pair[0].as_str())).map(|pair| pair[1].clone());
    let mut pairs = words.iter().filter_map(|word| word.split_once('='));
    beside.or_else(|| pairs.find(|(flag, _)| flags.contains(flag)).map(|(_, value)| value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn kubectl_gets_subcommands_flags_names_and_a_directive() {
        let complete = |typed: &[&str]| {
            let names = |named| match named {
                Named::Jobs => words(&["train", "test"]),
                Named::Workers => words(&["eu-1", "us-1"]),
            };
            complete(&crate::Cli::command(), &words(typed), names)
        };
        for (typed, expected) in [
            (&["sub"][..], "submit\n:4\n"),
            (&["worker", "c"], "cordon\n:4\n"),
            (&["logs", "--fo"], "--follow\n:4\n"),
            (&["logs", "t"], "test\ntrain\n:4\n"),
            (&["logs", "-f", "tr"], "train\n:4\n"),
            (&["worker", "cordon", ""], "eu-1\nus-1\n:4\n"),
            (&["get", "-n", "t"], ":4\n"),
            (&["get", "--kubeconfig", "x"], ":0\n"),
            (&["worker", "join", "e"], ":0\n"),
            (&["lint", "x"], ":0\n"),
        ] {
            assert_eq!(complete(typed), expected, "{typed:?}");
        }
    }

    #[test]
    fn the_cluster_is_that_of_the_command_line() {
        let typed = words(&["get", "--context=a", "-n", "ml", ""]);
        assert_eq!(value_of(&typed, &["--context"]).as_deref(), Some("a"));
        assert_eq!(value_of(&typed, &["-n", "--namespace"]).as_deref(), Some("ml"));
        assert_eq!(value_of(&typed, &["--kubeconfig"]), None);
    }
}
