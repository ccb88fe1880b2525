//! Every command with its flags, as `--help` prints them.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::opening;
use crate::Cli;

pub(super) fn page() -> String {
    let mut text = opening("Commands", "Every command and its flags. `kubectl jobferry ...` is the same program.");
    for (name, mut command) in all() {
        let help = command.render_long_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        let _ = write!(text, "\n## {name}\n\n```text\n{}\n```\n", help.join("\n").trim_end());
    }
    text
}

pub(super) fn exit_codes() -> String {
    let about = "0: it did what was asked. 1: an error, told on stderr in one line that begins with `error:`. 2: the command \
                 line was wrong. Some commands say more:";
    let mut text = opening("Exit codes", about);
    text.push_str("\n| command | codes |\n| --- | --- |\n");
    for (name, command) in all() {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        if let Some(codes) = after.strip_prefix("Exit codes").map(|codes| codes.trim_start_matches(':').trim()) {
            let _ = writeln!(text, "| `{name}` | {codes} |");
        }
    }
    text
}

/// All commands in the order of the help, each under its full name.
fn all() -> Vec<(String, Command)> {
    let mut program = Cli::command().max_term_width(100).term_width(100).disable_help_subcommand(true);
    program.build();
    let mut list = Vec::new();
    walk("jobferry", &program, &mut list);
    list
}

fn walk(name: &str, command: &Command, list: &mut Vec<(String, Command)>) {
    list.push((name.to_owned(), command.clone().bin_name(name)));
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set()) {
        walk(&format!("{name} {}", inner.get_name()), inner, list);
    }
}
