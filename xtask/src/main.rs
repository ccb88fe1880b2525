//! `cargo xtask`: everything that needs more than cargo. One file a command.
//!
//! ```text
//! cargo xtask test [--full]                           the one test command, also what CI runs
//! cargo xtask docs                                    docs/reference, from the code that it describes
//! cargo xtask record [--version 1.35|1.37]            ask a real API server about random Jobs; what job-api's tests replay
//! cargo xtask bench NAME                              figures of this machine, side by side in one run
//! cargo xtask testbed build [--version 1.35|1.37]     real Kubernetes binaries, built once, cached outside the repository
//! cargo xtask testbed build --operator NAME           the same of an operator of another kind than Job
//! cargo xtask testbed up --clusters N --dir DIR       N real clusters on loopback until Ctrl-C
//! ```
//!
//! stdout is data (a path, test lines, the summary); talk about progress goes to stderr.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

mod bench;
mod docs;
mod hot_paths;
mod layering;
mod record;
mod stopwatch;
mod test;
mod test_report;
mod testbed_build;
mod testbed_products;
mod testbed_up;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [--full]                          format, lints, docs, layering, unit, doc and CLI tests, and the
                                         real-Kubernetes suite where Go is installed; --full adds the
                                         newest Kubernetes and everything too long for every run
  docs                                   write docs/reference from the code: commands, CRDs, names, metrics
  record [--version 1.35|1.37]           ask a real API server thousands of random questions about Jobs and
         [--seed N]                      write its answers down for the tests of job-api
  bench apiserver|jobs|dispatch|scale    measure side by side in one run; prints ratios (bench NAME --help)
  bench hot-paths [--bless]              count instructions and allocations of the hot paths
  testbed build [--version 1.35|1.37]    build (or find in the cache) a real control plane; the last line
                                         on stdout is the directory of the binaries
  testbed build --operator NAME          the same of an operator of another kind than Job
  testbed up --clusters N --dir DIR      run N real clusters until Ctrl-C and print their kubeconfigs;
             [--version 1.35|1.37]       --no-runner leaves pods alone (by default a scripted node
             [--no-runner]               \"runs\" them, so that Jobs finish)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["test", options @ ..] => test::run(options),
        ["docs"] => docs::run(),
        ["record", options @ ..] => record::run(options),
        ["bench", options @ ..] => bench::run(options),
        ["testbed", "build", options @ ..] => testbed_build::run(options),
        ["testbed", "up", options @ ..] => testbed_up::run(options),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(anyhow::anyhow!("unknown command `{}`\n\n{USAGE}", words.join(" "))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
