//! Functions in an ELF file: file offsets, which uprobes need, by symbol name.

use std::fs::File;

use object::Endianness;
use object::elf::{self, SHN_UNDEF, SHN_XINDEX, STT_FUNC, Sym64};
use object::read::elf::{ProgramHeader as _, Sym as _};
use probe_abi::Cookie;

use super::names::Names;
use super::{Elf, ElfError, Section};
use crate::attach::Point;

/// The probed functions of a file.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct FoundSymbols {
    /// Functions to attach to, one for each offset, sorted by offset.
    pub points: Vec<Point>,
    /// Wanted symbols that the file does not have.
    pub missing: Vec<&'static str>,
}

/// Where the functions of a file are listed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Listed {
    /// Among the symbols that a shared library exports. Only if it exports none of the functions, all symbols count.
    Exported,
    /// Among all symbols: a program exports those functions of a library within it that another library refers to.
    Anywhere,
}

/// Finds the `wanted` symbols. Of several names for one offset, the first wanted counts.
pub fn find(
    file: &File,
    listed: Listed,
    wanted: impl Iterator<Item = (&'static str, Cookie)>,
) -> Result<FoundSymbols, ElfError> {
    let elf = Elf::read(file)?;
    let wanted: Vec<_> = wanted.collect();
    let addresses = addresses(&elf, listed, &wanted.iter().map(|(name, _)| *name).collect::<Vec<_>>())?;
    let mut found = FoundSymbols::default();
    for ((name, cookie), address) in wanted.into_iter().zip(addresses) {
        match address.and_then(|address| file_offset(&elf, address)) {
            Some(offset) if found.points.iter().all(|p| p.offset != offset) => {
                found.points.push(Point { offset, cookie });
            }
            Some(_) => {}
            None => found.missing.push(name),
        }
    }
    found.points.sort_by_key(|p| p.offset);
    Ok(found)
}

/// Returns the address of each function.
fn addresses(elf: &Elf<'_>, listed: Listed, wanted: &[&str]) -> Result<Vec<Option<u64>>, ElfError> {
    let names = Names::new(wanted)?;
    let mut addresses = vec![None; wanted.len()];
    for kind in [elf::SHT_DYNSYM, elf::SHT_SYMTAB] {
        let is_found = addresses.iter().any(Option::is_some);
        if kind == elf::SHT_DYNSYM || !is_found || listed == Listed::Anywhere {
            for symbols in elf.sections_of(kind)? {
                add_addresses(elf, symbols, &names, &mut addresses)?;
            }
        }
    }
    Ok(addresses)
}

/// Adds the addresses of functions in one table. The first of several symbols with one name counts.
fn add_addresses(
    elf: &Elf<'_>,
    symbols: &Section,
    names: &Names,
    addresses: &mut [Option<u64>],
) -> Result<(), ElfError> {
    let Some(strings) = elf.linked(symbols) else { return Ok(()) };
    let positions = names.positions(elf, strings)?;
    elf.entries(symbols, |_, symbol: &Sym64<Endianness>| {
        if let Some(name) = positions.get(&symbol.st_name(elf.endian))
            && is_function(elf, symbol)
        {
            addresses[*name].get_or_insert(symbol.st_value(elf.endian));
        }
    })
}

fn is_function(elf: &Elf<'_>, symbol: &Sym64<Endianness>) -> bool {
    let section = symbol.st_shndx(elf.endian);
    let is_defined = section != SHN_UNDEF && (!section.is_special() || section == SHN_XINDEX);
    is_defined && symbol.st_type() == STT_FUNC && symbol.st_value(elf.endian) != 0
}

fn file_offset(elf: &Elf<'_>, address: u64) -> Option<u64> {
    elf.programs.iter().find_map(|p| {
        let (offset, bytes) = p.file_range(elf.endian);
        let distance = address.checked_sub(p.p_vaddr(elf.endian))?;
        (p.p_type(elf.endian) == elf::PT_LOAD && distance < bytes).then(|| offset.wrapping_add(distance))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tests::{Image, file};

    fn found(listed: Listed, file: &File) -> Result<FoundSymbols, ElfError> {
        let wanted = ["ncclSend", "pncclSend", "ncclRecv", "ncclGroupEnd"];
        find(file, listed, wanted.into_iter().zip([1, 2, 3, 4].map(Cookie)))
    }

    fn offsets(found: &FoundSymbols) -> Vec<(u64, u64)> {
        found.points.iter().map(|p| (p.cookie.0, p.offset)).collect()
    }

    #[test]
    fn functions_of_libc_are_found_and_missing_ones_listed() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let Some(path) =
            maps.lines().filter_map(|l| l.split_whitespace().last()).find(|p| p.contains("libc.so"))
        else {
            return println!("skipped: this program is linked statically");
        };
        let wanted = [("malloc", Cookie(1)), ("no_such_function", Cookie(2))];
        let found = find(&File::open(path).unwrap(), Listed::Exported, wanted.into_iter()).unwrap();
        assert_eq!((found.points.len(), found.missing), (1, vec!["no_such_function"]));
    }

    /// Linkers store `ncclSend` as the end of `pncclSend`, and versions after the name.
    #[test]
    fn names_at_the_end_of_others_and_names_with_versions_are_found() {
        let image = Image {
            strings: b"\0pncclSend\0ncclRecv@@V2\0ncclGroupEndX\0",
            exported: &[(1, 0x10), (2, 0x20), (11, 0x30), (24, 0x40)],
            ..Image::default()
        };
        let found = found(Listed::Exported, &file(&image.bytes())).unwrap();
        assert_eq!(offsets(&found), [(2, 0x10), (1, 0x20), (3, 0x30)]);
        assert_eq!(found.missing, ["ncclGroupEnd"]);
    }

    #[test]
    fn symbols_that_are_not_exported_count_in_programs_and_in_libraries_that_export_no_function() {
        let strings = b"\0ncclSend\0ncclRecv\0";
        let both =
            Image { strings, exported: &[(1, 0x10)], others: &[(1, 0x50), (10, 0x20)], symbol_kind: 2 };
        let seen = |listed, image: &Image<'_>| offsets(&found(listed, &file(&image.bytes())).unwrap());
        assert_eq!(seen(Listed::Exported, &both), [(1, 0x10)]);
        assert_eq!(seen(Listed::Anywhere, &both), [(1, 0x10), (3, 0x20)]);
        assert_eq!(seen(Listed::Exported, &Image { exported: &[], ..both }), [(3, 0x20), (1, 0x50)]);
    }

    #[test]
    fn undefined_symbols_and_data_are_no_functions() {
        let strings = b"\0ncclSend\0ncclRecv\0";
        let undefined = Image { strings, exported: &[(1, 0), (10, 0)], ..Image::default() };
        let data = Image { exported: &[(1, 0x10)], symbol_kind: 1, ..undefined };
        for image in [undefined, data] {
            assert_eq!(found(Listed::Anywhere, &file(&image.bytes())).unwrap().points, []);
        }
    }

    /// Tables that are longer than a window, whose names and symbols are on both sides of its end.
    #[test]
    fn names_and_symbols_are_found_wherever_they_are_in_long_tables() {
        for before in (65_500..65_545).chain([131_072, 1_000_000]) {
            let strings = [vec![b'x'; before], b"\0ncclSend\0".to_vec()].concat();
            let mut exported = vec![(0, 0x10); before / 24];
            exported.push((before as u32 + 1, 0x20));
            let image = Image { strings: &strings, exported: &exported, ..Image::default() };
            let found = found(Listed::Exported, &file(&image.bytes())).unwrap();
            assert_eq!(offsets(&found), [(1, 0x20)], "{before} bytes before the name");
        }
    }

    /// Every symbol has another name, each of megabytes, all in one string. Their names were kept: 7.5 MB of file took 655 MB.
    #[test]
    fn long_names_of_many_symbols_take_no_memory() {
        let strings = [vec![b'x'; 4 << 20], b"\0ncclSend\0".to_vec()].concat();
        let mut exported: Vec<(u32, u64)> = (0..100_000).map(|n| (n * 40, 0x10)).collect();
        exported.push(((4 << 20) + 1, 0x20));
        let image = file(&Image { strings: &strings, exported: &exported, ..Image::default() }.bytes());
        let resident = || {
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap() * 4096
        };
        let before = resident();
        assert_eq!(offsets(&found(Listed::Exported, &image).unwrap()), [(1, 0x20)]);
        // Other tests run meanwhile.
        assert!(resident().saturating_sub(before) < 64 << 20, "{} bytes more", resident() - before);
    }

    #[test]
    fn string_tables_that_repeat_the_names_are_refused() {
        let strings = b"ncclSend\0".repeat(20_000);
        let image = Image { strings: &strings, exported: &[(0, 0x10)], ..Image::default() };
        assert!(matches!(found(Listed::Exported, &file(&image.bytes())), Err(ElfError::Repetitive)));
    }

    /// A sparse file with a symbol table of a terabyte was read into memory.
    #[test]
    fn oversized_tables_and_too_many_headers_are_refused_unread() {
        let image = Image { strings: b"\0ncclSend\0", exported: &[(1, 0x10)], ..Image::default() }.bytes();
        for section in [1, 2] {
            let mut image = image.clone();
            let size_at = Image::section_header(section) + 32;
            image[size_at..size_at + 8].copy_from_slice(&(24u64 << 34).to_le_bytes());
            let file = file(&image);
            file.set_len(1 << 40).unwrap();
            assert!(matches!(found(Listed::Exported, &file), Err(ElfError::TooLarge { .. })));
        }
        for count_at in [0x38, 0x3c] {
            let mut image = image.clone();
            image[count_at..count_at + 2].copy_from_slice(&0xffff_u16.to_le_bytes());
            assert!(matches!(found(Listed::Exported, &file(&image)), Err(ElfError::Unreadable(_))));
        }
    }

    #[test]
    fn garbage_and_truncated_files_are_refused() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(found(Listed::Anywhere, &file(b"")).is_err());
        assert!(found(Listed::Anywhere, &file(b"\x7fELF and then nothing")).is_err());
        for length in [64, 1_000, own.len() / 3] {
            let _ = found(Listed::Anywhere, &file(&own[..length]));
        }
    }
}
