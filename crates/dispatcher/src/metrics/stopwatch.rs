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
/// What has not ended by then is forgotten when room is needed: most changes of a mirror lead to no copy at all.
const STALE: Duration = Duration::from_secs(60);

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Stopwatch {
    began: HashMap<(Leg, Uid), Instant>,
}

impl Stopwatch {
    /// Starts a leg; one that is under way starts anew, because the end will be that of the latest beginning.
    pub(super) fn begin(&mut self, leg: Leg, uid: &str, now: Instant) {
        if self.began.len() >= MOST {
            self.began.retain(|_, began| now.duration_since(*began) < STALE);
        }
        if self.began.len() < MOST {
            self.began.insert((leg, uid.to_owned()), now);
        }
    }

    /// How long the leg took, if its beginning was seen.
    pub(super) fn end(&mut self, leg: Leg, uid: &str, now: Instant) -> Option<Duration> {
        Some(now.duration_since(self.began.remove(&(leg, uid.to_owned()))?))
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
    fn it_holds_a_limited_number_and_lets_go_of_what_never_ended() {
        let (mut stopwatch, start) = (Stopwatch::default(), Instant::now());
        for number in 0..2 * MOST {
            stopwatch.begin(Leg::Copying, &number.to_string(), start);
        }
        assert_eq!(stopwatch.began.len(), MOST);
        stopwatch.begin(Leg::Copying, "later", start + STALE);
        assert_eq!(stopwatch.began.len(), 1);
    }
}
