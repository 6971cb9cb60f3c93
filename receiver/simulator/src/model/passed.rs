//! The arguments of a call as the common part of a stub saved them, and calls of other functions with such arguments.

use super::call::{ArgumentWords, DecodedCall, StubFunction};
use super::device::result;
use super::forward::WORDS_MAX;
use super::order::Order;

/// Number of argument registers.
const REGISTERS: usize = if cfg!(target_arch = "x86_64") { 6 } else { 8 };

/// The arguments of a call, in saved registers and on the stack.
pub(super) struct PassedWords {
    pub(super) registers: *const u64,
    pub(super) stack: *const u64,
}

impl ArgumentWords for PassedWords {
    fn word(&self, n: u8) -> u64 {
        let at = usize::from(n) - 1;
        // SAFETY: the common part saved every argument register, and the caller's frame continues above the
        // return address for at least as many words as the C prototype has arguments; rows name no others.
        unsafe {
            match at < REGISTERS {
                true => *self.registers.add(at),
                false => *self.stack.add(at - REGISTERS),
            }
        }
    }

    fn first_struct_half(&self, offset: u16) -> u32 {
        let address = self.word(1) + u64::from(offset);
        // SAFETY: called only for rows whose first argument points to a struct of this size, as the C prototype
        // requires.
        unsafe { *(address as *const u32) }
    }
}

/// A decoded call that has no result yet.
pub(super) struct PendingCall {
    pub(super) call: DecodedCall,
    pub(super) function: StubFunction,
    /// The rest of the order: the host time was spent, the wait time counts from now.
    pub(super) order: Order,
    pub(super) words: PassedWords,
}

/// Calls a C function.
///
/// # Safety
/// `address` is that of a function that takes at most these words, and pointers among them are valid for it.
pub(super) unsafe fn call_words(address: usize, w: &[u64; WORDS_MAX]) -> u64 {
    type StubFunction = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u64;
    if address == 0 {
        return result::SUCCESS;
    }
    // SAFETY: the caller's promise; a C function ignores integer words after its own.
    unsafe {
        let function = std::mem::transmute::<usize, StubFunction>(address);
        function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10])
    }
}
