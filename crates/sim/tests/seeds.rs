//! A fixed set of seeds, small enough for every test run. More: `cargo run --release -p jobferry-sim -- --seeds N`.

use jobferry_sim::{FaultSet, Outcome, RunError, Settings, Summary, run};

fn whole(seed: u64) -> Result<Outcome, RunError> {
    run(seed, &Settings { keep_lines: usize::MAX, ..Settings::default() })
}

#[test]
fn the_same_seed_gives_the_same_log_byte_for_byte() {
    for seed in [3, 5] {
        let (one, two) = (whole(seed).unwrap(), whole(seed).unwrap());
        if one.log != two.log {
            let differs = one.log.lines().zip(two.log.lines()).enumerate().find(|(_, (one, two))| one != two);
            panic!("seed {seed}: the logs part at {differs:?}");
        }
        assert!(one.digest.0 > 200, "a run that hardly does anything proves nothing");
    }
}

#[test]
fn the_fixed_seeds_keep_every_promise() {
    let mut summary = Summary::default();
    for seed in 1..=6 {
        summary.add(run(seed, &Settings::default()).unwrap());
    }
    assert!(summary.violations == 0, "{}", summary.text());
    assert!(summary.jobs > 30 && summary.faults.len() > 8, "{}", summary.text());
}

#[test]
fn other_kinds_among_the_jobs_keep_every_promise_as_well() {
    let mut summary = Summary::default();
    // The last ones found that two dispatchers overwrote each other's copy of a status.
    for seed in (1..=4).chain([80126, 80265, 80618]) {
        let outcome = run(seed, &Settings { mixed: true, keep_lines: usize::MAX, ..Settings::default() }).unwrap();
        let mirrored = outcome
            .log
            .lines()
            .filter(|line| line.contains(": d") && line.contains(" POST "))
            .filter(|line| line.contains("/etlruns"));
        assert!(mirrored.count() > 0, "seed {seed} dispatched nothing but Jobs");
        summary.add(outcome);
    }
    assert!(summary.violations == 0, "{}", summary.text());
}

#[test]
fn without_faults_every_workload_simply_runs() {
    let outcome = run(7, &Settings { faults: FaultSet::none(), ..Settings::default() }).unwrap();
    assert!(outcome.violations.is_empty() && outcome.faults.is_empty(), "{:?}", outcome.violations);
}

#[test]
fn seeds_that_once_found_a_mistake_find_it_no_more() {
    let mut summary = Summary::default();
    let seeds = include_str!("../seeds.txt").lines().filter(|line| !line.starts_with('#'));
    for seed in seeds.filter_map(|line| line.split_whitespace().next()) {
        summary.add(run(seed.parse().unwrap(), &Settings::default()).unwrap());
    }
    assert!(summary.seeds > 0 && summary.violations == 0, "{}", summary.text());
}
