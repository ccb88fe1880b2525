//! Each planted bug is found, by the checker that watches the promise it breaks, within a bounded number of seeds.

use jobferry_sim::{Sabotage, Settings, run};

/// The promises by which it may be found, and within how many seeds.
const fn expected(sabotage: Sabotage) -> (&'static [&'static str], u64) {
    match sabotage {
        Sabotage::NoVersion => (&["never-twice"], 60),
        Sabotage::NoUidOnDelete => (&["own-only"], 5),
        Sabotage::FalseAbsence => (&["never-twice", "never-lost", "never-again", "progress"], 20),
        Sabotage::FalseGone => (&["calm", "never-lost", "progress"], 40),
        Sabotage::RawStatus => (&["legal"], 5),
        Sabotage::NoMarks => (&["progress"], 5),
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
            let broken = outcome.violations.iter().find(|(found, _)| promises.contains(&found.promise));
            broken.map(|(found, _)| (seed, found.promise))
        });
        match found {
            Some((seed, promise)) => println!("{sabotage:?}: {promise}, seed {seed}"),
            None => panic!("{sabotage:?} was not found by {promises:?} within {within} seeds"),
        }
    }
}
