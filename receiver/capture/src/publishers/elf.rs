//! Access of an object's code to a thread-local variable that the object exports, from its ELF file alone.
//!
//! The loader writes the location of the variable to where the object's code reads it. The relocation of the variable
//! gives that address and the kind of the value (<https://www.uclibc.org/docs/tls.pdf>; TLSDESC:
//! <https://www.fsfla.org/~lxoliva/writeups/TLS/RFC-TLSDESC-x86.txt>). For a variable of the executable, the linker has
//! resolved the location and there is no relocation.
//!
//! The file may be hostile: it is read in pieces ([`crate::elf`]).

use std::fs::File;

use object::Endianness;
use object::elf::{self, ProgramHeader64, Rela64, Sym64};
use object::read::elf::{ProgramHeader as _, Rela as _, Sym as _};

use crate::elf::names::Names;
use crate::elf::{Elf, ElfError, Program, Section};

/// Bytes between the thread pointer and the block of the executable on AArch64.
const AARCH64_OWN_BYTES: u64 = 16;

/// The kind of value that the loader writes for a relocation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LoaderWord {
    /// A descriptor: a function and its argument, which is a distance or a pointer to module and offset.
    Descriptor,
    /// The number of the module whose block contains the variable.
    Module,
    /// A distance from the thread pointer.
    Distance,
}

/// How the variable is accessed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// Through the value at an address.
    Indirect {
        /// The kind of the value.
        word: LoaderWord,
        /// The address in the file.
        address: u64,
        /// Bytes from the location that the value refers to, which may be of another variable, to the variable.
        delta: u64,
    },
    /// At a distance from the thread pointer, if the object is the executable.
    Own(u64),
}

/// The access to the variable in an object that exports it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Exports {
    /// How the code of the object accesses the variable.
    pub access: Access,
    /// Offset of the variable in the block of its module.
    pub offset: u64,
    /// Loaded code segments: offset in the file, bytes, address.
    segments: Vec<(u64, u64, u64)>,
}

impl Exports {
    /// Returns what to add to addresses of the file if its code from `offset` on is mapped at `start`.
    pub fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        // Mappings begin at page boundaries, segments do not: data may end in the page where code begins.
        let is_in = |s: &&(u64, u64, u64)| offset >= s.0 & !0xfff && offset < s.0.saturating_add(s.1);
        let (at, _, address) = self.segments.iter().find(is_in)?;
        Some(start.wrapping_sub(offset.wrapping_sub(*at).wrapping_add(*address)))
    }
}

/// Finds the variable `name`; `None` if the file does not export it.
pub fn find(file: &File, name: &str) -> Result<Option<Exports>, ElfError> {
    let elf = Elf::read(file)?;
    let endian = elf.endian;
    let Some(block) = elf.programs.iter().find(|p| p.p_type(endian) == elf::PT_TLS) else { return Ok(None) };
    let Some(variable) = lookup(&elf, name)? else { return Ok(None) };
    let own = || own_distance(elf.machine, block, endian).wrapping_add(variable.offset);
    let is_code =
        |p: &&Program| p.p_type(endian) == elf::PT_LOAD && p.p_flags(endian) & elf::PF_X == elf::PF_X;
    let load = elf.programs.iter().filter(is_code);
    Ok(Some(Exports {
        access: relocated(&elf, &variable)?.unwrap_or_else(|| Access::Own(own())),
        offset: variable.offset,
        segments: load.map(|p| (p.p_offset(endian), p.p_filesz(endian), p.p_vaddr(endian))).collect(),
    }))
}

/// A thread-local variable among the dynamic symbols.
struct Variable<'e> {
    symbols: &'e Section,
    index: usize,
    offset: u64,
}

/// Finds the variable among the dynamic symbols.
fn lookup<'e>(elf: &'e Elf<'_>, name: &str) -> Result<Option<Variable<'e>>, ElfError> {
    let names = Names::new(&[name])?;
    let mut found = None;
    for symbols in elf.sections_of(elf::SHT_DYNSYM)? {
        let Some(strings) = elf.linked(symbols) else { continue };
        let positions = names.positions(elf, strings)?;
        elf.entries(symbols, |index, symbol: &Sym64<Endianness>| {
            let is_variable = symbol.st_type() == elf::STT_TLS && !symbol.is_undefined(elf.endian);
            if is_variable && positions.contains_key(&symbol.st_name(elf.endian)) {
                found.get_or_insert(Variable { symbols, index, offset: symbol.st_value(elf.endian) });
            }
        })?;
    }
    Ok(found)
}

fn loader_word(machine: elf::Machine, kind: elf::RelocationType) -> Option<LoaderWord> {
    Some(match (machine, kind) {
        (elf::EM_X86_64, elf::R_X86_64_TLSDESC) | (elf::EM_AARCH64, elf::R_AARCH64_TLSDESC) => {
            LoaderWord::Descriptor
        }
        (elf::EM_X86_64, elf::R_X86_64_DTPMOD64) | (elf::EM_AARCH64, elf::R_AARCH64_TLS_DTPMOD) => {
            LoaderWord::Module
        }
        (elf::EM_X86_64, elf::R_X86_64_TPOFF64) | (elf::EM_AARCH64, elf::R_AARCH64_TLS_TPREL) => {
            LoaderWord::Distance
        }
        _ => return None,
    })
}

/// Returns the access by the relocation of the variable, or by one without a symbol, which is of the whole block.
fn relocated(elf: &Elf<'_>, variable: &Variable<'_>) -> Result<Option<Access>, ElfError> {
    let (mut of_block, mut of_variable) = (None, None);
    let is_of_table = |s: &&Section| elf.linked(s).is_some_and(|of| std::ptr::eq(of, variable.symbols));
    for relocations in elf.sections_of(elf::SHT_RELA)?.into_iter().filter(is_of_table) {
        elf.entries(relocations, |_, r: &Rela64<Endianness>| {
            let Some(word) = loader_word(elf.machine, r.r_type(elf.endian, false)) else { return };
            let (address, addend) = (r.r_offset(elf.endian), r.r_addend(elf.endian) as u64);
            let access = |delta| Access::Indirect { word, address, delta };
            match r.r_sym(elf.endian, false) as usize {
                0 => drop(of_block.get_or_insert(access(variable.offset.wrapping_sub(addend)))),
                named if named == variable.index => {
                    of_variable.get_or_insert(access(addend.wrapping_neg()));
                }
                _ => {}
            }
        })?;
    }
    Ok(of_variable.or(of_block))
}

/// Returns the distance from the thread pointer to the block of the executable: on x86-64 the block ends at the thread
/// pointer, on AArch64 it begins after [`AARCH64_OWN_BYTES`], both aligned.
fn own_distance(machine: elf::Machine, block: &ProgramHeader64<Endianness>, endian: Endianness) -> u64 {
    let (address, bytes) = (block.p_vaddr(endian), block.p_memsz(endian));
    let mask = block.p_align(endian).max(1).wrapping_sub(1);
    match machine {
        elf::EM_AARCH64 => AARCH64_OWN_BYTES + (address.wrapping_sub(AARCH64_OWN_BYTES) & mask),
        _ => {
            let padding = address.wrapping_add(bytes).wrapping_neg() & mask;
            bytes.wrapping_add(padding).wrapping_neg()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe_abi::context::SYMBOL;

    fn exports(name: &str) -> Exports {
        let publisher = simulator::PUBLISHERS.iter().find(|(file, _)| file.contains(name)).unwrap();
        let dir = std::env::temp_dir().join(format!("warptap-publishers-{}", std::process::id()));
        let path = simulator::install_publisher(&dir, *publisher).unwrap();
        let found = find(&File::open(path).unwrap(), SYMBOL).unwrap().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
        found
    }

    #[test]
    fn access_is_found_by_relocation() {
        let accesses =
            [("descriptor.so", 65_536), ("descriptor_near", 0), ("distance", 0), ("module", 65_536)];
        let seen = accesses.map(|(name, _)| exports(name));
        let words = seen
            .clone()
            .map(|e| if let Access::Indirect { word, .. } = e.access { word } else { panic!("{e:?}") });
        let module = if cfg!(target_arch = "aarch64") { LoaderWord::Descriptor } else { LoaderWord::Module };
        assert_eq!(words, [LoaderWord::Descriptor, LoaderWord::Descriptor, LoaderWord::Distance, module]);
        assert_eq!(seen.map(|e| e.offset), accesses.map(|(_, offset)| offset));
    }

    /// Code was looked up at the address of the data before it, because both are in the first page of the mapping, and
    /// the span ids of a real tracer were random memory.
    #[test]
    fn code_sharing_a_page_with_data_has_its_own_address() {
        let segments = vec![(0x2_3f40, 0x1000, 0x2_4f40)];
        let exports = Exports { access: Access::Own(0), offset: 0, segments };
        assert_eq!(exports.bias(0x7f00_0002_4000, 0x2_3000), Some(0x7f00_0000_0000));
        assert_eq!(
            exports.bias(0x7f00_0002_5000, 0x2_4000),
            Some(0x7f00_0000_0000),
            "the second part of a split one"
        );
        assert_eq!(exports.bias(0x7f00_0002_4000, 0x2_2000), None);
    }

    #[test]
    fn files_without_the_variable_or_cut_short_export_nothing() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(find(&File::open(&own).unwrap(), SYMBOL).unwrap(), None);
        let bytes = simulator::PUBLISHERS[0].1;
        let path = std::env::temp_dir().join(format!("warptap-publisher-cut-{}", std::process::id()));
        for length in (0..bytes.len()).step_by(61) {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let _ = find(&File::open(&path).unwrap(), SYMBOL);
        }
        std::fs::remove_file(path).unwrap();
    }
}
