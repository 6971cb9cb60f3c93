//! One call told whole: its arguments, and what stood behind them.
//!
//! The one idea: the source says what was there, not what it means. What the n-th argument of a row is, whoever
//! analyses that library knows.

use probe_abi::record::{ARGUMENTS, Header};

/// A call of a row whose action is [`probe_abi::Action::RecordArgs`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallArgs {
    /// `entry_ns` and `duration_ns` are those of the call.
    pub header: Header,
    /// What it returned: 0 or the library's error number.
    pub result: u32,
    /// The caller's current device; -1 where it was never set, or the call moves data.
    pub device: i32,
    /// Its C arguments in order, as whole registers: of an `int` the low half counts. Of a struct by value its address.
    pub arguments: [u64; ARGUMENTS],
    /// What stood behind the row's pointer when the function was entered; empty where nothing could be read.
    pub entry: Vec<u8>,
    /// What stood behind the row's pointer when it returned, likewise.
    pub exit: Vec<u8>,
    /// Calls of the process with the same handle (of a collective, its communicator) that the library took on before
    /// this one. Begins at 0 when the kernel first sees the handle; `None` where the row is not counted, where the library
    /// did not take this call on, and where the kernel could not tell. A gap is a record that was lost.
    pub ordinal: Option<u64>,
}

impl CallArgs {
    /// The n-th C argument, n from 1; 0 for none.
    pub fn argument(&self, n: u8) -> u64 {
        usize::from(n).checked_sub(1).and_then(|at| self.arguments.get(at)).copied().unwrap_or(0)
    }

    /// When it returned, ns.
    pub fn exit_ns(&self) -> u64 {
        self.header.entry_ns.saturating_add(self.header.duration_ns)
    }

    /// [`CallArgs::entry`] as `int`s.
    pub fn ints_at_entry(&self) -> impl Iterator<Item = i32> {
        self.entry.as_chunks().0.iter().map(|chunk| i32::from_le_bytes(*chunk))
    }

    /// [`CallArgs::exit`] as handles; as one number where it is a single `int`.
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
    fn arguments_count_from_one_and_what_is_not_there_is_nothing() {
        let told = CallArgs { arguments: [11, 12, 13, 14, 15, 16, 17, 18], ..CallArgs::default() };
        assert_eq!([0, 1, 8, 9].map(|n| told.argument(n)), [0, 11, 18, 0]);
    }

    #[test]
    fn memory_is_read_as_what_it_is() {
        let check = |exit: &[u8], words: &[u64]| {
            let told = CallArgs { exit: exit.to_vec(), ..CallArgs::default() };
            assert_eq!(told.words_at_exit().collect::<Vec<_>>(), words);
        };
        check(&[], &[]);
        check(&[7, 1, 0, 0], &[263]);
        check(&[7, 0, 0, 0, 0, 0, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0], &[7 | 1 << 56, 9]);
        let told = CallArgs { entry: vec![255, 255, 255, 255, 3, 0, 0, 0], ..CallArgs::default() };
        assert_eq!(told.ints_at_entry().collect::<Vec<_>>(), [-1, 3]);
    }
}
