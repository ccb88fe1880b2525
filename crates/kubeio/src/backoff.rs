//! Waiting longer after each failure, with jitter that a seed decides.

use std::time::Duration;

/// Exponential back-off with jitter. Deterministic for a seed, so that a simulated run can be repeated.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    attempt: u32,
    seed: u64,
}

impl Backoff {
    /// Starts at `first`, doubles each time, never exceeds `most`.
    pub fn new(first: Duration, most: Duration, seed: u64) -> Self {
        Self { first, most, attempt: 0, seed }
    }

    /// How long to wait before the next attempt: between half of the full step and the full step.
    pub fn next_delay(&mut self) -> Duration {
        let step = self.first.saturating_mul(1 << self.attempt.min(20)).min(self.most);
        self.attempt = self.attempt.saturating_add(1);
        let half = step / 2;
        half + half.mul_f64(fraction(self.seed, u64::from(self.attempt)))
    }

    /// The work went well: the next failure starts from the beginning.
    pub fn reset(&mut self) {
        self.attempt = 0;
    }
}

/// A number in `0.0..1.0` that looks random and depends on nothing but its arguments (splitmix64).
fn fraction(seed: u64, step: u64) -> f64 {
    let mut z = seed.wrapping_add(step.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    // 32 bits are exact in an f64.
    f64::from(u32::try_from(z >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_limit_and_start_over_after_success() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2), 7);
        let delays: Vec<_> = (0..8).map(|_| backoff.next_delay()).collect();
        for (attempt, delay) in delays.iter().enumerate() {
            let step = Duration::from_millis(100 << attempt).min(Duration::from_secs(2));
            assert!(*delay >= step / 2 && *delay <= step, "attempt {attempt}: {delay:?} for a step of {step:?}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= Duration::from_millis(100));
    }

    #[test]
    fn seeds_spread_the_delays_and_repeat_them() {
        let delay = |seed| Backoff::new(Duration::from_secs(1), Duration::from_secs(1), seed).next_delay();
        assert_eq!(delay(1), delay(1));
        assert_ne!(delay(1), delay(2));
    }
}
