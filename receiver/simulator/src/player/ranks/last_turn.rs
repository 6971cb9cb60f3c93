//! The last turn of a `repeat`, which all ranks agree on.
//!
//! Each rank has its own clock, and one that began a turn more than its peers would wait for them for ever. The first
//! rank whose time is over therefore ends the loop after the last turn that any rank has begun. The ranks share a word
//! for each loop: the number of turns begun in the lower half, and the number of turns to run, plus 1, in the upper half
//! once it is decided.

#![allow(unsafe_code, reason = "maps a shared file; each block states its requirements")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Loops of a script that can be shared, and executions of each. Of further ones, each rank decides for itself.
const LOOPS: usize = 64;
const EXECUTIONS: usize = 64;
const WORDS: usize = LOOPS * EXECUTIONS;

/// The shared words of all loops.
pub(super) struct LastTurns(&'static [AtomicU64; WORDS]);

/// One execution of one loop.
#[derive(Clone, Copy)]
pub(super) struct LoopExecution {
    /// Number of the loop in the script.
    pub(super) number: usize,
    /// How often this rank executed it before.
    pub(super) before: usize,
}

impl LastTurns {
    /// Shares the words with every process that names the same file.
    pub(super) fn share(path: &Path) -> io::Result<LastTurns> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let size = size_of::<[AtomicU64; WORDS]>();
        file.set_len(size as u64)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping of a file of this size; it outlives the descriptor and is never unmapped.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), size, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping has this size, is aligned to a page and lives as long as the process; any bytes are valid.
        Ok(LastTurns(unsafe { &*at.cast::<[AtomicU64; WORDS]>() }))
    }

    /// Returns whether this rank runs a turn, counted from 0. `is_over` is whether its own time is over.
    pub(super) fn runs(&self, of: LoopExecution, turn: u64, is_over: bool) -> bool {
        let is_shared = of.number < LOOPS && of.before < EXECUTIONS;
        match self.0.get(of.number * EXECUTIONS + of.before).filter(|_| is_shared) {
            Some(word) => turn < decide(word, turn, is_over),
            None => !is_over,
        }
    }
}

/// Returns the number of turns to run as far as known: at least `turn + 1` if it is not decided.
fn decide(word: &AtomicU64, turn: u64, is_over: bool) -> u64 {
    let update = |now: u64| match (now >> 32, now & u64::from(u32::MAX)) {
        (0, begun) if is_over => Some((begun.max(turn) + 1) << 32 | begun),
        (0, begun) => Some(begun.max(turn + 1)),
        _ => None,
    };
    let _ = word.fetch_update(SeqCst, SeqCst, update);
    match word.load(SeqCst) >> 32 {
        0 => turn + 1,
        decided => decided - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each rank had a deadline of its own. One that was preempted between two checks began a turn more or less.
    #[test]
    fn all_ranks_run_the_same_turns() {
        let word = AtomicU64::new(0);
        assert_eq!([decide(&word, 0, false), decide(&word, 0, false)], [1, 1]);
        assert_eq!(decide(&word, 1, false), 2, "the first rank begins turn 1");
        assert_eq!(decide(&word, 1, true), 2, "the time of the second is over, and it runs turn 1, too");
        assert_eq!([decide(&word, 2, false), decide(&word, 2, true)], [2, 2]);
    }

    #[test]
    fn rank_ahead_of_its_peers_ends_them_at_its_turn() {
        let word = AtomicU64::new(0);
        assert_eq!(decide(&word, 4, false), 5);
        assert_eq!(decide(&word, 5, true), 5);
        assert_eq!([decide(&word, 4, true), decide(&word, 5, false)], [5, 5]);
    }

    #[test]
    fn executions_beyond_the_bound_end_by_their_own_time() {
        let path = std::env::temp_dir().join(format!("stubs-turns-{}", std::process::id()));
        let turns = LastTurns::share(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let of = LoopExecution { number: 0, before: EXECUTIONS };
        assert!(turns.runs(of, 9, false) && !turns.runs(of, 9, true));
        assert!(turns.runs(LoopExecution { before: 0, ..of }, 9, false));
        assert!(turns.runs(LoopExecution { number: 1, before: 0 }, 0, false), "loops do not share a word");
    }
}
