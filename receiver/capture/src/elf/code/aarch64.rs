//! Instructions of AArch64 that pass addresses: <https://developer.arm.com/documentation/ddi0602>.

use super::{Flow, Memory, Reader, Registers, Step};

/// <https://github.com/ARM-software/abi-aa/blob/main/aapcs64/aapcs64.rst>.
pub(super) const READER: Reader = Reader {
    begins: [true; 256],
    step,
    arguments: [1, 2, 3],
    preserved: &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28],
};

fn step(code: &[u8], at: u64, memory: &Memory, registers: &mut Registers) -> Step {
    let Some(word) = code.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) else {
        return (code.len().max(1), Flow::Next);
    };
    (4, follow(word, at, memory, registers))
}

fn follow(word: u32, at: u64, memory: &Memory, registers: &mut Registers) -> Flow {
    let field = |at: u32| (word >> at & 31) as u8;
    let (target, first, second) = (field(0), field(5), field(16));
    let constant = if word & 0x9f00_0000 == 0x9000_0000 {
        Some((at & !0xfff).wrapping_add_signed(distance(word) << 12)) // adrp
    } else if word & 0x9f00_0000 == 0x1000_0000 {
        Some(at.wrapping_add_signed(distance(word))) // adr
    } else if word & 0xff80_0000 == 0x9100_0000 {
        let shift = word >> 22 & 1;
        registers.offset(first, i64::from(word >> 10 & 0xfff) << (12 * shift)) // add
    } else if word & 0xffe0_ffe0 == 0xaa00_03e0 {
        registers.get(second) // mov
    } else if word & 0xffc0_0000 == 0xf940_0000 {
        let address = registers.offset(first, i64::from(word >> 10 & 0xfff) * 8);
        address.and_then(|address| memory.words.get(&address)).copied() // ldr
    } else {
        return flow(word);
    };
    registers.set(target, constant);
    Flow::Next
}

fn flow(word: u32) -> Flow {
    match (word & 0xfc00_0000, word & 0xffff_fc1f) {
        (0x9400_0000, _) | (_, 0xd63f_0000) => Flow::Call,
        (0x1400_0000, _) | (_, 0xd61f_0000) => Flow::Jump,
        _ => Flow::Next,
    }
}

/// Returns the number of an `adr` or `adrp`, which has 21 bits.
fn distance(word: u32) -> i64 {
    let number = (word >> 5 & 0x7_ffff) << 2 | word >> 29 & 3;
    i64::from((number << 11) as i32 >> 11)
}
