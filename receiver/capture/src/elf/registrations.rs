//! Names of GPU functions in the code that registers them.
//!
//! The constructors that nvcc and hipcc add to a module call `__cudaRegisterFunction(handle, host function, device function,
//! device name, …)` or `__hipRegisterFunction`, whose first four arguments are the same, once for each GPU function. Both
//! the host function and the name are constants, and the name is the mangled one of the GPU function. So it is known even if the
//! library has no symbols, and whether it contains the CUDA runtime or not: the called function does not matter, only the
//! arguments of a call.

use std::collections::HashMap;

use object::Endianness;
use object::elf::{
    EM_AARCH64, EM_X86_64, R_AARCH64_RELATIVE, R_X86_64_RELATIVE, Rela64, SHF_EXECINSTR, SHT_RELA,
};
use object::read::elf::{Rela as _, SectionHeader as _};

use super::code::{Flow, INSTRUCTION_BYTES_MAX, Memory, Reader, Registers};
use super::names_at::{NameSource, Wanted};
use super::{Buffer, Elf, ElfError, Section, TABLES_BYTES_MAX, WINDOW_BYTES};

/// Pointers to wanted functions that are followed.
const POINTERS_MAX: usize = 16_384;
/// Names that are read for each wanted function, since other calls may have the same argument.
const READS_PER_FUNCTION: usize = 4;

/// Adds the names of wanted functions by their registrations. Of [`TABLES_BYTES_MAX`] bytes of code, what is behind is not read.
pub(super) fn add(elf: &Elf<'_>, wanted: &mut Wanted) -> Result<(), ElfError> {
    let Some(reader) = Reader::of(elf.machine) else { return Ok(()) };
    let memory = Memory { code: elf.code_span(), words: pointers(elf, wanted)? };
    let reads_left = wanted.missing() * READS_PER_FUNCTION;
    let mut scan = Scan { elf, reader, memory, registers: Registers::default(), reads_left };
    let mut bytes_left = TABLES_BYTES_MAX;
    for section in elf.sections.iter().filter(|s| s.sh_flags(elf.endian) & SHF_EXECINSTR == SHF_EXECINSTR) {
        let bytes = section.sh_size(elf.endian).min(bytes_left);
        bytes_left -= bytes;
        scan.section(section, bytes, wanted)?;
    }
    Ok(())
}

/// Returns the pointers to wanted functions that the loader writes, which code loads instead of computing the address.
fn pointers(elf: &Elf<'_>, wanted: &Wanted) -> Result<HashMap<u64, u64>, ElfError> {
    let relative = match elf.machine {
        EM_X86_64 => R_X86_64_RELATIVE,
        EM_AARCH64 => R_AARCH64_RELATIVE,
        _ => return Ok(HashMap::new()),
    };
    let mut pointers = HashMap::new();
    for relocations in elf.sections_of(SHT_RELA)? {
        elf.entries(relocations, |_, relocation: &Rela64<Endianness>| {
            let function = relocation.r_addend(elf.endian) as u64;
            let is_pointer = relocation.r_type(elf.endian, false) == relative && wanted.is_missing(function);
            if is_pointer && pointers.len() < POINTERS_MAX {
                pointers.insert(relocation.r_offset(elf.endian), function);
            }
        })?;
    }
    Ok(pointers)
}

struct Scan<'e, 'f> {
    elf: &'e Elf<'f>,
    reader: &'static Reader,
    memory: Memory,
    registers: Registers,
    reads_left: usize,
}

impl Scan<'_, '_> {
    fn section(&mut self, section: &Section, bytes: u64, wanted: &mut Wanted) -> Result<(), ElfError> {
        let (offset, address) = (section.sh_offset(self.elf.endian), section.sh_addr(self.elf.endian));
        let (mut buffer, mut skipped) = (Buffer::default(), 0);
        for first in (0..bytes).step_by(WINDOW_BYTES) {
            if wanted.missing() == 0 || self.reads_left == 0 {
                break;
            }
            let here = (bytes - first).min((WINDOW_BYTES + INSTRUCTION_BYTES_MAX) as u64) as usize;
            let window = buffer.read(self.elf.file, offset.saturating_add(first), here)?;
            skipped = self.window(window, address.wrapping_add(first), skipped, wanted);
        }
        Ok(())
    }

    /// Reads the instructions that begin in a window of the code, from a position on. Returns how many bytes of the next window
    /// belong to the last one.
    fn window(&mut self, window: &[u8], address: u64, from: usize, wanted: &mut Wanted) -> usize {
        let mut next = from;
        while next < window.len().min(WINDOW_BYTES) {
            if !self.reader.begins[usize::from(window[next])] {
                next += 1;
                continue;
            }
            let (code, at) = (&window[next..], address.wrapping_add(next as u64));
            let (bytes, flow) = (self.reader.step)(code, at, &self.memory, &mut self.registers);
            if flow != Flow::Next {
                self.call(wanted);
                self.reader.clear(&mut self.registers, flow);
            }
            next += bytes;
        }
        next.saturating_sub(WINDOW_BYTES)
    }

    /// Adds the name of a function if the arguments of a call register a wanted one.
    fn call(&mut self, wanted: &mut Wanted) {
        let Some((function, names)) = self.reader.arguments(&self.registers) else { return };
        if !wanted.is_missing(function) {
            return;
        }
        for name in names.into_iter().flatten().take(self.reads_left) {
            self.reads_left -= 1;
            if let Some(name) = self.name(name) {
                return wanted.add(function, name, NameSource::Registration);
            }
        }
    }

    /// Returns the constant text at an address, if it may be a symbol.
    fn name(&self, address: u64) -> Option<Vec<u8>> {
        let name = self.elf.string(self.elf.constant_at(address)?, u64::MAX);
        let is_of_symbol =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.' | 0x80..);
        let is_symbol =
            name.first().is_some_and(|first| !first.is_ascii_digit()) && name.iter().all(is_of_symbol);
        is_symbol.then_some(name)
    }
}
