//! Stable ids: hashes of what they identify.
//!
//! They are neither secret nor safe against deliberate collisions, and spread well enough that two steps on the nodes of
//! a cluster do not share a trace.

use probe_abi::fold::mix;

/// A hash of a sequence of parts, in which `["ab", "c"]` is not `["a", "bc"]`.
#[derive(Clone, Copy, Debug)]
pub struct Hash(u64, u64);

impl Hash {
    /// Starts a hash for ids of `kind`.
    pub fn of(kind: &str) -> Hash {
        Hash(0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03).with(kind.as_bytes())
    }

    /// Adds a part.
    pub fn with(self, part: &[u8]) -> Hash {
        let hash = part.chunks(8).fold(self, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash.with_word(u64::from_le_bytes(word))
        });
        hash.with_word(part.len() as u64)
    }

    /// Adds a number.
    pub fn with_word(self, word: u64) -> Hash {
        let Hash(a, b) = self;
        Hash(mix((a ^ word).wrapping_add(b)), mix((b.rotate_left(29) ^ word).wrapping_mul(a | 1)))
    }

    /// Returns 64 bits of the hash, never 0.
    pub fn id64(self) -> u64 {
        mix(self.0 ^ self.1.rotate_left(17)).max(1)
    }

    /// Returns the 128 bits of the hash, never 0.
    pub fn id128(self) -> u128 {
        (u128::from(mix(self.0)) << 64 | u128::from(mix(self.1))).max(1)
    }

    /// Returns the hash as a UUID of version 8, the version for custom bits (RFC 9562, section 5.8).
    pub fn uuid(self) -> String {
        let id = self.id128() & !(0xf << 76) | (0x8 << 76);
        let id = id & !(0x3 << 62) | (0x2 << 62);
        let hex = format!("{id:032x}");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn parts_are_delimited() {
        let (a, b) = (Hash::of("x").with(b"ab").with(b"c"), Hash::of("x").with(b"a").with(b"bc"));
        assert_ne!(a.id128(), b.id128());
        assert_ne!(Hash::of("x").with_word(1).id64(), Hash::of("y").with_word(1).id64());
        assert_ne!(Hash::of("x").with(b"a").id64(), Hash::of("x").with(b"a\0").id64());
    }

    #[test]
    fn consecutive_numbers_have_spread_ids() {
        let ids: BTreeSet<u64> = (0..100_000).map(|n| Hash::of("x").with_word(n).id64()).collect();
        assert_eq!(ids.len(), 100_000);
        let tops: BTreeSet<u64> = ids.iter().map(|id| id >> 52).collect();
        assert_eq!(tops.len(), 4096, "all values of the top 12 bits occur");
    }

    #[test]
    fn uuid_has_version_8() {
        let uuid = Hash::of("x").with_word(7).uuid();
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "8"), "{uuid}");
        assert!("89ab".contains(&uuid[19..20]), "{uuid}");
    }
}
