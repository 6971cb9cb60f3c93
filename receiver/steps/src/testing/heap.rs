//! An allocator for tests that counts the bytes in use. Tests of other crates include this file.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// An allocator that counts the bytes allocated by each thread.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the bytes that this thread has allocated and not freed.
pub(crate) fn allocated_bytes() -> usize {
    ALLOCATED.get().max(0) as usize
}

fn count(bytes: usize, sign: isize) {
    // Threads allocate until they end, after their counter is gone.
    let _ = ALLOCATED.try_with(|sum| sum.set(sum.get() + sign * bytes as isize));
}

#[expect(unsafe_code, reason = "only an allocator knows what collections really allocate")]
// SAFETY: every call is forwarded to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's contract is that of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: `pointer` comes from the system allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}
