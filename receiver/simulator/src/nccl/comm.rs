//! Communicators of this process: a handle each, taken again by the next one when it is free.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::abi::UniqueId;
use super::board::{self, Entry};
use crate::model::clock;

/// Where handles begin, and how far they are apart: they look like addresses, and nobody follows them.
const FIRST_HANDLE: u64 = 0x7a00_0000_0000;
const HANDLE_STEP: u64 = 0x200;

/// One rank of one communicator.
#[derive(Clone, Copy)]
pub struct Comm {
    /// What all its ranks know it by.
    pub key: u64,
    /// Where they meet; `None`: it waits for nobody.
    pub entry: Option<&'static Entry>,
    /// Ranks.
    pub nranks: usize,
    /// This one.
    pub rank: usize,
    /// Its device.
    pub device: usize,
    /// Splits so far.
    pub splits: u64,
}

/// The communicators, by handle.
#[derive(Default)]
pub struct Comms {
    by_handle: BTreeMap<u64, Comm>,
    free: BTreeSet<u64>,
    aborted: BTreeSet<u64>,
}

static COMMS: Mutex<Comms> =
    Mutex::new(Comms { by_handle: BTreeMap::new(), free: BTreeSet::new(), aborted: BTreeSet::new() });
static LENIENT: AtomicBool = AtomicBool::new(false);

/// This process's communicators.
pub fn comms() -> MutexGuard<'static, Comms> {
    COMMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on unknown handles are communicators made elsewhere, and nobody is waited for.
pub fn set_lenient(lenient: bool) {
    LENIENT.store(lenient, Relaxed);
}

/// See [`set_lenient`].
pub fn is_lenient() -> bool {
    LENIENT.load(Relaxed)
}

impl Comms {
    /// Takes a communicator in; its handle is the lowest that is free.
    pub fn add(&mut self, comm: Comm) -> u64 {
        let next = FIRST_HANDLE + HANDLE_STEP * (self.by_handle.len() + self.free.len()) as u64;
        let handle = self.free.pop_first().unwrap_or(next);
        self.by_handle.insert(handle, comm);
        handle
    }

    /// The communicator.
    pub fn get(&mut self, handle: u64) -> Option<&mut Comm> {
        self.by_handle.get_mut(&handle)
    }

    /// It is gone; false where there is none. Aborted, nobody waits for it any more.
    pub fn remove(&mut self, handle: u64, is_abort: bool) -> bool {
        let Some(comm) = self.by_handle.remove(&handle) else { return false };
        self.free.insert(handle);
        if is_abort {
            self.aborted.insert(comm.key);
        }
        true
    }

    /// True where this process aborted it.
    pub fn is_aborted(&self, key: u64) -> bool {
        self.aborted.contains(&key)
    }
}

/// Waits at the communicator's control barrier.
pub fn meet(comm: &Comm) {
    let Some(entry) = comm.entry else { return };
    let number = entry.control.arrive(comm.rank, comm.nranks);
    entry.control.wait(number, || comms().is_aborted(comm.key));
}

/// SplitMix64's last part: numbers that have nothing in common.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What the ranks that were given this id know the communicator by.
pub fn key_of(id: &UniqueId) -> u64 {
    id.0.chunks_exact(8).fold(1, |key, chunk| {
        let word = chunk.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        mix(key ^ word)
    })
}

/// A communicator of this key.
pub fn of_key(key: u64, nranks: usize, rank: usize, device: usize) -> Comm {
    let entry = board::entry(key).filter(|_| nranks <= board::RANKS && !is_lenient());
    Comm { key, entry, nranks, rank, device, splits: 0 }
}

/// An id that nobody else has, no byte of it the next one's.
pub fn new_id() -> UniqueId {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let seed = clock::now_ns() ^ u64::from(std::process::id()) << 32 ^ MADE.fetch_add(1, Relaxed) << 56;
    let mut id = [0; 128];
    for (at, chunk) in id.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(
            &mix(seed.wrapping_add((at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le_bytes(),
        );
    }
    UniqueId(id)
}
