//! Addresses and offsets of an ELF file, by its loaded segments, and the strings at them.

use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use object::elf::{PF_W, PF_X, PT_LOAD, ProgramFlags};
use object::read::elf::ProgramHeader as _;

use super::{Elf, Program};

/// Bytes of a name that are read. Longer ones, as those of some CUTLASS kernels are, are cut.
pub(crate) const NAME_BYTES_MAX: usize = 4_096;

impl Elf<'_> {
    /// Returns the address of the byte at an offset of the file.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        self.loaded().find_map(|segment| {
            let (start, bytes) = segment.file_range(self.endian);
            let distance = offset.checked_sub(start).filter(|distance| *distance < bytes)?;
            segment.p_vaddr(self.endian).checked_add(distance)
        })
    }

    /// Returns the offset in the file of the byte at an address, if it is in a segment that is not writable.
    pub fn constant_at(&self, address: u64) -> Option<u64> {
        let constant = self.loaded().filter(|segment| !self.has(segment, PF_W));
        constant.into_iter().find_map(|segment| {
            let (start, bytes) = segment.file_range(self.endian);
            let distance = address.checked_sub(segment.p_vaddr(self.endian))?;
            (distance < bytes).then(|| start.checked_add(distance)).flatten()
        })
    }

    /// Returns the addresses from the first to the last code segment.
    pub fn code_span(&self) -> Range<u64> {
        let code = || self.loaded().filter(|segment| self.has(segment, PF_X));
        let start = |segment: &Program| segment.p_vaddr(self.endian);
        let end = |segment: &Program| start(segment).saturating_add(segment.p_memsz(self.endian));
        code().map(start).min().unwrap_or(0)..code().map(end).max().unwrap_or(0)
    }

    /// Returns the bytes at an offset of the file up to the next zero, the end of the file or a limit, at most
    /// [`NAME_BYTES_MAX`].
    pub fn string(&self, offset: u64, limit: u64) -> Vec<u8> {
        let mut bytes = vec![0; limit.min(NAME_BYTES_MAX as u64) as usize];
        let read = self.file.read_at(&mut bytes, offset).unwrap_or(0);
        let end = bytes[..read].iter().position(|byte| *byte == 0).unwrap_or(read);
        bytes.truncate(end);
        bytes
    }

    fn loaded(&self) -> impl Iterator<Item = &Program> {
        self.programs.iter().filter(|segment| segment.p_type(self.endian) == PT_LOAD)
    }

    fn has(&self, segment: &Program, flag: ProgramFlags) -> bool {
        segment.p_flags(self.endian) & flag == flag
    }
}
