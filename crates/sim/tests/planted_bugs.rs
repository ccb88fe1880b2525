//! Each planted bug is found, by the checker that watches the promise it breaks, within a bounded number of seeds.

use jobferry_sim::{Sabotage, Settings, run};

/// The promises by which it may be found, and within how many seeds.
const fn expected(sabotage: Sabotage) -> (&'static [&'static str], u64) {
    match sabotage {
        Sabotage::NoVersion => (&["never-twice", "never-again", "legal"], 40),
        Sabotage::NoUidOnDelete | Sabotage::NoMarks => (&["own-only"], 5),
        Sabotage::FalseGone => (&["budget", "calm"], 20),
        Sabotage::RawStatus => (&["legal"], 5),
        Sabotage::UnwrittenEnd => (&["never-lost"], 5),
        Sabotage::UnsentDelete => (&["clean"], 5),
    }
}

#[test]
fn every_planted_bug_is_found_by_the_checker_of_the_promise_it_breaks() {
    for sabotage in Sabotage::ALL {
        let (promises, within) = expected(sabotage);
        let settings = Settings { sabotage: Some(sabotage), ..Settings::default() };
        let found = (1..=within).find_map(|seed| {
            let outcome = run(seed, &settings).unwrap();
            outcome.violations.into_iter().next().map(|(found, _)| (seed, found))
        });
        match found {
            Some((seed, found)) if promises.contains(&found.promise) => {
                println!("{sabotage:?}: {}, seed {seed}", found.promise);
            }
            Some((seed, found)) => panic!("{sabotage:?}: seed {seed} broke another promise than {promises:?}: {found}"),
            None => panic!("{sabotage:?} was not found by {promises:?} within {within} seeds"),
        }
    }
}
