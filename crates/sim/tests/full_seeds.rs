//! More seeds than every run has time for, none of them in the fixed set.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests say what went wrong by panicking")]

use jobferry_sim::{Settings, Summary, run};

/// As many as a debug build goes through in a few minutes.
const SEEDS: std::ops::RangeInclusive<u64> = 10_001..=10_060;

#[test]
#[ignore = "takes minutes: cargo xtask test --full"]
fn many_seeds_keep_every_promise() {
    let mut summary = Summary { first_seed: *SEEDS.start(), ..Summary::default() };
    for seed in SEEDS {
        summary.add(run(seed, &Settings { mixed: seed % 3 == 0, ..Settings::default() }).unwrap());
    }
    println!("{}", summary.text());
    assert!(summary.violations == 0, "{}", summary.text());
}
