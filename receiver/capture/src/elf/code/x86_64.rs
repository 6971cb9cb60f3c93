//! Instructions of x86-64 that pass addresses: position-independent code of all code models, and code at fixed addresses.

use super::{Flow, Memory, Reader, Registers, Step};

const RSI: u8 = 6;
const RDX: u8 = 2;
const RCX: u8 = 1;

/// System V's calling convention: <https://gitlab.com/x86-psABIs/x86-64-ABI>.
pub(super) const READER: Reader =
    Reader { begins: begins(), step, arguments: [RSI, RDX, RCX], preserved: &[3, 5, 12, 13, 14, 15] };

const fn begins() -> [bool; 256] {
    let (mut begins, mut byte) = ([false; 256], 0);
    while byte < 256 {
        begins[byte] = matches!(byte, 0x41 | 0x48..=0x4f | 0xb8..=0xbf | 0xe8 | 0xe9 | 0xff);
        byte += 1;
    }
    begins
}

/// The instructions begin at any byte, so that an unknown one is passed byte by byte. Where the bytes of a displacement look
/// like a call, its target is mostly outside of the code.
fn step(code: &[u8], at: u64, memory: &Memory, registers: &mut Registers) -> Step {
    let is_code = |displacement: &[u8; 4]| memory.code.contains(&relative(at, 5, displacement));
    match *code {
        [rex @ 0x48..=0x4f, ref rest @ ..] => (wide(rex, rest, at, memory, registers), Flow::Next),
        [0xe8, a, b, c, d, ..] if is_code(&[a, b, c, d]) => (5, Flow::Call),
        [0xe9, a, b, c, d, ..] if is_code(&[a, b, c, d]) => (5, Flow::Jump),
        [0xff, 0x15, _, _, _, _, ..] => (6, Flow::Call),
        [0xff, 0x25, _, _, _, _, ..] => (6, Flow::Jump),
        [0xff, 0xd0..=0xd7, ..] => (2, Flow::Call),
        [0xff, 0xe0..=0xe7, ..] => (2, Flow::Jump),
        [opcode @ 0xb8..=0xbf, a, b, c, d, ..] => immediate(opcode & 7, [a, b, c, d], 1, registers),
        [0x41, opcode @ 0xb8..=0xbf, a, b, c, d, ..] => immediate(opcode & 7 | 8, [a, b, c, d], 2, registers),
        _ => (1, Flow::Next),
    }
}

/// `mov $imm32, %r32`. Its bytes are common within other instructions, so that the next one is looked for from its opcode on.
fn immediate(register: u8, value: [u8; 4], bytes: usize, registers: &mut Registers) -> Step {
    registers.set(register, Some(u32::from_le_bytes(value).into()));
    (bytes, Flow::Next)
}

/// Returns the bytes of an instruction with 64-bit operands, after whose prefix the rest is.
fn wide(rex: u8, rest: &[u8], at: u64, memory: &Memory, registers: &mut Registers) -> usize {
    let low = (rex & 1) << 3;
    match *rest {
        [opcode @ 0xb8..=0xbf, a, b, c, d, e, f, g, h, ..] => {
            registers.set(opcode & 7 | low, Some(u64::from_le_bytes([a, b, c, d, e, f, g, h])));
            10
        }
        [0xc7, operand @ 0xc0..=0xc7, a, b, c, d, ..] => {
            let value = i32::from_le_bytes([a, b, c, d]);
            registers.set(operand & 7 | low, Some(i64::from(value) as u64));
            7
        }
        [0x8b, operand, a, b, c, d, ..] if operand & 0xc7 == 5 => {
            let word = memory.words.get(&relative(at, 7, &[a, b, c, d]));
            registers.set((operand >> 3 & 7) | (rex & 4) << 1, word.copied());
            7
        }
        [opcode, operand, ref rest @ ..] => {
            let operand = Operand {
                mode: operand >> 6,
                register: (operand >> 3 & 7) | (rex & 4) << 1,
                low,
                rm: operand & 7,
            };
            two(opcode, &operand, rex, rest, at, registers)
        }
        _ => 1,
    }
}

/// The operands of an instruction (`ModRM`).
struct Operand {
    mode: u8,
    register: u8,
    /// The fourth bit of the number of the other register.
    low: u8,
    rm: u8,
}

/// Returns the bytes of an instruction with two operands.
fn two(opcode: u8, operand: &Operand, rex: u8, rest: &[u8], at: u64, registers: &mut Registers) -> usize {
    let (register, other) = (operand.register, operand.rm | operand.low);
    match (opcode, operand.mode, operand.rm) {
        (0x8d, ..) => return address(operand, rex, rest, at, registers),
        (0x89, 3, _) => registers.set(other, registers.get(register)),
        (0x8b, 3, _) => registers.set(register, registers.get(other)),
        (0x01, 3, _) => registers.set(other, registers.sum(register, other)),
        (0x03, 3, _) => registers.set(register, registers.sum(register, other)),
        (0x89, 0, 5) => return 7,
        _ => return 1,
    }
    3
}

/// `lea`: the sum of a register or the address of the next instruction, and another register or a number.
fn address(operand: &Operand, rex: u8, rest: &[u8], at: u64, registers: &mut Registers) -> usize {
    let base = operand.rm | operand.low;
    let (value, bytes) = match (operand.mode, operand.rm, rest) {
        (0, 5, [a, b, c, d, ..]) => (Some(relative(at, 7, &[*a, *b, *c, *d])), 7),
        (0, 4, [pair, ..]) if *pair < 0x40 && pair & 7 != 5 => {
            (registers.sum(pair & 7 | operand.low, (pair >> 3 & 7) | (rex & 2) << 2), 4)
        }
        (1, rm, [by, ..]) if rm != 4 => (registers.offset(base, i64::from(*by as i8)), 4),
        (2, rm, [a, b, c, d, ..]) if rm != 4 => {
            (registers.offset(base, i64::from(i32::from_le_bytes([*a, *b, *c, *d]))), 7)
        }
        _ => (None, 3),
    };
    registers.set(operand.register, value);
    bytes
}

/// Returns the address at a distance from the end of an instruction.
fn relative(at: u64, bytes: u64, displacement: &[u8; 4]) -> u64 {
    at.wrapping_add(bytes).wrapping_add_signed(i32::from_le_bytes(*displacement).into())
}
