//! The planted bugs that lie too deep in their small world for every run. The worlds themselves are gone through to their ends
//! by `jobferry-sim --exhaustive`, in a release build: that takes many minutes and gigabytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests say what went wrong by panicking")]

use jobferry_sim::model::Flaw;
use jobferry_sim::planted::IN_THE_MODEL;

/// Enough for the planted bugs that lie deepest.
const DEEP: usize = 20_000_000;

#[test]
#[ignore = "takes minutes: cargo xtask test --full"]
fn the_planted_bugs_that_lie_deep_are_found_as_well() {
    let planted = |flaw: &&Flaw| IN_THE_MODEL.iter().all(|bug| bug.flaw != **flaw);
    assert_eq!(Flaw::ALL.iter().filter(planted).collect::<Vec<_>>(), [&Flaw::NoWindow]);
    for bug in IN_THE_MODEL.iter().filter(|bug| bug.is_long) {
        let found = bug.find(DEEP).unwrap_or_else(|| panic!("{} was not found", bug.what));
        println!("{}: {} after {}", bug.what, found.promise, found.needed);
        assert_eq!(found.promise, bug.promise, "{}: {}", bug.what, found.story);
    }
}
