//! `cargo xtask bench hot-paths`: instructions and allocations of what is computed for every event, beside those that
//! were committed. A simulated CPU counts them, so that neither the machine nor its load has a say.
//!
//! ```text
//! cost of one walk = (cost of a run of 2,000 walks - cost of a run of 1,000) / 1,000
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

const PATHS: [&str; 6] =
    ["decode-job", "decode-mirror", "project", "plan-copy", "place-over-100-workers", "make-mirror"];
const WALKS: u64 = 1_000;
/// Instructions may grow by this much before somebody has to say that it is meant, by committing new figures.
const TOLERANCE_PERCENT: u64 = 10;
/// Path, instructions and allocations of one walk, a line each.
const BASELINE: &str = "crates/core/benches/hot_paths.baseline";

/// What one walk costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    instructions: u64,
    allocations: u64,
}

/// Whether the simulated CPU is there.
pub(crate) fn can_count() -> bool {
    let probe = Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    probe.is_ok_and(|status| status.success())
}

pub(crate) fn run(options: &[&str]) -> Result<()> {
    match options {
        [] => check(),
        ["--bless"] => bless(),
        other => bail!("bench hot-paths takes only --bless (to commit new figures), not `{}`", other.join(" ")),
    }
}

/// Prints the costs, and fails where one has grown too much.
pub(crate) fn check() -> Result<()> {
    let baseline = read_baseline()?;
    let mut grown = Vec::new();
    println!("{:<28} {:>14} {:>10} {:>12}", "one walk", "instructions", "committed", "allocations");
    for (path, cost) in measure()? {
        let before = baseline.get(path.as_str()).with_context(|| format!("no line for {path} in {BASELINE}"))?;
        let (now, then) = (cost.instructions, before.instructions);
        println!("{path:<28} {now:>14} {then:>10} {:>12}", cost.allocations);
        if has_grown(now, then) {
            grown.push(format!("{path}: {then} -> {now}"));
        }
    }
    let advice = "if that is meant, `cargo xtask bench hot-paths --bless`";
    ensure!(grown.is_empty(), "more than {TOLERANCE_PERCENT} % more instructions ({advice}): {}", grown.join(", "));
    Ok(())
}

fn has_grown(now: u64, then: u64) -> bool {
    now * 100 > then * (100 + TOLERANCE_PERCENT)
}

fn bless() -> Result<()> {
    let line = |(path, cost): (String, Cost)| format!("{path} {} {}\n", cost.instructions, cost.allocations);
    let text: String = measure()?.into_iter().map(line).collect();
    std::fs::write(workspace::root().join(BASELINE), &text).with_context(|| format!("writing {BASELINE}"))?;
    print!("{text}");
    Ok(())
}

fn read_baseline() -> Result<BTreeMap<String, Cost>> {
    let text = std::fs::read_to_string(workspace::root().join(BASELINE))
        .with_context(|| format!("reading {BASELINE}; `cargo xtask bench hot-paths --bless` makes it"))?;
    text.lines().map(|line| parse(line).with_context(|| format!("{BASELINE}: `{line}`"))).collect()
}

fn parse(line: &str) -> Option<(String, Cost)> {
    let mut words = line.split_whitespace();
    let path = words.next()?.to_owned();
    let (instructions, allocations) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((path, Cost { instructions, allocations }))
}

fn measure() -> Result<Vec<(String, Cost)>> {
    ensure!(can_count(), "counting instructions needs valgrind: install it from your distribution");
    let binary = build()?;
    let of_one = |path: &str, count: fn(&Path, &str, u64) -> Result<u64>| -> Result<u64> {
        let (once, twice) = (count(&binary, path, WALKS)?, count(&binary, path, 2 * WALKS)?);
        Ok(twice.saturating_sub(once) / WALKS)
    };
    let cost = |path: &str| -> Result<_> {
        let cost = Cost { instructions: of_one(path, instructions)?, allocations: of_one(path, allocations)? };
        Ok((path.to_owned(), cost))
    };
    PATHS.iter().map(|path| cost(path)).collect()
}

/// The benchmark's binary, as cargo names it.
fn build() -> Result<PathBuf> {
    let mut cargo = workspace::cargo();
    cargo.args(["bench", "--package", "jobferry-core", "--bench", "hot_paths", "--no-run"]);
    let built = cargo.output().context("running cargo bench")?;
    let talk = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "`cargo bench --no-run` failed:\n{talk}");
    let path = talk.lines().rev().find_map(|line| line.trim().strip_prefix("Executable ")?.split(['(', ')']).nth(1));
    let path = path.with_context(|| format!("cargo does not say where the benchmark is:\n{talk}"))?;
    Ok(workspace::root().join(path))
}

fn instructions(binary: &Path, path: &str, walks: u64) -> Result<u64> {
    let options = ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];
    // Versions of valgrind differ in the spaces.
    number_after(&simulate(&options, binary, path, walks)?.replace("I   refs:", "I refs:"), "I refs:")
}

fn allocations(binary: &Path, path: &str, walks: u64) -> Result<u64> {
    number_after(&simulate(&["--tool=memcheck", "--leak-check=no"], binary, path, walks)?, "total heap usage:")
}

fn simulate(options: &[&str], binary: &Path, path: &str, walks: u64) -> Result<String> {
    let mut valgrind = Command::new("valgrind");
    let run =
        valgrind.args(options).arg(binary).args([path, &walks.to_string()]).output().context("running valgrind")?;
    let talk = String::from_utf8_lossy(&run.stderr).into_owned();
    ensure!(run.status.success(), "valgrind {} failed:\n{talk}", binary.display());
    Ok(talk)
}

/// The first number behind `label`, which may have commas in it.
fn number_after(text: &str, label: &str) -> Result<u64> {
    let (_, rest) = text.split_once(label).with_context(|| format!("valgrind does not say `{label}`:\n{text}"))?;
    let digits: String = rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
    digits.replace(',', "").parse().with_context(|| format!("no number behind `{label}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_valgrind_writes_them() {
        let talk = "==1== \n==1== I   refs:      12,345,678\n==1==   total heap usage: 1,024 allocs, 3 frees";
        assert_eq!(number_after(talk, "I   refs:").unwrap(), 12_345_678);
        assert_eq!(number_after(talk, "total heap usage:").unwrap(), 1_024);
        assert!(number_after(talk, "D refs:").is_err());
    }

    #[test]
    fn a_tenth_more_is_tolerated_and_not_more() {
        assert!(!has_grown(110, 100));
        assert!(has_grown(111, 100));
    }

    #[test]
    fn a_line_of_the_baseline_names_path_and_costs() {
        let cost = Cost { instructions: 42_000, allocations: 17 };
        assert_eq!(parse("project 42000 17"), Some(("project".to_owned(), cost)));
        assert_eq!(parse("project 42000"), None);
    }
}
