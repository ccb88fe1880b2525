//! One small hash for everything that must be the same tomorrow and in another process.

/// FNV-1a: stable over builds, unlike the standard library's hasher.
pub(crate) fn fingerprint(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}
