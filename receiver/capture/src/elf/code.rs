//! Constants in the registers of machine code, followed from instruction to instruction.
//!
//! Only those instructions are known that compilers use to pass the addresses of constants to a function; all others are
//! taken to change nothing. So the constants are not exact, and a user of one must check what is at its address.

mod aarch64;
mod x86_64;

use std::collections::HashMap;
use std::ops::Range;

use object::elf::{self, Machine};

/// Bytes of the longest known instruction, with its prefixes.
pub(super) const INSTRUCTION_BYTES_MAX: usize = 16;

/// The constants in the registers.
#[derive(Default)]
pub(super) struct Registers([Option<u64>; 32]);

impl Registers {
    fn get(&self, register: u8) -> Option<u64> {
        self.0[usize::from(register & 31)]
    }

    fn set(&mut self, register: u8, constant: Option<u64>) {
        self.0[usize::from(register & 31)] = constant;
    }

    /// Adds two values; the sum is known if both are.
    fn sum(&self, one: u8, other: u8) -> Option<u64> {
        Some(self.get(one)?.wrapping_add(self.get(other)?))
    }

    /// Adds a number to a value.
    fn offset(&self, register: u8, by: i64) -> Option<u64> {
        Some(self.get(register)?.wrapping_add_signed(by))
    }
}

/// What is known of the memory of a loaded file.
pub(super) struct Memory {
    /// Where code is; calls into this range are recognised.
    pub code: Range<u64>,
    /// Constants that the loader writes, by their addresses.
    pub words: HashMap<u64, u64>,
}

/// What an instruction does with the flow of control.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Flow {
    /// It continues with the next instruction.
    Next,
    /// It calls a function.
    Call,
    /// It jumps, maybe to a function that returns to the caller.
    Jump,
}

/// One instruction: its bytes and its flow.
pub(super) type Step = (usize, Flow);

/// How the code of a machine is read.
pub(super) struct Reader {
    /// Whether a known instruction begins with a byte; others are skipped.
    pub begins: [bool; 256],
    /// Reads the instruction at the begin of the bytes, which is at an address.
    pub step: fn(code: &[u8], at: u64, memory: &Memory, registers: &mut Registers) -> Step,
    /// Registers of the second, third and fourth argument of a function.
    arguments: [u8; 3],
    /// Registers that a function preserves.
    preserved: &'static [u8],
}

impl Reader {
    /// Returns how the code of a machine is read; `None` for an unsupported one.
    pub fn of(machine: Machine) -> Option<&'static Reader> {
        match machine {
            elf::EM_X86_64 => Some(&x86_64::READER),
            elf::EM_AARCH64 => Some(&aarch64::READER),
            _ => None,
        }
    }

    /// Returns the second argument of a function that is called now, and its fourth and third one.
    pub fn arguments(&self, registers: &Registers) -> Option<(u64, [Option<u64>; 2])> {
        let [second, third, fourth] = self.arguments;
        Some((registers.get(second)?, [registers.get(fourth), registers.get(third)]))
    }

    /// Removes the constants that are not known any more after a call or a jump.
    pub fn clear(&self, registers: &mut Registers, flow: Flow) {
        let mut cleared = Registers::default();
        if flow == Flow::Call {
            self.preserved.iter().for_each(|kept| cleared.set(*kept, registers.get(*kept)));
        }
        *registers = cleared;
    }
}
