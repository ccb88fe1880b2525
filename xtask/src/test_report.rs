//! What `cargo xtask test` says at its end: a table of the stages and one line with the sum of all tests.

use std::fmt;
use std::ops::AddAssign;

/// Outcomes of tests, as cargo counts them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tests {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// Left out by `#[ignore]`.
    pub(crate) ignored: usize,
}

impl Tests {
    /// Reads cargo's line `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; ...`.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let mut tests = Self::default();
        for part in counts.split("; ") {
            match part.split_once(' ')? {
                (count, "passed") => tests.passed = count.parse().ok()?,
                (count, "failed") => tests.failed = count.parse().ok()?,
                (count, "ignored") => tests.ignored = count.parse().ok()?,
                _ => {}
            }
        }
        Some(tests)
    }

    const fn ran(self) -> usize {
        self.passed + self.failed
    }
}

impl AddAssign for Tests {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

pub(crate) enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("ok"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}

pub(crate) struct Stage {
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    pub(crate) tests: Tests,
    pub(crate) time: String,
}

#[derive(Default)]
pub(crate) struct Report {
    stages: Vec<Stage>,
    /// How many of the tests that an earlier stage ignored were run by a later one.
    caught_up: usize,
}

impl Report {
    pub(crate) fn add(&mut self, stage: Stage) {
        self.stages.push(stage);
    }

    /// Adds a stage that ran, with `--ignored`, tests which an earlier stage left out.
    pub(crate) fn add_catching_up(&mut self, stage: Stage) {
        self.caught_up += stage.tests.ran();
        self.stages.push(stage);
    }

    pub(crate) fn is_good(&self) -> bool {
        !self.stages.iter().any(|stage| matches!(stage.verdict, Verdict::Failed(_)))
    }

    fn sum(&self) -> Tests {
        let mut sum = Tests::default();
        self.stages.iter().for_each(|stage| sum += stage.tests);
        sum
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.stages.iter().map(|stage| stage.name.len()).max().unwrap_or(0);
        writeln!(f, "{:width$}  {:>8}  {:>6}  {:>6}  outcome", "stage", "time", "passed", "failed")?;
        for Stage { name, verdict, tests, time } in &self.stages {
            writeln!(f, "{name:width$}  {time:>8}  {:>6}  {:>6}  {verdict}", tests.passed, tests.failed)?;
        }
        let sum = self.sum();
        let skipped = sum.ignored.saturating_sub(self.caught_up);
        writeln!(f, "\n{} passed, {} failed, {skipped} skipped", sum.passed, sum.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(tests: Tests, verdict: Verdict) -> Stage {
        Stage { name: "a stage".into(), verdict, tests, time: "1.0s".into() }
    }

    fn last_line(report: &Report) -> String {
        report.to_string().lines().last().unwrap().to_owned()
    }

    #[test]
    fn cargos_result_lines_are_understood_and_others_left_alone() {
        let line = "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 4 filtered out; finished in 0.00s";
        assert_eq!(Tests::parse(line), Some(Tests { passed: 3, failed: 1, ignored: 2 }));
        assert_eq!(Tests::parse("running 3 tests"), None);
        assert_eq!(Tests::parse("test a_test ... ok"), None);
    }

    #[test]
    fn ignored_tests_count_as_skipped_unless_a_later_stage_ran_them() {
        let mut report = Report::default();
        report.add(stage(Tests { passed: 10, failed: 0, ignored: 5 }, Verdict::Passed));
        assert_eq!(last_line(&report), "10 passed, 0 failed, 5 skipped");
        report.add_catching_up(stage(Tests { passed: 3, failed: 1, ignored: 0 }, Verdict::Failed("1 failed".into())));
        assert_eq!(last_line(&report), "13 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn a_skipped_stage_is_no_failure_and_says_why() {
        let mut report = Report::default();
        report.add(stage(Tests::default(), Verdict::Skipped("no Go here".into())));
        assert!(report.is_good());
        assert!(report.to_string().contains("skipped: no Go here"));
        report.add(stage(Tests::default(), Verdict::Failed("failed".into())));
        assert!(!report.is_good());
    }
}
