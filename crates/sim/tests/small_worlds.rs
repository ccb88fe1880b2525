//! The exhaustive search, as far as every test run can go; `full_small_worlds` goes further.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests say what went wrong by panicking")]

use jobferry_sim::model::{Budget, Flaw, SMALL_WORLDS, explore};

/// Enough for the smaller worlds and for every planted bug.
const STATES: usize = 400_000;

#[test]
fn two_dispatchers_that_both_believe_to_lead_break_no_promise() {
    let report = explore(Budget::of_faults(0), None, STATES);
    println!("{} states, depth {}", report.states, report.depth);
    assert!(report.complete && report.states > 10_000);
    assert!(report.counterexample.is_none(), "{}", report.counterexample.unwrap());
}

#[test]
fn whatever_goes_wrong_first_breaks_no_promise() {
    for (name, budget) in SMALL_WORLDS {
        let report = explore(budget, None, STATES / 8);
        println!("{name}: {} states, depth {}", report.states, report.depth);
        assert!(report.counterexample.is_none(), "{name}: {}", report.counterexample.unwrap());
    }
}

/// What goes wrong in the world in which a planted bug shows, and the promise that it breaks.
fn planted() -> [(Flaw, Budget, &'static str); 6] {
    let quiet = Budget { under_way: 2, ..Budget::of_faults(0) };
    let one = Budget { faults: 1, ..quiet };
    [
        (Flaw::NoVersion, Budget { cuts: 1, ..one }, "never-twice"),
        (Flaw::DeleteByOldView, quiet, "never-again"),
        (Flaw::ReadIsProof, quiet, "never-lost"),
        (Flaw::OldProof, quiet, "never-lost"),
        (Flaw::NoQuarantine, Budget { refusals: 1, ..one }, "never-twice"),
        (Flaw::NoProofOfGone, Budget { crashes: 1, ..one }, "calm"),
    ]
}

#[test]
fn every_planted_bug_is_found_with_the_shortest_way_to_it() {
    for (flaw, budget, promise) in planted() {
        let report = explore(budget, Some(flaw), STATES);
        let found =
            report.counterexample.unwrap_or_else(|| panic!("{flaw:?} was not found in {} states", report.states));
        println!("{flaw:?}: {} after {} steps, {} states", found.promise, found.steps.len(), report.states);
        assert_eq!(found.promise, promise, "{flaw:?}: {found}");
    }
}
