//! Wall-clock time for people: how long a stage or a build took.

use std::fmt;
use std::time::Instant;

/// Measures from its creation; displayed as `1m 23s` or `4.2s`.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[allow(clippy::disallowed_methods, reason = "the one place of this tool that reads the real clock")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// The time so far, fixed as text.
    pub(crate) fn read(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Stopwatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elapsed = self.0.elapsed();
        match elapsed.as_secs() {
            0..60 => write!(f, "{:.1}s", elapsed.as_secs_f64()),
            seconds => write!(f, "{}m {:02}s", seconds / 60, seconds % 60),
        }
    }
}
