//! More of each small world than every run has time for. `jobferry-sim --exhaustive`, in a release build, goes to their ends:
//! that takes many minutes and gigabytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests say what went wrong by panicking")]

use jobferry_sim::model::{SMALL_WORLDS, explore};

/// As many states of each world as a debug build goes through in minutes.
const STATES: usize = 400_000;

#[test]
#[ignore = "takes minutes: cargo xtask test --full"]
fn no_small_world_breaks_a_promise() {
    for (name, budget) in SMALL_WORLDS {
        let report = explore(budget, None, STATES);
        println!("{name}: {} states, depth {}, all of them: {}", report.states, report.depth, report.complete);
        assert!(report.counterexample.is_none(), "{name}: {}", report.counterexample.unwrap());
    }
}
