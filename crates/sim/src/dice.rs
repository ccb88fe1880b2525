//! Randomness that one seed decides.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of random numbers. Streams of the same seed with different names are independent: more draws by one part of
/// the world do not change what another part draws.
pub(crate) struct Dice(ChaCha8Rng);

impl Dice {
    /// The stream `name` of this seed.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        let mut source = ChaCha8Rng::seed_from_u64(seed);
        source.set_stream(fnv(name.as_bytes()));
        Self(source)
    }

    /// A number below `bound`, or 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound.max(1)
    }

    /// A number from `low` to `high`, both possible.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True in so many of a thousand cases.
    pub(crate) fn per_mille(&mut self, chance: u64) -> bool {
        self.below(1000) < chance
    }

    /// A time between these.
    pub(crate) fn time(&mut self, low: Duration, high: Duration) -> Duration {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.between(millis(low), millis(high)))
    }

    /// A time of whole seconds and some milliseconds between these seconds.
    pub(crate) fn seconds(&mut self, low: u64, high: u64) -> Duration {
        self.time(Duration::from_secs(low), Duration::from_secs(high))
    }

    /// One of these. There must be at least one.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let at = usize::try_from(self.below(choices.len() as u64)).unwrap_or(0);
        choices[at]
    }
}

/// FNV-1a: stable over builds.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    fnv_on(0xCBF2_9CE4_8422_2325, bytes)
}

/// Goes on from an earlier hash.
pub(crate) fn fnv_on(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_name_decide_a_stream() {
        let draw = |seed, name: &str| Dice::new(seed, name).below(u64::MAX);
        assert_eq!(draw(1, "faults"), draw(1, "faults"));
        assert_ne!(draw(1, "faults"), draw(1, "users"));
        assert_ne!(draw(1, "faults"), draw(2, "faults"));
    }

    #[test]
    fn draws_stay_within_their_bounds() {
        let mut dice = Dice::new(3, "bounds");
        for _ in 0..1000 {
            assert!((5..=7).contains(&dice.between(5, 7)));
            assert!(dice.seconds(1, 2) <= Duration::from_secs(2));
        }
        assert!(!dice.per_mille(0) && dice.per_mille(1000));
    }
}
