//! Return of memory that the agent does not need any more, so that an idle agent is small.

#![expect(unsafe_code, reason = "calls of the C library that no crate wraps")]

use crate::maps::Mapping;
use crate::{maps, proc};

/// Free bytes at the end of a heap from which they are returned: the default of the C library.
#[cfg(target_env = "gnu")]
const TRIM_BYTES: libc::c_int = 128 << 10;
const BLOCK_BYTES: usize = 96 << 10;

/// Size from which a block is a mapping of its own, bytes: more than a usual request.
#[cfg(target_env = "gnu")]
const MAPPED_FROM_BYTES: libc::c_int = 4 << 20;

/// Makes freed blocks of 4 MiB and more return to the kernel at once. The C library stops doing so after the first such block, and
/// then stores several of each thread: 60 MiB, if requests have the largest size. To be called before other threads start.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) may be called at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, MAPPED_FROM_BYTES);
    }
}

/// Returns freed memory of all threads to the kernel, where the C library keeps it, and unmaps the pages of code. Those
/// that are still needed are mapped again from the page cache when they are executed; most were for the start only.
pub fn release() {
    release_free_memory();
    release_code();
}

fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) and malloc_trim(3) may be called at any time by any thread.
    unsafe {
        // The C library raised it to twice the largest block that was freed: the kernel's BTF.
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_BYTES);
        libc::malloc_trim(0);
    }
    // The end of this thread's heap is returned when a block of more than 64 KiB is freed.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(BLOCK_BYTES)));
}

fn release_code() {
    let text = proc::read_text("/proc/self/smaps").unwrap_or_default();
    for Mapping { start, end, .. } in unchanged_code(&text) {
        // SAFETY: the mapping is of a file as code, which this program does not change: the kernel reads the same bytes
        // again. A failure changes nothing.
        unsafe { libc::madvise(start as *mut libc::c_void, (end - start) as usize, libc::MADV_DONTNEED) };
    }
}

/// Returns the code mappings of files without changed pages in the text of an smaps file (proc_pid_smaps(5)). A page is
/// changed where another tracer has a breakpoint, which must stay.
fn unchanged_code(text: &str) -> Vec<Mapping> {
    let (mut current, mut unchanged) = (None, Vec::new());
    for line in text.lines() {
        match line.strip_prefix("Anonymous:") {
            Some(size) if size.trim() == "0 kB" => unchanged.extend(current.take()),
            None if !line.contains("kB") => current = maps::parse(line).pop(),
            _ => {}
        }
    }
    unchanged
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55d0-55e0 r-xp 00001000 fe:00 42                         /opt/warptap
Rss:                  64 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
55e0-55f0 r--p 00002000 fe:00 42                         /opt/warptap
Anonymous:             0 kB
7f10-7f20 r-xp 00010000 fe:00 43                         /usr/lib/libc.so.6
Anonymous:             4 kB
7fb0-7fc0 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
";

    #[test]
    fn only_unchanged_code_of_files_is_released() {
        let starts: Vec<u64> = unchanged_code(TEXT).iter().map(|m| m.start).collect();
        assert_eq!(starts, [0x55d0]);
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn large_blocks_return_to_the_kernel_after_others_were_freed() {
        return_large_blocks();
        let mapped_bytes = || {
            // SAFETY: mallinfo2(3) may be called at any time.
            unsafe { libc::mallinfo2() }.hblkhd
        };
        for megabytes in [20_usize, 16] {
            let block = std::hint::black_box(Vec::<u8>::with_capacity(megabytes << 20));
            assert!(mapped_bytes() >= megabytes << 20, "{megabytes} MiB");
            drop(block);
        }
    }

    #[test]
    fn code_runs_after_its_release() {
        release();
        assert_eq!("7".parse(), Ok(7));
    }
}
