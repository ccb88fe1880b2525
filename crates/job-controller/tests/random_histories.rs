//! Two million random steps: pods that end, vanish and are deleted, users who edit, a controller that crashes between any
//! two writes and sees the world late. After every write the rules are checked.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod histories;

use histories::{Dice, History};

const STEPS: usize = 2_000_000;
/// Long enough to see several failures, suspensions and restarts of one Job.
const STEPS_OF_ONE_JOB: usize = 400;

#[test]
fn no_history_breaks_a_rule() {
    // A failure names its seed; with JOBFERRY_SEED only that history runs.
    let wanted = std::env::var("JOBFERRY_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let mut ends = std::collections::BTreeMap::new();
    let mut steps = 0;
    for seed in wanted.unwrap_or(1).. {
        let mut history = History::new(Dice::new(seed));
        for _ in 0..STEPS_OF_ONE_JOB {
            if history.is_over() {
                break;
            }
            history.step();
            steps += 1;
        }
        *ends.entry(history.finish()).or_insert(0) += 1;
        if wanted.is_some() || steps >= STEPS {
            break;
        }
    }
    // The histories lead everywhere; otherwise this test would prove little.
    let everywhere = [
        "BackoffLimitExceeded",
        "CompletionsReached",
        "DeadlineExceeded",
        "FailedIndexes",
        "MaxFailedIndexesExceeded",
        "PodFailurePolicy",
        "SuccessPolicy",
        "deleted",
    ];
    for reason in everywhere.into_iter().filter(|_| wanted.is_none()) {
        assert!(ends.get(reason).is_some_and(|count| *count > 100), "few histories end with {reason}: {ends:?}");
    }
}
