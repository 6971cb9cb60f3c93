//! Device memory that a process allocated and has not freed.
//!
//! The one idea: a free says an address and no size, so the size is remembered from the allocation. Bounded: beyond
//! [`ALLOCATIONS_MAX`] an allocation is counted and not remembered, and its free has no size.

use std::collections::HashMap;

/// Allocations remembered of one process. Caching allocators hold hundreds.
pub(crate) const ALLOCATIONS_MAX: usize = 16_384;

#[derive(Clone, Copy, Debug)]
struct Allocation {
    bytes: u64,
    at_ns: u64,
}

/// The allocations of one process.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    by_address: HashMap<u64, Allocation>,
    live_bytes: u64,
    was_used: bool,
}

impl Memory {
    /// An allocation that succeeded. False where there was no room to remember it.
    pub(crate) fn allocate(&mut self, address: u64, bytes: u64, at_ns: u64) -> bool {
        self.was_used = true;
        if self.by_address.len() >= ALLOCATIONS_MAX && !self.by_address.contains_key(&address) {
            return false;
        }
        // An address given out again was freed unseen.
        self.free(address);
        self.by_address.insert(address, Allocation { bytes, at_ns });
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        true
    }

    /// A free that succeeded: the bytes, where the allocation was seen.
    pub(crate) fn free(&mut self, address: u64) -> Option<u64> {
        let allocation = self.by_address.remove(&address)?;
        self.live_bytes = self.live_bytes.saturating_sub(allocation.bytes);
        Some(allocation.bytes)
    }

    /// True once anything was allocated.
    pub(crate) fn was_used(&self) -> bool {
        self.was_used
    }

    /// Bytes allocated and not freed.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Age of the oldest allocation, if there is one. Walks them all: for collections and outliers.
    pub(crate) fn oldest_age_ns(&self, now_ns: u64) -> Option<u64> {
        self.by_address.values().map(|a| a.at_ns).min().map(|at| now_ns.saturating_sub(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_allocated_and_not_freed_is_live() {
        let mut memory = Memory::default();
        assert!(memory.allocate(0x100, 10, 5));
        assert!(memory.allocate(0x200, 20, 7));
        assert_eq!((memory.live_bytes(), memory.oldest_age_ns(10)), (30, Some(5)));
        assert_eq!(memory.free(0x100), Some(10));
        assert_eq!(memory.free(0x100), None);
        assert_eq!((memory.live_bytes(), memory.oldest_age_ns(10)), (20, Some(3)));
    }

    #[test]
    fn an_address_given_out_again_is_counted_once() {
        let mut memory = Memory::default();
        memory.allocate(0x100, 10, 5);
        memory.allocate(0x100, 30, 9);
        assert_eq!((memory.live_bytes(), memory.oldest_age_ns(10)), (30, Some(1)));
    }

    #[test]
    fn beyond_the_bound_an_allocation_is_not_remembered() {
        let mut memory = Memory::default();
        assert!((0..ALLOCATIONS_MAX as u64).all(|address| memory.allocate(address, 1, 0)));
        assert!(!memory.allocate(1 << 40, 1, 0));
        assert_eq!(memory.free(1 << 40), None);
        assert_eq!(memory.live_bytes(), ALLOCATIONS_MAX as u64);
    }
}
