//! Each planted bug is found, by the checker that watches the promise it breaks, within a bounded number of seeds.

use jobferry_sim::Sabotage;
use jobferry_sim::planted::AT_THE_WIRE;

#[test]
fn every_planted_bug_is_found_by_the_checker_of_the_promise_it_breaks() {
    assert!(Sabotage::ALL.iter().all(|sabotage| AT_THE_WIRE.iter().any(|bug| bug.sabotage == *sabotage)));
    for bug in AT_THE_WIRE {
        match bug.find().unwrap() {
            Some(found) if bug.promises.contains(&found.promise) => println!("{}: {}", bug.what, found.needed),
            Some(found) => panic!("{}: another promise than {:?} was broken: {}", bug.what, bug.promises, found.story),
            None => panic!("{} was not found by {:?} within {} seeds", bug.what, bug.promises, bug.within),
        }
    }
}
