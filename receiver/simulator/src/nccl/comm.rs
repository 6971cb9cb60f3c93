//! The communicators of this process. A freed handle is reused by the next communicator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::abi::NcclId;
use super::board::{self, Entry};
use crate::model::clock;

/// First handle and distance of handles, which look like addresses and are never dereferenced.
const FIRST_HANDLE: u64 = 0x7a00_0000_0000;
const HANDLE_STEP: u64 = 0x200;

/// One rank of one communicator.
#[derive(Clone, Copy)]
pub struct Comm {
    /// Key shared by all ranks.
    pub key: u64,
    /// Shared state; `None` if it waits for no rank.
    pub entry: Option<&'static Entry>,
    /// Number of ranks.
    pub nranks: usize,
    /// This rank.
    pub rank: usize,
    /// Device of the rank.
    pub device: usize,
    /// Number of splits.
    pub splits: u64,
}

/// Communicators by handle.
#[derive(Default)]
pub struct Comms {
    by_handle: BTreeMap<u64, Comm>,
    free: BTreeSet<u64>,
    aborted: BTreeSet<u64>,
}

static COMMS: Mutex<Comms> =
    Mutex::new(Comms { by_handle: BTreeMap::new(), free: BTreeSet::new(), aborted: BTreeSet::new() });
static LENIENT: AtomicBool = AtomicBool::new(false);

/// Locks the communicators of this process.
pub fn comms() -> MutexGuard<'static, Comms> {
    COMMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets whether unknown handles are valid and no rank is waited for.
pub fn set_lenient(lenient: bool) {
    LENIENT.store(lenient, Relaxed);
}

/// Returns whether unknown handles are valid.
pub fn is_lenient() -> bool {
    LENIENT.load(Relaxed)
}

impl Comms {
    /// Adds a communicator and returns its handle, the lowest free one.
    pub fn add(&mut self, comm: Comm) -> u64 {
        let next = FIRST_HANDLE + HANDLE_STEP * (self.by_handle.len() + self.free.len()) as u64;
        let handle = self.free.pop_first().unwrap_or(next);
        self.by_handle.insert(handle, comm);
        handle
    }

    /// Returns a communicator.
    pub fn get(&mut self, handle: u64) -> Option<&mut Comm> {
        self.by_handle.get_mut(&handle)
    }

    /// Removes a communicator; returns false if there is none. Waits for an aborted one end.
    pub fn remove(&mut self, handle: u64, is_abort: bool) -> bool {
        let Some(comm) = self.by_handle.remove(&handle) else { return false };
        self.free.insert(handle);
        if is_abort {
            self.aborted.insert(comm.key);
        }
        true
    }

    /// Returns true if this process aborted the communicator.
    pub fn is_aborted(&self, key: u64) -> bool {
        self.aborted.contains(&key)
    }
}

/// Waits for all ranks at the communicator's control barrier.
pub fn meet(comm: &Comm) {
    let Some(entry) = comm.entry else { return };
    let number = entry.control.arrive(comm.rank, comm.nranks);
    entry.control.wait(number, || comms().is_aborted(comm.key));
}

/// Hashes a number by the finalizer of SplitMix64.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the key of the communicator of an id.
pub fn key_of(id: &NcclId) -> u64 {
    id.0.chunks_exact(8).fold(1, |key, chunk| {
        let word = chunk.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        mix(key ^ word)
    })
}

/// Returns a communicator of a key.
pub fn of_key(key: u64, nranks: usize, rank: usize, device: usize) -> Comm {
    let entry = board::entry(key).filter(|_| nranks <= board::RANKS && !is_lenient());
    Comm { key, entry, nranks, rank, device, splits: 0 }
}

/// Returns a new id.
pub fn new_id() -> NcclId {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let seed = clock::now_ns() ^ u64::from(std::process::id()) << 32 ^ MADE.fetch_add(1, Relaxed) << 56;
    let mut id = [0; 128];
    for (at, chunk) in id.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(
            &mix(seed.wrapping_add((at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le_bytes(),
        );
    }
    NcclId(id)
}
