//! Finding functions in an ELF file: symbol names to file offsets, as uprobes want them.
//!
//! The file belongs to a traced process and may be hostile or change while it is read: it is read through a cache,
//! never mapped, its tables are bounded, and every number in it is checked by the `object` crate.

use std::collections::HashMap;
use std::fs::File;

use object::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, ReadCache};
use table::Cookie;

use crate::attach::Point;

/// An ELF file read through a cache that lives for `'a`.
type Elf<'a> = object::File<'a, &'a ReadCache<File>>;

/// Symbols and strings of a library: libcuda has about 2 MB of them.
const TABLES_BYTES_MAX: u64 = 256 << 20;

/// Why a file's functions could not be found.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// It is no ELF file, or a broken one.
    #[error("not a readable elf file: {0}")]
    Unreadable(String),
    /// Its symbol tables are larger than any library's.
    #[error("symbol tables of {bytes} bytes: expected at most {TABLES_BYTES_MAX}")]
    TooLarge {
        /// Their size.
        bytes: u64,
    },
}

/// What was found in a file.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Found {
    /// Functions to attach to, one a place, by offset.
    pub points: Vec<Point>,
    /// Wanted symbols that the file does not have.
    pub missing: Vec<&'static str>,
}

/// Looks up `wanted` symbols. Two names of one place count once: the first wanted.
pub fn find(file: File, wanted: impl Iterator<Item = (&'static str, Cookie)>) -> Result<Found, ElfError> {
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).map_err(|e| ElfError::Unreadable(e.to_string()))?;
    check_size(&elf)?;
    let wanted: Vec<_> = wanted.collect();
    let addresses = addresses(&elf, &wanted.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let mut found = Found::default();
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

fn check_size(elf: &Elf<'_>) -> Result<(), ElfError> {
    let tables = [".dynsym", ".dynstr", ".symtab", ".strtab"];
    let size = |name| elf.section_by_name(name).map_or(0, |s| s.size());
    let bytes = tables.into_iter().map(size).fold(0u64, u64::saturating_add);
    if bytes > TABLES_BYTES_MAX { Err(ElfError::TooLarge { bytes }) } else { Ok(()) }
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
        File::create(&path).unwrap().write_all(bytes).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    fn any() -> impl Iterator<Item = (&'static str, Cookie)> {
        [("malloc", Cookie(1)), ("no_such_function", Cookie(2))].into_iter()
    }

    #[test]
    fn a_function_of_the_c_library_is_found_and_a_missing_one_is_named() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let Some(path) =
            maps.lines().filter_map(|l| l.split_whitespace().last()).find(|p| p.contains("libc.so"))
        else {
            return println!("skipped: this program carries its c library inside");
        };
        let found = find(File::open(path).unwrap(), any()).unwrap();
        assert_eq!((found.points.len(), found.missing), (1, vec!["no_such_function"]));
    }

    #[test]
    fn garbage_and_cut_off_files_are_refused() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(find(garbage(b""), any()).is_err());
        assert!(find(garbage(b"\x7fELF and then nothing"), any()).is_err());
        for length in [64, 1_000, own.len() / 3] {
            let _ = find(garbage(&own[..length]), any());
        }
    }
}
