//! The page that the ranks' processes share: how many collectives of each communicator each rank has entered.
//!
//! Each rank has a counter that only grows. The n-th collective is complete when the smallest counter is n; the rank that
//! completes it wakes the others. A communicator that exceeds the page's capacity does not wait.

use std::ffi::{c_int, c_long, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use crate::model::clock;

/// Capacity of the page in communicators of all ranks.
pub const COMMUNICATORS: usize = 256;
/// Capacity of a communicator in ranks.
pub const RANKS: usize = 64;
const PROT_READ_WRITE: c_int = 3;
const MAP_SHARED: c_int = 1;
const FUTEX_WAIT: c_int = 0;
const FUTEX_WAKE: c_int = 1;
const SYS_FUTEX: c_long = if cfg!(target_arch = "x86_64") { 202 } else { 98 };
/// How often a waiting rank checks whether its communicator was aborted, ns.
const POLL_NS: i64 = 20_000_000;

unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        size: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn syscall(number: c_long, ...) -> c_long;
}

/// A barrier that all ranks pass repeatedly.
#[repr(C)]
pub struct Barrier {
    arrived: [AtomicU64; RANKS],
    complete: AtomicU64,
    /// Time at which the last collective was complete, CLOCK_MONOTONIC ns.
    completed_ns: AtomicU64,
    /// Futex that changes with `complete`.
    bell: AtomicU32,
    pad: u32,
}

impl Barrier {
    /// Counts the arrival of a rank and returns its number, from 1.
    pub fn arrive(&self, rank: usize, nranks: usize) -> u64 {
        let mine = self.arrived[rank % RANKS].fetch_add(1, SeqCst) + 1;
        let all = self.arrived.iter().take(nranks.min(RANKS));
        let least = all.map(|a| a.load(SeqCst)).min().unwrap_or(mine);
        if least > self.complete.load(SeqCst) {
            self.completed_ns.fetch_max(clock::now_ns(), SeqCst);
        }
        if least > self.complete.fetch_max(least, SeqCst) {
            self.ring();
        }
        mine
    }

    /// Returns the time at which the last collective was complete, CLOCK_MONOTONIC ns.
    pub fn completed_ns(&self) -> u64 {
        self.completed_ns.load(SeqCst)
    }

    fn ring(&self) {
        self.bell.fetch_add(1, SeqCst);
        // SAFETY: the address is that of a live word.
        unsafe { syscall(SYS_FUTEX, &raw const self.bell, FUTEX_WAKE, c_int::MAX) };
    }

    /// Returns true if every rank has arrived for the `number`-th time.
    pub fn is_complete(&self, number: u64) -> bool {
        self.complete.load(SeqCst) >= number
    }

    /// Waits until every rank has arrived; returns false if `is_over` returns true before.
    pub fn wait(&self, number: u64, is_over: impl Fn() -> bool) -> bool {
        loop {
            let bell = self.bell.load(SeqCst);
            if self.is_complete(number) {
                return true;
            }
            if is_over() {
                return false;
            }
            let timeout: [i64; 2] = [0, POLL_NS];
            // SAFETY: a live word, the value it is compared with, and a timespec that outlives the call.
            unsafe { syscall(SYS_FUTEX, &raw const self.bell, FUTEX_WAIT, bell, timeout.as_ptr()) };
        }
    }
}

/// The shared state of a communicator. All zeroes if unused.
#[repr(C)]
pub struct Entry {
    key: AtomicU64,
    /// Barrier of collectives.
    pub work: Barrier,
    /// Barrier of creation and split.
    pub control: Barrier,
    /// Color and key of each rank, of two splits in turn.
    pub split: [[AtomicU64; RANKS]; 2],
    /// Number of messages by sender and receiver.
    sent: [[AtomicU32; RANKS]; RANKS],
}

impl Entry {
    /// Counts a message.
    pub fn send(&self, from: usize, to: usize) {
        self.sent[from % RANKS][to % RANKS].fetch_add(1, SeqCst);
        self.work.ring();
    }

    /// Returns true if the `number`-th message was sent.
    pub fn is_sent(&self, from: usize, to: usize, number: u64) -> bool {
        u64::from(self.sent[from % RANKS][to % RANKS].load(SeqCst)) >= number
    }

    /// Waits for a message; returns false if `is_over` returns true before.
    pub fn wait_sent(&self, from: usize, to: usize, number: u64, is_over: impl Fn() -> bool) -> bool {
        while !self.is_sent(from, to, number) {
            if is_over() {
                return false;
            }
            let bell = self.work.bell.load(SeqCst);
            if self.is_sent(from, to, number) {
                break;
            }
            let timeout: [i64; 2] = [0, POLL_NS];
            // SAFETY: as in `Barrier::wait`.
            unsafe { syscall(SYS_FUTEX, &raw const self.work.bell, FUTEX_WAIT, bell, timeout.as_ptr()) };
        }
        true
    }
}

type Page = [Entry; COMMUNICATORS];

static PAGE: OnceLock<&'static Page> = OnceLock::new();

/// Shares a page with every process that names the same file.
pub fn join(path: &Path) -> std::io::Result<()> {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    file.set_len(size_of::<Page>() as u64)?;
    let _ = PAGE.set(map(file.as_raw_fd(), MAP_SHARED)?);
    Ok(())
}

fn map(file: c_int, flags: c_int) -> std::io::Result<&'static Page> {
    // SAFETY: a fresh mapping of this size; it outlives the descriptor and is never unmapped.
    let at = unsafe { mmap(std::ptr::null_mut(), size_of::<Page>(), PROT_READ_WRITE, flags, file, 0) };
    if at as isize == -1 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the mapping is of this size, page-aligned, lives as long as the process, and any bytes are valid for its
    // atomics.
    Ok(unsafe { &*(at as *const Page) })
}

/// Returns the shared state of a communicator; `None` if the page is full. Without [`join`] it is private to the process.
pub fn entry(key: u64) -> Option<&'static Entry> {
    const MAP_PRIVATE_ANONYMOUS: c_int = 0x22;
    let key = key.max(1);
    let page = match PAGE.get() {
        Some(page) => page,
        None => {
            let own = map(-1, MAP_PRIVATE_ANONYMOUS).ok()?;
            PAGE.get_or_init(|| own)
        }
    };
    let first = key as usize % COMMUNICATORS;
    let slots = (0..COMMUNICATORS).map(|n| &page[(first + n) % COMMUNICATORS]);
    slots.into_iter().find(|e| {
        let found = e.key.compare_exchange(0, key, SeqCst, SeqCst).unwrap_or_else(|found| found);
        found == 0 || found == key
    })
}
