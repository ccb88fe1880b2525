//! The whole of the small worlds. Minutes and gigabytes in a release build.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests say what went wrong by panicking")]

use jobferry_sim::model::{SMALL_WORLDS, explore};

#[test]
#[ignore = "takes minutes"]
fn no_small_world_breaks_a_promise() {
    for (name, budget) in SMALL_WORLDS {
        let report = explore(budget, None, 20_000_000);
        println!("{name}: {} states, depth {}, all of them: {}", report.states, report.depth, report.complete);
        assert!(report.counterexample.is_none(), "{name}: {}", report.counterexample.unwrap());
    }
}
