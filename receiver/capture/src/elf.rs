//! Functions in an ELF file: file offsets, which uprobes need, by symbol name.
//!
//! The file belongs to a traced process and may be hostile or change while it is read: it is read through a cache and
//! never mapped, the size of its tables is checked before they are read, and the `object` crate checks every offset.

use std::collections::HashMap;
use std::fs::File;

use object::elf::{self, FileHeader64, SectionType};
use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _, SectionTable};
use object::{Endianness, Object as _, ObjectSegment as _, ObjectSymbol as _, ReadCache};
use probe_abi::Cookie;

use crate::attach::Point;

/// The bytes of an ELF file, read through a cache.
pub(crate) type Data<'a> = &'a ReadCache<File>;
pub(crate) type Header = FileHeader64<Endianness>;
type Elf<'a> = ElfFile64<'a, Endianness, Data<'a>>;

/// Maximum size of the symbol and string tables of a library; those of libcuda are about 2 MB.
const TABLES_BYTES_MAX: u64 = 256 << 20;
/// The number of program headers in a file that has more than fit, which no library has.
const EXTENDED_PROGRAMS: u16 = 0xffff;

/// An error in reading the functions of a file.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The file is not an ELF file, or is malformed.
    #[error("not a readable ELF file: {0}")]
    Unreadable(String),
    /// The symbol tables are larger than those of any library.
    #[error("symbol tables of {bytes} bytes: expected at most {TABLES_BYTES_MAX}")]
    TooLarge {
        /// Size of the tables.
        bytes: u64,
    },
}

/// The probed functions of a file.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct FoundSymbols {
    /// Functions to attach to, one for each offset, sorted by offset.
    pub points: Vec<Point>,
    /// Wanted symbols that the file does not have.
    pub missing: Vec<&'static str>,
}

/// The headers of a file.
pub(crate) struct Tables<'a> {
    pub header: &'a Header,
    pub endian: Endianness,
    pub sections: SectionTable<'a, Header, Data<'a>>,
}

/// Reads the headers of a file, and refuses a file whose tables of these kinds are larger than those of any library: a
/// hostile sparse file may be of any length.
pub(crate) fn tables<'a>(data: Data<'a>, kinds: &[SectionType]) -> Result<Tables<'a>, ElfError> {
    let unreadable = |e: object::Error| ElfError::Unreadable(e.to_string());
    let header = Header::parse(data).map_err(unreadable)?;
    let endian = header.endian().map_err(unreadable)?;
    let is_extended = header.e_phnum(endian) == EXTENDED_PROGRAMS
        || (header.e_shnum(endian) == 0 && header.e_shoff(endian) != 0);
    if is_extended {
        return Err(ElfError::Unreadable("more headers than any library has".to_owned()));
    }
    let sections = header.sections(endian, data).map_err(unreadable)?;
    let read = sections.iter().filter(|s| kinds.contains(&s.sh_type(endian)));
    let bytes = read.map(|s| s.sh_size(endian)).fold(0, u64::saturating_add);
    if bytes > TABLES_BYTES_MAX {
        Err(ElfError::TooLarge { bytes })
    } else {
        Ok(Tables { header, endian, sections })
    }
}

/// Finds the `wanted` symbols. Of several names for one offset, the first wanted counts.
pub fn find(
    file: File,
    wanted: impl Iterator<Item = (&'static str, Cookie)>,
) -> Result<FoundSymbols, ElfError> {
    let cache = ReadCache::new(file);
    tables(&cache, &[elf::SHT_DYNSYM, elf::SHT_STRTAB, elf::SHT_SYMTAB, elf::SHT_SYMTAB_SHNDX])?;
    let elf = Elf::parse(&cache).map_err(|e| ElfError::Unreadable(e.to_string()))?;
    let wanted: Vec<_> = wanted.collect();
    let addresses = addresses(&elf, &wanted.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let mut found = FoundSymbols::default();
    for (name, cookie) in wanted {
        match addresses.get(name).and_then(|address| file_offset(&elf, *address)) {
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

fn addresses(elf: &Elf<'_>, wanted: &[&'static str]) -> HashMap<&'static str, u64> {
    let names: HashMap<&str, &'static str> = wanted.iter().map(|name| (*name, *name)).collect();
    let mut addresses = HashMap::new();
    for symbol in elf.dynamic_symbols().chain(elf.symbols()) {
        if symbol.is_definition()
            && symbol.address() != 0
            && let Ok(name) = symbol.name()
            && let Some(name) = names.get(name.split('@').next().unwrap_or(name))
        {
            addresses.entry(*name).or_insert_with(|| symbol.address());
        }
    }
    addresses
}

fn file_offset(elf: &Elf<'_>, address: u64) -> Option<u64> {
    let segment =
        elf.segments().find(|s| address >= s.address() && address - s.address() < s.file_range().1)?;
    Some(address - segment.address() + segment.file_range().0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn garbage(bytes: &[u8]) -> File {
        let path = std::env::temp_dir().join(format!("warptap-elf-{}-{}", std::process::id(), bytes.len()));
        let open = File::options().create(true).truncate(true).read(true).write(true).open(&path);
        let mut file = open.unwrap();
        file.write_all(bytes).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    fn any() -> impl Iterator<Item = (&'static str, Cookie)> {
        [("malloc", Cookie(1)), ("no_such_function", Cookie(2))].into_iter()
    }

    #[test]
    fn functions_of_libc_are_found_and_missing_ones_listed() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let Some(path) =
            maps.lines().filter_map(|l| l.split_whitespace().last()).find(|p| p.contains("libc.so"))
        else {
            return println!("skipped: this program is linked statically");
        };
        let found = find(File::open(path).unwrap(), any()).unwrap();
        assert_eq!((found.points.len(), found.missing), (1, vec!["no_such_function"]));
    }

    /// A sparse file with a symbol table of a terabyte was read into memory.
    #[test]
    fn oversized_tables_are_refused_unread() {
        let mut own = std::fs::read("/proc/self/exe").unwrap();
        let number =
            |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        let (sections, count) = (number(&own, 0x28), usize::from(own[0x3c]) | usize::from(own[0x3d]) << 8);
        let kind = |at: usize| u32::from_le_bytes(own[at + 4..at + 8].try_into().unwrap());
        let symbols = (0..count).map(|n| sections + 64 * n).find(|at| kind(*at) == elf::SHT_DYNSYM.0);
        let Some(symbols) = symbols else { return println!("skipped: this program has no dynamic symbols") };
        own[symbols + 32..symbols + 40].copy_from_slice(&(24u64 << 34).to_le_bytes());
        let file = garbage(&own);
        file.set_len(1 << 40).unwrap();
        assert!(matches!(find(file, any()), Err(ElfError::TooLarge { .. })));
        own[0x38..0x3a].copy_from_slice(&EXTENDED_PROGRAMS.to_le_bytes());
        assert!(matches!(find(garbage(&own), any()), Err(ElfError::Unreadable(_))));
    }

    #[test]
    fn garbage_and_truncated_files_are_refused() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(find(garbage(b""), any()).is_err());
        assert!(find(garbage(b"\x7fELF and then nothing"), any()).is_err());
        for length in [64, 1_000, own.len() / 3] {
            let _ = find(garbage(&own[..length]), any());
        }
    }
}
