//! A device shared by several processes, by means of a file that all map.
//!
//! Each process stores in its slot the time until which it has work. Device time of new work is multiplied by the number
//! of processes that have work at that time, as with time slicing; work enqueued before is not slowed down.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Processes that can share a device. One more runs as if alone.
const SLOTS: usize = 64;
const PROT_READ_WRITE: c_int = 3;
const MAP_SHARED: c_int = 1;

/// The slot of a process. Both fields survive an exec.
#[repr(C)]
struct Slot {
    pid: AtomicU64,
    busy_until_ns: AtomicU64,
}

unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        size: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
}

static SHARED: OnceLock<&'static [Slot; SLOTS]> = OnceLock::new();

/// Shares the device with every process that names the same file.
pub fn join(path: &Path) -> std::io::Result<()> {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    let size = size_of::<[Slot; SLOTS]>();
    file.set_len(size as u64)?;
    // SAFETY: a fresh mapping of a file of this size; the mapping outlives the descriptor and is never undone.
    let at = unsafe { mmap(std::ptr::null_mut(), size, PROT_READ_WRITE, MAP_SHARED, file.as_raw_fd(), 0) };
    if at as isize == -1 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the mapping is of this size, page-aligned, lives as long as the process, and any bytes are valid
    // for its atomics.
    let slots = unsafe { &*(at as *const [Slot; SLOTS]) };
    let _ = SHARED.set(slots);
    Ok(())
}

/// Returns the number of processes with work on the device at `now_ns`, including this one.
pub(super) fn sharers(now_ns: u64) -> u64 {
    let Some(slots) = SHARED.get() else { return 1 };
    let own = u64::from(std::process::id());
    let busy = |s: &&Slot| s.busy_until_ns.load(Relaxed) > now_ns && ![0, own].contains(&s.pid.load(Relaxed));
    1 + slots.iter().filter(busy).count() as u64
}

/// Stores the time until which this process has work.
pub(super) fn busy_until(until_ns: u64) {
    let Some(slots) = SHARED.get() else { return };
    let own = u64::from(std::process::id());
    let mine = |s: &&Slot| {
        let holder = s.pid.compare_exchange(0, own, Relaxed, Relaxed).unwrap_or_else(|holder| holder);
        [0, own].contains(&holder)
    };
    if let Some(slot) = slots.iter().find(mine) {
        slot.busy_until_ns.fetch_max(until_ns, Relaxed);
    }
}
