//! Counters shared by threads, in user space and in BPF: the standard library's atomics, and the same methods for the
//! BPF target, whose compiler supports an addition without result but neither relaxed loads nor stores.
//!
//! A plain load or store of an aligned 64-bit word is one BPF instruction, and one access on both architectures.

pub use core::sync::atomic::Ordering::{Relaxed, SeqCst};

#[cfg(not(target_arch = "bpf"))]
pub use core::sync::atomic::AtomicU64;

#[cfg(target_arch = "bpf")]
pub use bpf::AtomicU64;

#[cfg(target_arch = "bpf")]
#[expect(unsafe_code, reason = "the intrinsic behind fetch_add is all that the target offers")]
mod bpf {
    use core::cell::UnsafeCell;
    use core::intrinsics::{AtomicOrdering, atomic_cxchg, atomic_xadd, atomic_xchg};
    use core::sync::atomic::Ordering;

    /// Replacement of `core::sync::atomic::AtomicU64`; every ordering is relaxed.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct AtomicU64(UnsafeCell<u64>);

    // SAFETY: every access below is one instruction that cannot be torn.
    unsafe impl Sync for AtomicU64 {}

    impl AtomicU64 {
        /// Creates a counter with this value.
        pub const fn new(value: u64) -> Self {
            AtomicU64(UnsafeCell::new(value))
        }

        /// Returns the value.
        #[inline(always)]
        pub fn load(&self, _order: Ordering) -> u64 {
            // SAFETY: the pointer is that of a live, aligned word.
            unsafe { self.0.get().read_volatile() }
        }

        /// Sets the value.
        #[inline(always)]
        pub fn store(&self, value: u64, _order: Ordering) {
            // SAFETY: as above.
            unsafe { self.0.get().write_volatile(value) }
        }

        /// Adds `value`, wrapping (`lock *(u64 *)(r1 + 0) += r2`, Linux 3.19).
        #[inline(always)]
        pub fn fetch_add(&self, value: u64, _order: Ordering) {
            // SAFETY: as above.
            unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(self.0.get(), value) };
        }

        /// Sets the value and returns the previous one; orders all accesses around it (Linux 5.12).
        #[inline(always)]
        pub fn swap(&self, value: u64, _order: Ordering) -> u64 {
            // SAFETY: as above.
            unsafe { atomic_xchg::<u64, { AtomicOrdering::SeqCst }>(self.0.get(), value) }
        }

        /// Sets the value if it is `current`; otherwise returns it as an error (Linux 5.12).
        #[inline(always)]
        pub fn compare_exchange(&self, current: u64, new: u64, _: Ordering, _: Ordering) -> Result<u64, u64> {
            // SAFETY: as above.
            let (was, done) = unsafe {
                atomic_cxchg::<u64, { AtomicOrdering::SeqCst }, { AtomicOrdering::SeqCst }>(
                    self.0.get(),
                    current,
                    new,
                )
            };
            if done { Ok(was) } else { Err(was) }
        }
    }
}
