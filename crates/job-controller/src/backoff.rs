//! How long to wait before a failed pod is replaced.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::pod::PodView;

/// The wait after the first failure in a row; each further failure doubles it.
const FIRST_DELAY: SignedDuration = SignedDuration::from_secs(10);
/// The longest wait.
const LONGEST_DELAY: SignedDuration = SignedDuration::from_mins(10);

/// The failures of a Job since its last success. Lives in memory only, as in the built-in controller: after a restart
/// the waits begin anew, which costs a few early pods and saves a write per failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
    last_failure: Option<Timestamp>,
}

impl Backoff {
    /// The record after these pods ended too.
    #[must_use]
    pub(crate) fn after(self, succeeded: &[&PodView], failed: &[&PodView]) -> Self {
        let last_success = succeeded.iter().map(|pod| pod.finished).max();
        let since =
            failed.iter().map(|pod| pod.finished).filter(|end| last_success.is_none_or(|success| *end > success));
        let (failures, last_failure) = since.fold((0, None), |(count, last), end| (count + 1, last.max(Some(end))));
        match (last_success, last_failure) {
            (None, None) => self,
            (None, Some(_)) => Self { failures: self.failures.saturating_add(failures), last_failure },
            (Some(_), _) => Self { failures, last_failure },
        }
    }

    /// The first moment at which the next pod may be created.
    pub(crate) fn over_at(self) -> Option<Timestamp> {
        self.last_failure.and_then(|last| over_at(self.failures, last))
    }
}

/// When the wait after `failures` failures in a row, the last at `last_failure`, is over.
pub(crate) fn over_at(failures: u32, last_failure: Timestamp) -> Option<Timestamp> {
    let doublings = failures.checked_sub(1)?.min(6);
    let delay = (FIRST_DELAY * (1 << doublings)).min(LONGEST_DELAY);
    last_failure.checked_add(delay).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_wait_up_to_ten_minutes() {
        let waits =
            [(0, None), (1, Some(10)), (2, Some(20)), (3, Some(40)), (6, Some(320)), (7, Some(600)), (99, Some(600))];
        for (failures, wait) in waits {
            let over = over_at(failures, Timestamp::UNIX_EPOCH).map(Timestamp::as_second);
            assert_eq!(over, wait, "after {failures} failures");
        }
    }
}
