//! Communicator names: NCCL's own `commHash`, as in NCCL's logs, RAS and Inspector.
//!
//! The hash covers the 128 bytes of the id, or the parent's name and the ordinal of the child, so every rank on every
//! node computes the same name without communication. Verified for NCCL 2.20 to 2.32; for other libraries or versions
//! [`own`] names a communicator instead, which its source states.

use probe_abi::fold::mix;

/// The bytes of an `ncclUniqueId`.
pub type UniqueId = [u8; 128];

/// Oldest `NCCL_VERSION_CODE` whose communicators have this hash.
pub const VERSION_MIN: u32 = 22_000;
/// First unverified version. From it on the hash is expected to be correct.
pub const VERSION_UNSEEN: u32 = 23_300;

/// NCCL's accumulator. The split of the bytes into calls of `eat` is part of the hash.
#[derive(Clone, Copy, Debug)]
struct Accumulator(u64, u64);

impl Accumulator {
    fn eat(mut self, bytes: &[u8]) -> Accumulator {
        self.0 ^= bytes.len() as u64;
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.stir();
            self.0 = self.0.wrapping_add(u64::from_le_bytes(word));
        }
        self
    }

    fn stir(&mut self) {
        self.0 = self.0.wrapping_add(self.1);
        self.1 ^= self.0;
        self.0 ^= self.0 >> 31;
        self.0 = self.0.wrapping_mul(0x9de6_2bbc_8cef_3ce3);
        self.1 ^= self.1 >> 32;
        self.1 = self.1.wrapping_mul(0x485c_d631_1b59_9e79);
    }

    fn digest(self) -> u64 {
        let hash = (self.0 ^ (self.0 >> 31)).wrapping_mul(0xbac3_bd56_2846_de6b).wrapping_add(self.1);
        (hash ^ (hash >> 32)).wrapping_mul(0x995a_187a_14e7_b445)
    }
}

/// Returns the name of the communicator made from this id; of several ids (`ncclCommInitRankScalable`) the first
/// counts.
pub fn of_unique_id(id: &UniqueId) -> u64 {
    Accumulator(1, 1).eat(id).digest()
}

/// Returns the name of a child. `ordinal` counts the parent's splits of all colors from 1; a shrink has ordinal 0 and
/// color 0.
pub fn of_child(parent: u64, ordinal: i32, color: i32) -> u64 {
    let fed = Accumulator(1, 1).eat(&parent.to_le_bytes());
    fed.eat(&ordinal.to_le_bytes()).eat(&color.to_le_bytes()).digest()
}

/// Returns a computed name of these parts in this order, for a communicator whose NCCL name is unknown.
pub fn own(parts: &[u64]) -> u64 {
    parts.iter().fold(0x6e63_636c, |hash, part| mix(hash ^ mix(part.wrapping_add(hash))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting() -> UniqueId {
        std::array::from_fn(|at| at as u8)
    }

    /// The expected values come from an independent implementation in another language of the rule in probes.md.
    #[test]
    fn ids_hash_to_the_names_of_nccl() {
        let cases: [(UniqueId, u64); 3] = [
            ([0; 128], 0xcc97_6ec6_c24b_b53c),
            (counting(), 0x6afe_1cc1_7717_e1f4),
            ([0xff; 128], 0xb291_227e_082b_b663),
        ];
        for (id, expected) in cases {
            assert_eq!(of_unique_id(&id), expected, "{id:02x?}");
        }
    }

    #[test]
    fn children_hash_to_the_names_of_nccl() {
        let parent = of_unique_id(&counting());
        let cases = [
            (1, 0, 0x7903_0d07_3b3c_579f),
            (2, 0, 0xcee9_955a_1c80_c08f),
            (1, 7, 0x490f_799a_ef7a_996f),
            (3, -5, 0x0984_666e_4d29_f03d),
            (0, 0, 0x3ab8_d78e_8fb6_dbda),
        ];
        for (ordinal, color, expected) in cases {
            assert_eq!(of_child(parent, ordinal, color), expected, "{ordinal} {color}");
        }
    }

    #[test]
    fn split_of_the_bytes_is_part_of_the_hash() {
        let whole = Accumulator(1, 1).eat(&counting()[..16]).digest();
        assert_ne!(whole, Accumulator(1, 1).eat(&counting()[..8]).eat(&counting()[8..16]).digest());
    }

    #[test]
    fn computed_names_depend_on_every_part_and_their_order() {
        let names = [own(&[]), own(&[1]), own(&[1, 2]), own(&[2, 1]), own(&[0, 1])];
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{at}");
        }
    }
}
