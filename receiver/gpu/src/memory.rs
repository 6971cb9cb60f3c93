//! Device memory that a process has allocated and not freed: size, age and growth.
//!
//! A free has an address and no size, so allocations are stored with their sizes. Allocations from pools count as others do.
//! Virtual memory is counted when it becomes physical (`cuMemCreate`), by its handle; mapping it costs nothing.
//!
//! Bounded: above [`ALLOCATIONS_MAX`] an allocation is counted as untracked, and its free has no size.

pub(crate) mod emit;
mod envelope;

use std::collections::{BTreeSet, HashMap};

use instrumentation::Limit;
use probe_abi::{Action, Probe};
use semconv::value::GpuMemoryCoverage;

use self::envelope::{Envelope, Sizes};

pub(crate) use self::envelope::Leak;

/// The maximum number of tracked allocations of a process. Caching allocators have hundreds.
pub(crate) const ALLOCATIONS_MAX: usize = 16_384;
/// The number of most recent frees, shown with a failed allocation.
const FREED_MAX: usize = 4;
/// Burst and rate of log records about failed allocations. An allocator that is out of memory retries continuously.
const FAILURES_BURST: u32 = 5;
const FAILURES_PER_MINUTE: u32 = 6;

/// The effect of a successful call on memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Effect {
    /// The call allocates.
    Allocates(Space),
    /// The call frees.
    Frees(Space),
}

/// The namespace of a handle.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Space {
    /// Addresses, including those of pools.
    Addresses,
    /// Handles of physical memory.
    Physical,
}

impl Effect {
    /// Returns the effect of calls of a probe row.
    pub(crate) fn of(row: &Probe) -> Option<Effect> {
        match row.action {
            Action::Alloc => Some(Effect::Allocates(Space::Addresses)),
            Action::Free => Some(Effect::Frees(Space::Addresses)),
            Action::AllocPhysical => Some(Effect::Allocates(Space::Physical)),
            Action::FreePhysical => Some(Effect::Frees(Space::Physical)),
            _ => None,
        }
    }
}

/// An allocation or a free.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Piece {
    pub(crate) bytes: u64,
    pub(crate) at_ns: u64,
}

/// The memory of one process.
#[derive(Debug)]
pub(crate) struct Memory {
    pieces: HashMap<(Space, u64), Piece>,
    live_bytes: u64,
    was_used: bool,
    /// Earlier allocations may be unknown.
    is_partial: bool,
    sizes: Sizes,
    envelope: Envelope,
    /// Recent frees, newest last.
    freed: Vec<Piece>,
    pub(crate) failures: Limit,
}

impl Default for Memory {
    fn default() -> Self {
        Memory {
            pieces: HashMap::new(),
            live_bytes: 0,
            was_used: false,
            is_partial: false,
            sizes: Sizes::default(),
            envelope: Envelope::default(),
            freed: Vec::new(),
            failures: Limit::new(FAILURES_PER_MINUTE, FAILURES_BURST),
        }
    }
}

impl Memory {
    /// Tracks a successful allocation; returns false above the bound.
    pub(crate) fn allocate(&mut self, space: Space, handle: u64, piece: Piece) -> bool {
        self.was_used = true;
        let key = (space, handle);
        if self.pieces.len() >= ALLOCATIONS_MAX && !self.pieces.contains_key(&key) {
            return false;
        }
        // A handle that is allocated again was freed by an unobserved call.
        self.remove(key);
        self.pieces.insert(key, piece);
        self.live_bytes = self.live_bytes.saturating_add(piece.bytes);
        self.sizes.allocate(piece.bytes);
        true
    }

    /// Notes that the process may have allocated memory before it was observed.
    pub(crate) fn set_partial(&mut self) {
        self.is_partial = true;
    }

    /// Returns the part of the life of the process that the figures cover.
    pub(crate) fn coverage(&self) -> GpuMemoryCoverage {
        if self.is_partial { GpuMemoryCoverage::Partial } else { GpuMemoryCoverage::Complete }
    }

    /// Removes a freed allocation; returns its size if it is tracked.
    pub(crate) fn free(&mut self, space: Space, handle: u64, at_ns: u64) -> Option<u64> {
        let bytes = self.remove((space, handle))?;
        if self.freed.len() == FREED_MAX {
            self.freed.remove(0);
        }
        self.freed.push(Piece { bytes, at_ns });
        Some(bytes)
    }

    /// Observes the end of a step; returns a change of the suspected leak.
    pub(crate) fn step(&mut self, end_ns: u64) -> Option<Leak> {
        self.was_used.then(|| self.envelope.step(end_ns, self.live_bytes, &mut self.sizes))?
    }

    /// Returns whether the process has allocated memory.
    pub(crate) fn was_used(&self) -> bool {
        self.was_used
    }

    /// Returns the allocated bytes.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Returns the number of allocations.
    pub(crate) fn live_count(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the size of the largest allocation. Iterates over all of them, so it is called for failures only.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.pieces.values().map(|piece| piece.bytes).max()
    }

    /// Returns the age of the oldest allocation in ns. Iterates over all of them, so it is called for collections
    /// and outliers only.
    pub(crate) fn oldest_age_ns(&self, now_ns: u64) -> Option<u64> {
        self.pieces.values().map(|piece| piece.at_ns).min().map(|at| now_ns.saturating_sub(at))
    }

    /// Returns the oldest allocations, oldest first. In an inference server these are its weights and its KV cache.
    /// Iterates over all of them, so it is called for outliers only.
    pub(crate) fn oldest(&self, most: usize) -> Vec<Piece> {
        let mut oldest = BTreeSet::new();
        for (key, piece) in &self.pieces {
            oldest.insert((piece.at_ns, *key, piece.bytes));
            if oldest.len() > most {
                oldest.pop_last();
            }
        }
        oldest.into_iter().map(|(at_ns, _, bytes)| Piece { bytes, at_ns }).collect()
    }

    /// Returns the last frees, newest last.
    pub(crate) fn freed(&self) -> &[Piece] {
        &self.freed
    }

    fn remove(&mut self, key: (Space, u64)) -> Option<u64> {
        let bytes = self.pieces.remove(&key)?.bytes;
        self.live_bytes = self.live_bytes.saturating_sub(bytes);
        self.envelope.fall(self.live_bytes);
        self.sizes.free(bytes);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocate(memory: &mut Memory, address: u64, bytes: u64, at_ns: u64) -> bool {
        memory.allocate(Space::Addresses, address, Piece { bytes, at_ns })
    }

    fn free(memory: &mut Memory, address: u64) -> Option<u64> {
        memory.free(Space::Addresses, address, 10)
    }

    #[test]
    fn unfreed_allocations_are_live() {
        let mut memory = Memory::default();
        assert!(allocate(&mut memory, 0x100, 10, 5));
        assert!(allocate(&mut memory, 0x200, 20, 7));
        assert_eq!((memory.live_bytes(), memory.oldest_age_ns(10)), (30, Some(5)));
        assert_eq!(memory.largest(), Some(20));
        assert_eq!(free(&mut memory, 0x100), Some(10));
        assert_eq!(free(&mut memory, 0x100), None);
        assert_eq!((memory.live_bytes(), memory.oldest_age_ns(10)), (20, Some(3)));
        assert_eq!(memory.freed(), [Piece { bytes: 10, at_ns: 10 }]);
    }

    #[test]
    fn a_reused_address_is_counted_once() {
        let mut memory = Memory::default();
        allocate(&mut memory, 0x100, 10, 5);
        allocate(&mut memory, 0x100, 30, 9);
        assert_eq!((memory.live_bytes(), memory.oldest_age_ns(10)), (30, Some(1)));
        assert_eq!(memory.freed(), [], "no free was observed");
    }

    #[test]
    fn handles_and_addresses_are_separate() {
        let mut memory = Memory::default();
        allocate(&mut memory, 7, 10, 5);
        memory.allocate(Space::Physical, 7, Piece { bytes: 100, at_ns: 6 });
        assert_eq!((memory.live_bytes(), memory.live_count()), (110, 2));
        assert_eq!(memory.free(Space::Physical, 7, 9), Some(100));
        assert_eq!(memory.live_bytes(), 10);
    }

    #[test]
    fn the_oldest_allocations_come_first() {
        let mut memory = Memory::default();
        (0..100).for_each(|k| assert!(allocate(&mut memory, k, k + 1, 1_000 - k / 2)));
        let oldest: Vec<u64> = memory.oldest(5).into_iter().map(|piece| piece.bytes).collect();
        assert_eq!(oldest, [99, 100, 97, 98, 95]);
        assert_eq!(memory.oldest(1_000).len(), 100);
    }

    #[test]
    fn allocations_above_the_bound_are_untracked() {
        let mut memory = Memory::default();
        assert!((0..ALLOCATIONS_MAX as u64).all(|address| allocate(&mut memory, address, 1, 0)));
        assert!(!allocate(&mut memory, 1 << 40, 1, 0));
        assert_eq!(free(&mut memory, 1 << 40), None);
        assert_eq!(memory.live_bytes(), ALLOCATIONS_MAX as u64);
    }

    #[test]
    fn probe_rows_have_an_effect_on_memory() {
        let of = |symbol: &str| Effect::of(probe_abi::PROBES.iter().find(|p| p.symbol == symbol).unwrap());
        let rows = [
            ("cudaMalloc", Some(Effect::Allocates(Space::Addresses))),
            ("cudaMallocAsync", Some(Effect::Allocates(Space::Addresses))),
            ("cudaMallocFromPoolAsync", Some(Effect::Allocates(Space::Addresses))),
            ("hipFreeAsync", Some(Effect::Frees(Space::Addresses))),
            ("cuMemCreate", Some(Effect::Allocates(Space::Physical))),
            ("cuMemRelease", Some(Effect::Frees(Space::Physical))),
            ("cuMemMap", None),
            ("cudaHostAlloc", None),
        ];
        for (symbol, expected) in rows {
            assert_eq!(of(symbol), expected, "{symbol}");
        }
    }
}
