//! Launched functions: their ordinals in a process, and the signature that a step has of them.
//!
//! The kernel numbers the functions of a process in the order of their first launch. A stream counts the launches of
//! each number in a *lane*, 16 bits of a word of its counters, so that a step has the launches of its functions as it
//! has its copied bytes: the difference of two snapshots. Differences of packed words are exact for each lane as long
//! as a step launches no lane more than 65,535 times; above that, the next lane is one too high.
//!
//! The first functions of a process have a lane each. Later ones share them, and user space knows which. A function
//! without an ordinal, because a bound was reached, is counted in [`OVERFLOW_LANE`].

use crate::atomic::{AtomicU64, Relaxed, SeqCst};
use crate::fold::mix;
use crate::record::Header;

/// Lanes of a signature.
pub const LANES: u32 = 64;
/// Lane of functions without an ordinal.
pub const OVERFLOW_LANE: u32 = LANES - 1;
/// Bits of a lane.
const LANE_BITS: u32 = 16;
/// Lanes in a word.
const LANES_OF_WORD: u32 = u64::BITS / LANE_BITS;
/// Words of a signature.
pub const SIGNATURE: usize = (LANES / LANES_OF_WORD) as usize;
/// Largest number of functions of a process that have an ordinal.
pub const FUNCTIONS_MAX: u64 = 2048;
/// Slots for functions; a power of two.
pub const HOT_FUNCTIONS: u32 = 32_768;
/// A function is recorded at its first launch and at one in so many; a power of two.
pub const SAMPLED_ONE_IN: u64 = 4096;

/// Returns the lane of the function with this ordinal.
#[inline(always)]
pub const fn lane(ordinal: u32) -> u32 {
    ordinal % OVERFLOW_LANE
}

/// Returns the index of the lane's word in a signature.
#[inline(always)]
pub const fn word(lane: u32) -> usize {
    (lane / LANES_OF_WORD) as usize & (SIGNATURE - 1)
}

/// Returns what one launch adds to the lane's word.
#[inline(always)]
pub const fn one(lane: u32) -> u64 {
    1 << (lane % LANES_OF_WORD * LANE_BITS)
}

/// Launches of a step by lane, those in graphs with known contents included.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(transparent)]
pub struct Signature(pub [u64; SIGNATURE]);

impl Signature {
    /// Returns the launches in a lane.
    pub fn launches(&self, lane: u32) -> u64 {
        self.0[word(lane)] >> (lane % LANES_OF_WORD * LANE_BITS) & ((1 << LANE_BITS) - 1)
    }

    /// Adds the launches of another signature.
    pub fn add(&mut self, other: &Signature) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum = sum.wrapping_add(more);
        }
    }
}

/// A launched function, in a slot that follows from its address and process.
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct HotFunction {
    /// Process id in the upper half, ordinal in the lower; 0 if the slot is free. User space zeroes it when the process
    /// has ended.
    owner: AtomicU64,
    /// Address of the host function, or the handle that the driver gave it.
    address: AtomicU64,
    /// Launches, those that are captured into graphs included.
    pub launches: AtomicU64,
    /// Lane of the ordinal, since a division would cost each launch 20 cycles.
    lane: AtomicU64,
}

impl HotFunction {
    /// Returns the two slots in which a function may be. Both are in one cache line.
    #[inline(always)]
    pub fn slots(pid: u32, address: u64) -> [u32; 2] {
        let first = (mix(address) >> 32) as u32 ^ pid.wrapping_mul(0x9e37_79b1) >> 8;
        [first & (HOT_FUNCTIONS - 1), (first ^ 1) & (HOT_FUNCTIONS - 1)]
    }

    /// Returns true if the slot is this function's.
    #[inline(always)]
    pub fn is_of(&self, pid: u32, address: u64) -> bool {
        self.address.load(Relaxed) == address && self.pid() == pid
    }

    /// Returns true if the slot is no function's.
    #[inline(always)]
    pub fn is_free(&self) -> bool {
        self.owner.load(Relaxed) == 0
    }

    /// Returns the process of the function; 0 if the slot is free.
    #[inline(always)]
    pub fn pid(&self) -> u32 {
        (self.owner.load(Relaxed) >> 32) as u32
    }

    /// Returns the number of the function in its process.
    #[inline(always)]
    pub fn ordinal(&self) -> u32 {
        self.owner.load(Relaxed) as u32
    }

    /// Returns the address or handle of the function.
    #[inline(always)]
    pub fn address(&self) -> u64 {
        self.address.load(Relaxed)
    }

    /// Returns the lane of the function.
    #[inline(always)]
    pub fn lane(&self) -> u32 {
        self.lane.load(Relaxed) as u32
    }

    /// Claims a free slot. Returns false if it is taken meanwhile.
    #[inline(always)]
    pub fn claim(&self, pid: u32, address: u64, ordinal: u32) -> bool {
        let owner = u64::from(pid) << 32 | u64::from(ordinal);
        if self.owner.compare_exchange(0, owner, SeqCst, SeqCst).is_err() {
            return false;
        }
        self.launches.store(0, Relaxed);
        self.lane.store(u64::from(lane(ordinal)), Relaxed);
        // Last: until then the slot is no function's, and a launch at the same time claims another one.
        self.address.store(address, Relaxed);
        true
    }

    /// Counts a launch. Returns true if it is to be recorded; of launches at the same time none or several may be.
    #[inline(always)]
    pub fn launch(&self) -> bool {
        let before = self.launches.load(Relaxed);
        self.launches.fetch_add(1, Relaxed);
        before & (SAMPLED_ONE_IN - 1) == 0
    }
}

/// Capacity of the map of registered functions; a PyTorch process registers tens of thousands.
pub const REGISTERED: u32 = 65_536;

/// Key of the map of registered functions, whose values are the addresses of their names.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "user", derive(zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct RegisteredKey {
    /// Process id.
    pub pid: u64,
    /// Address of the host function.
    pub address: u64,
}

/// The first launch of a function in its process, or one in [`SAMPLED_ONE_IN`] of the later ones.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct FunctionRecord {
    /// `duration_ns` is 0.
    pub header: Header,
    /// Address of the host function, or the handle that the driver gave it.
    pub address: u64,
    /// Handle of the stream; 0 for the default stream.
    pub stream: u64,
    /// Launches of the function before this one.
    pub launches: u64,
    /// Number of the function in its process.
    pub ordinal: u32,
    /// Dynamic shared memory of a block, bytes; 0 where it is not an argument.
    pub shared_bytes: u32,
    /// Blocks in x, y and z; threads where the function counts these ([`crate::Grid::Threads`]).
    pub grid: [u32; 3],
    /// Threads per block in x, y and z.
    pub block: [u32; 3],
}

const _: () = {
    assert!(HOT_FUNCTIONS.is_power_of_two() && SAMPLED_ONE_IN.is_power_of_two());
    assert!(SIGNATURE.is_power_of_two() && size_of::<HotFunction>() == 32);
    assert!(size_of::<FunctionRecord>() == 96);
};

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn differences_of_packed_lanes_are_exact() {
        let (mut before, mut after) = ([0u64; SIGNATURE], [0u64; SIGNATURE]);
        for (lane, earlier, later) in [(0, 65_530, 9), (1, 1, 65_535), (3, 70_000, 0), (63, 5, 1)] {
            before[word(lane)] = before[word(lane)].wrapping_add(one(lane).wrapping_mul(earlier));
            after[word(lane)] = after[word(lane)].wrapping_add(one(lane).wrapping_mul(earlier + later));
        }
        let mut step = Signature(std::array::from_fn(|at| after[at].wrapping_sub(before[at])));
        let launches = |step: &Signature| [0, 1, 2, 3, 62, 63].map(|lane| step.launches(lane));
        assert_eq!(launches(&step), [9, 65_535, 0, 0, 0, 1]);
        step.add(&Signature([one(2); SIGNATURE]));
        assert_eq!(launches(&step), [9, 65_535, 1, 0, 1, 1]);
    }

    #[test]
    fn the_first_functions_of_a_process_have_a_lane_each() {
        assert_eq!([0, 62, 63, 64].map(lane), [0, 62, 0, 1]);
        assert!((0..1000).all(|ordinal| lane(ordinal) != OVERFLOW_LANE));
    }

    #[test]
    fn slots_have_one_owner() {
        let slot = HotFunction::default();
        assert!(slot.is_free() && slot.claim(7, 0x4000, 3));
        assert!(!slot.claim(8, 0x4000, 0) && !slot.is_free());
        assert!(slot.is_of(7, 0x4000) && !slot.is_of(7, 0x5000) && !slot.is_of(8, 0x4000));
        assert_eq!((slot.pid(), slot.ordinal(), slot.lane(), slot.address()), (7, 3, 3, 0x4000));
    }

    #[test]
    fn the_first_launch_is_recorded_and_one_in_many() {
        let slot = HotFunction::default();
        let recorded = (0..2 * SAMPLED_ONE_IN + 1).filter(|_| slot.launch()).count();
        assert_eq!(recorded, 3);
    }

    #[test]
    fn slots_of_many_functions_differ() {
        let mut taken = [false; HOT_FUNCTIONS as usize];
        let mut without = 0;
        for (pid, at) in (0..8u32).flat_map(|pid| (0..200u64).map(move |at| (1000 + pid, at))) {
            let slots = HotFunction::slots(pid, 0x7f00_0000_0000 + at * 0x40);
            match slots.into_iter().find(|slot| !taken[*slot as usize]) {
                Some(slot) => taken[slot as usize] = true,
                None => without += 1,
            }
        }
        assert!(without < 5, "{without} of 1600 functions without a slot");
    }
}
