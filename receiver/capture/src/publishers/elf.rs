//! How the code of an object reaches a thread-local variable that the object exports, by its ELF file alone.
//!
//! The one idea: the loader has worked out where the variable stands, and has left the answer where the object's code
//! looks for it. A relocation that names the variable says where that is and what is written there
//! (<https://www.uclibc.org/docs/tls.pdf>; TLSDESC: <https://www.fsfla.org/~lxoliva/writeups/TLS/RFC-TLSDESC-x86.txt>).
//! Where the variable is an executable's own, the linker knew already, and no relocation is left.
//!
//! The file may be hostile: only the few tables that are needed are read, each bounded.

use std::fs::File;

use object::elf::{self, ProgramHeader64, SectionType, Sym64};
use object::read::elf::{
    FileHeader as _, ProgramHeader as _, Rela as _, SectionHeader as _, SectionTable, Sym as _, SymbolTable,
    VersionTable,
};
use object::{Endianness, ReadCache, SymbolIndex};

use crate::elf::{Data, ElfError, Header, Tables, tables};

type Sections<'a> = SectionTable<'a, Header, Data<'a>>;
type Symbols<'a> = SymbolTable<'a, Header, Data<'a>>;

/// What is read of an object.
const TABLES: [SectionType; 5] =
    [elf::SHT_DYNSYM, elf::SHT_STRTAB, elf::SHT_GNU_HASH, elf::SHT_RELA, elf::SHT_SYMTAB_SHNDX];
/// Bytes that the thread pointer's own block takes on AArch64, before the executable's.
const AARCH64_OWN_BYTES: u64 = 16;

/// What the loader left behind a relocation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Slot {
    /// A descriptor: a function and its argument, which is a distance or a pointer to module and offset.
    Descriptor,
    /// The number of the module, whose block the variable is in.
    Module,
    /// The distance from the thread pointer.
    Distance,
}

/// How the variable is reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// By what is at this address.
    Through {
        /// What is there.
        slot: Slot,
        /// Where, as the file counts addresses.
        address: u64,
        /// How far behind it the variable stands: what is there may be of another variable.
        beyond: u64,
    },
    /// At this distance from the thread pointer, if the object is the executable.
    Own(u64),
}

/// An object that exports the variable.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Exports {
    /// How its code reaches it.
    pub way: Way,
    /// Where the variable stands in its module's block.
    pub offset: u64,
    /// Code that is loaded: offset in the file, bytes, address.
    segments: Vec<(u64, u64, u64)>,
}

impl Exports {
    /// What to add to addresses of the file where its code from `offset` on is mapped at `start`.
    pub fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        // Mappings begin at pages, segments anywhere, and what is no code may end in the page where code begins.
        let is_in = |s: &&(u64, u64, u64)| offset >= s.0 & !0xfff && offset < s.0.saturating_add(s.1);
        let (at, _, address) = self.segments.iter().find(is_in)?;
        Some(start.wrapping_sub(offset.wrapping_sub(*at).wrapping_add(*address)))
    }
}

/// Looks for the variable `name`. `None` where the file does not export it.
pub fn find(file: File, name: &str) -> Result<Option<Exports>, ElfError> {
    let cache = ReadCache::new(file);
    let tables = tables(&cache, &TABLES)?;
    exports(&cache, &tables, name).map_err(|e| ElfError::Unreadable(e.to_string()))
}

fn exports<'a>(data: Data<'a>, tables: &Tables<'a>, name: &str) -> Result<Option<Exports>, object::Error> {
    let Tables { header, endian, sections } = tables;
    let endian = *endian;
    let programs = header.program_headers(endian, data)?;
    let Some(block) = programs.iter().find(|p| p.p_type(endian) == elf::PT_TLS) else { return Ok(None) };
    let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM)?;
    let Some((index, symbol)) = lookup(sections, &symbols, endian, data, name)? else { return Ok(None) };
    let value = symbol.st_value(endian);
    let relocated = relocated(sections, &symbols, endian, data, header.e_machine(endian), index, value)?;
    let own = || own_distance(header.e_machine(endian), block, endian).wrapping_add(value);
    let is_code = |p: &&ProgramHeader64<Endianness>| {
        p.p_type(endian) == elf::PT_LOAD && p.p_flags(endian) & elf::PF_X == elf::PF_X
    };
    let load = programs.iter().filter(is_code);
    Ok(Some(Exports {
        way: relocated.unwrap_or_else(|| Way::Own(own())),
        offset: value,
        segments: load.map(|p| (p.p_offset(endian), p.p_filesz(endian), p.p_vaddr(endian))).collect(),
    }))
}

/// The variable among the dynamic symbols: by their hash table where there is one.
fn lookup<'a>(
    sections: &Sections<'a>,
    symbols: &Symbols<'a>,
    endian: Endianness,
    data: Data<'a>,
    name: &str,
) -> Result<Option<(SymbolIndex, &'a Sym64<Endianness>)>, object::Error> {
    let name = name.as_bytes();
    let found = match sections.gnu_hash(endian, data)? {
        Some((table, _)) => {
            table.find(endian, name, elf::gnu_hash(name), None, symbols, &VersionTable::default())
        }
        None => symbols.enumerate().find(|(_, s)| symbols.symbol_name(endian, s) == Ok(name)),
    };
    Ok(found.filter(|(_, s)| s.st_type() == elf::STT_TLS && !s.is_undefined(endian)))
}

fn slot(machine: elf::Machine, kind: elf::RelocationType) -> Option<Slot> {
    Some(match (machine, kind) {
        (elf::EM_X86_64, elf::R_X86_64_TLSDESC) | (elf::EM_AARCH64, elf::R_AARCH64_TLSDESC) => {
            Slot::Descriptor
        }
        (elf::EM_X86_64, elf::R_X86_64_DTPMOD64) | (elf::EM_AARCH64, elf::R_AARCH64_TLS_DTPMOD) => {
            Slot::Module
        }
        (elf::EM_X86_64, elf::R_X86_64_TPOFF64) | (elf::EM_AARCH64, elf::R_AARCH64_TLS_TPREL) => {
            Slot::Distance
        }
        _ => return None,
    })
}

/// By the relocation that names the variable, or by one that names none and so speaks of the object's whole block.
fn relocated<'a>(
    sections: &Sections<'a>,
    symbols: &Symbols<'a>,
    endian: Endianness,
    data: Data<'a>,
    machine: elf::Machine,
    index: SymbolIndex,
    value: u64,
) -> Result<Option<Way>, object::Error> {
    let mut of_block = None;
    for section in sections.iter() {
        let Some((relocations, linked)) = section.rela(endian, data)? else { continue };
        for r in relocations.iter().filter(|_| linked == symbols.section()) {
            let Some(slot) = slot(machine, r.r_type(endian, false)) else { continue };
            let (address, addend) = (r.r_offset(endian), r.r_addend(endian) as u64);
            match r.r_sym(endian, false) as usize {
                0 => {
                    let beyond = value.wrapping_sub(addend);
                    of_block = of_block.or(Some(Way::Through { slot, address, beyond }));
                }
                named if named == index.0 => {
                    return Ok(Some(Way::Through { slot, address, beyond: addend.wrapping_neg() }));
                }
                _ => {}
            }
        }
    }
    Ok(of_block)
}

/// How far from the thread pointer the executable's block begins: on x86-64 it ends there, on AArch64 it begins behind
/// the thread's own, both as its alignment allows.
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
        let found = find(File::open(path).unwrap(), SYMBOL).unwrap().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
        found
    }

    #[test]
    fn each_way_to_the_variable_is_told_by_its_relocation() {
        let ways = [("descriptor.so", 65_536), ("descriptor_near", 0), ("distance", 0), ("module", 65_536)];
        let seen = ways.map(|(name, _)| exports(name));
        let slots =
            seen.clone().map(|e| if let Way::Through { slot, .. } = e.way { slot } else { panic!("{e:?}") });
        let module = if cfg!(target_arch = "aarch64") { Slot::Descriptor } else { Slot::Module };
        assert_eq!(slots, [Slot::Descriptor, Slot::Descriptor, Slot::Distance, module]);
        assert_eq!(seen.map(|e| e.offset), ways.map(|(_, offset)| offset));
    }

    /// Code was taken to lie where the data before it does: both are in the page that the mapping begins with, and the
    /// ids of a real tracer's spans were random memory.
    #[test]
    fn code_that_begins_in_the_last_page_of_what_is_no_code_is_found_at_its_own_address() {
        let segments = vec![(0x2_3f40, 0x1000, 0x2_4f40)];
        let exports = Exports { way: Way::Own(0), offset: 0, segments };
        assert_eq!(exports.bias(0x7f00_0002_4000, 0x2_3000), Some(0x7f00_0000_0000));
        assert_eq!(
            exports.bias(0x7f00_0002_5000, 0x2_4000),
            Some(0x7f00_0000_0000),
            "the second part of a split one"
        );
        assert_eq!(exports.bias(0x7f00_0002_4000, 0x2_2000), None);
    }

    #[test]
    fn a_file_without_the_variable_and_one_that_is_cut_off_export_nothing() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(find(File::open(&own).unwrap(), SYMBOL).unwrap(), None);
        let bytes = simulator::PUBLISHERS[0].1;
        let path = std::env::temp_dir().join(format!("warptap-publisher-cut-{}", std::process::id()));
        for length in (0..bytes.len()).step_by(61) {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let _ = find(File::open(&path).unwrap(), SYMBOL);
        }
        std::fs::remove_file(path).unwrap();
    }
}
