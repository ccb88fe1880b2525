//! How long things take that begin at one place and end at another.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use crate::index::Uid;

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Leg {
    /// From the first sight of a workload to its recorded placement.
    Placing,
    /// From the recorded placement to the mirror.
    Mirroring,
    /// From a change of the mirror to the copy of its status.
    Copying,
}

/// More are not timed at once: measuring must not cost memory that grows with the number of workloads.
const MOST: usize = 10_000;

/// What is under way. Most changes of a mirror lead to no copy at all, so much of it never ends: when the younger half is
/// full, the older one is forgotten as a whole. To look for what is stale in a full one, at every event, took two fifths
/// of the samples in the dispatcher's own code at a thousand Jobs a second.
#[derive(Debug, Default)]
pub(super) struct Stopwatch {
    younger: HashMap<(Leg, Uid), Instant>,
    older: HashMap<(Leg, Uid), Instant>,
}

impl Stopwatch {
    /// Starts a leg; one that is under way starts anew, because the end will be that of the latest beginning.
    pub(super) fn begin(&mut self, leg: Leg, uid: &str, now: Instant) {
        if self.younger.len() >= MOST / 2 {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert((leg, uid.to_owned()), now);
    }

    /// How long the leg took, if its beginning was seen.
    pub(super) fn end(&mut self, leg: Leg, uid: &str, now: Instant) -> Option<Duration> {
        let leg = (leg, uid.to_owned());
        let before = self.older.remove(&leg);
        Some(now.duration_since(self.younger.remove(&leg).or(before)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leg_ends_once_and_counts_from_its_latest_beginning() {
        let (mut stopwatch, start) = (Stopwatch::default(), Instant::now());
        let second = |n| start + Duration::from_secs(n);
        stopwatch.begin(Leg::Copying, "a", start);
        stopwatch.begin(Leg::Copying, "a", second(2));
        stopwatch.begin(Leg::Placing, "a", start);
        assert_eq!(stopwatch.end(Leg::Copying, "a", second(5)), Some(Duration::from_secs(3)));
        assert_eq!(stopwatch.end(Leg::Copying, "a", second(5)), None);
        assert_eq!(stopwatch.end(Leg::Placing, "a", second(5)), Some(Duration::from_secs(5)));
    }

    #[test]
    fn a_leg_that_began_again_later_has_not_begun_before() {
        let (mut stopwatch, start) = (Stopwatch::default(), Instant::now());
        stopwatch.begin(Leg::Copying, "a", start);
        for number in 0..MOST / 2 {
            stopwatch.begin(Leg::Copying, &number.to_string(), start);
        }
        let later = start + Duration::from_secs(2);
        stopwatch.begin(Leg::Copying, "a", later);
        assert_eq!(stopwatch.end(Leg::Copying, "a", later), Some(Duration::ZERO));
        assert_eq!(stopwatch.end(Leg::Copying, "a", later), None);
    }

    #[test]
    fn it_holds_a_limited_number_and_lets_go_of_the_oldest() {
        let (mut stopwatch, start) = (Stopwatch::default(), Instant::now());
        for number in 0..2 * MOST {
            stopwatch.begin(Leg::Copying, &number.to_string(), start);
            assert!(stopwatch.younger.len() + stopwatch.older.len() <= MOST);
        }
        let mut end = |number: usize| stopwatch.end(Leg::Copying, &number.to_string(), start).is_some();
        assert_eq!([end(0), end(2 * MOST - 1), end(2 * MOST - MOST / 2)], [false, true, true]);
    }
}
