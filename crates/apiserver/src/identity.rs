//! Fresh UIDs and name suffixes from one seeded source, so that a run can be repeated exactly.

use std::sync::{Mutex, PoisonError};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// What Kubernetes draws suffixes from: no vowels (no words by accident), nothing that looks like something else.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

pub(crate) struct Identities(Mutex<ChaCha8Rng>);

impl Identities {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Mutex::new(ChaCha8Rng::seed_from_u64(seed)))
    }

    fn next(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// A version 4 UUID.
    pub(crate) fn uid(&self) -> String {
        let (high, low) = (self.next(), self.next());
        let high = high & !0xf000 | 0x4000;
        let low = low & !(0b11 << 62) | (0b10 << 62);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// The five characters behind a `generateName`.
    pub(crate) fn suffix(&self) -> String {
        let mut bits = self.next();
        let alphabet = SUFFIX_ALPHABET.len() as u64;
        let mut suffix = String::new();
        for _ in 0..5 {
            let at = usize::try_from(bits % alphabet).unwrap_or_default();
            suffix.push(char::from(SUFFIX_ALPHABET[at]));
            bits /= alphabet;
        }
        suffix
    }

    /// A number below `bound`, for spreading things out in time.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_identities_and_another_seed_others() {
        let (one, same, other) = (Identities::seeded(1), Identities::seeded(1), Identities::seeded(2));
        let uid = one.uid();
        assert_eq!(uid, same.uid());
        assert_ne!(uid, other.uid());
        assert_eq!((uid.len(), uid.as_bytes()[14]), (36, b'4'));
        assert!(matches!(uid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
        assert_eq!(one.suffix().len(), 5);
    }
}
