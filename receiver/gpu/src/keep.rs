//! Small records that outlive this program: what the analysis wants kept, and what an earlier run left for it.
//!
//! The one idea: the analysis names records by keys and says what became of them ([`Change`]); it knows no file and
//! does not care when they are written. The shell writes them to the storage that the configuration names, off the
//! thread that reads events, the latest value of each key alone; at the next start it hands over all of them, before
//! the first event ([`Left`]). Without a storage nothing is written, and nothing is found.
//!
//! ```text
//!  Analyzer --- changes, every second --> Changes --- one batch at a time --> Store: slots of a component::storage
//!     ^                                   latest of a key                        |
//!     `------------- recall: everything that an earlier run left ----------------'
//! ```
//!
//! Bounded: [`RECORDS_MAX`] records of [`RECORD_BYTES_MAX`] each, [`WAITING_BYTES_MAX`] of them on their way. What
//! finds no room is counted by reason ([`Unkept`]), and is tried again with its next change.

mod changes;
mod keeper;
mod machine;
mod slot;
mod store;

use std::sync::atomic::{AtomicU64, Ordering};

use event::ClockOffsets;
use semconv::value::WarptapPersistenceDropReason;

use changes::Changes;
pub(crate) use keeper::{Keeper, Keeping, open};
use machine::lives;
use store::Store;

/// Records that are kept. Full: the one written longest ago makes room.
const RECORDS_MAX: usize = 2048;
/// Bytes of a record. Larger ones are not kept.
const RECORD_BYTES_MAX: usize = 256 << 10;
/// Bytes on their way to the storage. Full: further ones are not kept.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// What became of a record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// Its name; what stands before the first `/` says what kind of record it is.
    pub key: String,
    /// What it holds from here on; `None` where it is gone.
    pub bytes: Option<Vec<u8>>,
}

/// A record that an earlier run left.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Kept {
    /// Its name.
    pub key: String,
    /// What it held.
    pub bytes: Vec<u8>,
    /// True where it was written since the machine was started: its CLOCK_MONOTONIC is still ours.
    pub is_this_boot: bool,
    /// What was added to its CLOCK_MONOTONIC to give ns since 1970, when it was written.
    pub to_unix_ns: i64,
    /// When it was written, ns since 1970.
    pub written_unix_ns: u64,
}

/// What an earlier run left.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Left {
    /// Its records, in the order of their writing.
    pub records: Vec<Kept>,
    /// What cannot be read as a record.
    pub damaged: u64,
    /// How the clocks stand now.
    pub clock: ClockOffsets,
}

/// Records that are not kept, by reason.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Unkept([u64; WarptapPersistenceDropReason::ALL.len()]);

impl Unkept {
    pub(crate) fn of(&self, reason: WarptapPersistenceDropReason) -> u64 {
        self.0[reason as usize]
    }

    pub(crate) fn with(mut self, reason: WarptapPersistenceDropReason, count: u64) -> Unkept {
        self.0[reason as usize] = self.0[reason as usize].saturating_add(count);
        self
    }
}

/// The same, counted on several threads.
#[derive(Debug, Default)]
struct Losses([AtomicU64; WarptapPersistenceDropReason::ALL.len()]);

impl Losses {
    fn add(&self, reason: WarptapPersistenceDropReason, count: u64) {
        self.0[reason as usize].fetch_add(count, Ordering::Relaxed);
    }

    fn unkept(&self) -> Unkept {
        Unkept(std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests;
