//! The exhaustive search, as far as every test run can go; `full_small_worlds` goes further.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests say what went wrong by panicking")]

use jobferry_sim::model::{Budget, SMALL_WORLDS, SmallWorld, explore};
use jobferry_sim::planted::IN_THE_MODEL;

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
    for SmallWorld { name, budget, .. } in SMALL_WORLDS {
        let report = explore(budget, None, STATES / 8);
        println!("{name}: {} states, depth {}", report.states, report.depth);
        assert!(report.counterexample.is_none(), "{name}: {}", report.counterexample.unwrap());
    }
}

#[test]
fn every_planted_bug_is_found_with_the_shortest_way_to_it() {
    for bug in IN_THE_MODEL.iter().filter(|bug| !bug.is_long) {
        let found = bug.find(STATES).unwrap_or_else(|| panic!("{} was not found", bug.what));
        println!("{}: {} after {}", bug.what, found.promise, found.needed);
        assert_eq!(found.promise, bug.promise, "{}: {}", bug.what, found.story);
    }
}
