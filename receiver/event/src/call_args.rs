//! Call arguments: registers and memory of one call, uninterpreted.
//!
//! The meaning of each argument is known to the analysis of the library.

use probe_abi::record::{ARGUMENTS, Header};

/// A call with its arguments, of a row whose action is [`probe_abi::Action::RecordArgs`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallArgs {
    /// `entry_ns` and `duration_ns` are those of the call.
    pub header: Header,
    /// Return value: 0 or the error number of the library.
    pub result: u32,
    /// Current device of the caller; -1 if it was never set or the call moves data.
    pub device: i32,
    /// C arguments in order, as whole registers: an `int` is in the low half, a struct by value is given by its address.
    pub arguments: [u64; ARGUMENTS],
    /// Memory that the row's pointer referred to at entry; empty if it could not be read.
    pub entry: Vec<u8>,
    /// Memory that the row's pointer referred to at return; empty if it could not be read.
    pub exit: Vec<u8>,
    /// Number of earlier calls of the process with the same handle (for a collective, its communicator) that the library
    /// accepted, from 0 when the kernel first sees the handle. `None` if the row is not counted, the library rejected the
    /// call, or the kernel has no count. A gap is a dropped record.
    pub ordinal: Option<u64>,
}

impl CallArgs {
    /// Returns the n-th C argument, n from 1; 0 for other n.
    pub fn argument(&self, n: u8) -> u64 {
        usize::from(n).checked_sub(1).and_then(|at| self.arguments.get(at)).copied().unwrap_or(0)
    }

    /// Returns when the call returned, ns.
    pub fn exit_ns(&self) -> u64 {
        self.header.entry_ns.saturating_add(self.header.duration_ns)
    }

    /// Returns [`CallArgs::entry`] as `int`s.
    pub fn ints_at_entry(&self) -> impl Iterator<Item = i32> {
        self.entry.as_chunks().0.iter().map(|chunk| i32::from_le_bytes(*chunk))
    }

    /// Returns [`CallArgs::exit`] as handles, or as one number if it is a single `int`.
    pub fn words_at_exit(&self) -> impl Iterator<Item = u64> {
        let int = <[u8; 4]>::try_from(self.exit.as_slice()).ok().map(|b| u64::from(u32::from_le_bytes(b)));
        let words = self.exit.as_chunks().0.iter().map(|chunk| u64::from_le_bytes(*chunk));
        int.into_iter().chain(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_numbered_from_one() {
        let args = CallArgs { arguments: [11, 12, 13, 14, 15, 16, 17, 18], ..CallArgs::default() };
        assert_eq!([0, 1, 8, 9].map(|n| args.argument(n)), [0, 11, 18, 0]);
    }

    #[test]
    fn memory_is_read_as_ints_or_handles() {
        let check = |exit: &[u8], words: &[u64]| {
            let args = CallArgs { exit: exit.to_vec(), ..CallArgs::default() };
            assert_eq!(args.words_at_exit().collect::<Vec<_>>(), words);
        };
        check(&[], &[]);
        check(&[7, 1, 0, 0], &[263]);
        check(&[7, 0, 0, 0, 0, 0, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0], &[7 | 1 << 56, 9]);
        let args = CallArgs { entry: vec![255, 255, 255, 255, 3, 0, 0, 0], ..CallArgs::default() };
        assert_eq!(args.ints_at_entry().collect::<Vec<_>>(), [-1, 3]);
    }
}
