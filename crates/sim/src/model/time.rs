//! Time in ticks. A tick is a little shorter than the deadline of a request and the window of a create, so that
//! "just in time" and "just too late" are both steps of this world.

use std::time::Duration;

use jobferry_core::time::{CREATE_WINDOW, QUARANTINE, WRITE_DEADLINE};
use jobferry_testkit::fault::LATEST;

/// The one step of time.
const TICK: Duration = Duration::from_millis(9900);

/// How many ticks ago something was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Age(u8);

/// The first tick at which this time has passed.
const fn passed(time: Duration) -> u8 {
    #[allow(clippy::cast_possible_truncation, reason = "a handful of ticks")]
    let ticks = time.as_millis().div_ceil(TICK.as_millis()) as u8;
    ticks
}

impl Age {
    pub(super) const NOW: Self = Self(0);
    /// Longer than anything that is waited for.
    pub(super) const LONG: Self = Self(passed(QUARANTINE));

    /// One tick later.
    pub(super) fn older(self) -> Self {
        Self((self.0 + 1).min(Self::LONG.0))
    }

    /// Nothing is waited for any more.
    pub(super) fn is_long(self) -> bool {
        self == Self::LONG
    }

    /// A create may no longer be sent.
    pub(super) fn is_past_window(self) -> bool {
        self.0 >= passed(CREATE_WINDOW)
    }

    /// Who sent it has stopped waiting.
    pub(super) fn is_past_deadline(self) -> bool {
        self.0 >= passed(WRITE_DEADLINE)
    }

    /// A server that has not carried it out by now never will.
    pub(super) fn is_forgotten(self) -> bool {
        self.0 >= passed(LATEST)
    }

    pub(super) fn ticks(self) -> u8 {
        self.0
    }

    pub(super) fn duration(self) -> Duration {
        TICK * u32::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_can_be_just_in_time_and_a_quarantine_just_over() {
        let after = |ticks: u32| (0..ticks).fold(Age::NOW, |age, _| age.older());
        assert!(!after(1).is_past_window() && after(2).is_past_window());
        assert!(!after(1).is_past_deadline() && after(2).is_past_deadline());
        assert!(!after(7).is_forgotten() && after(8).is_forgotten());
        assert!(!after(8).is_long() && after(9).is_long() && after(50).is_long());
    }
}
