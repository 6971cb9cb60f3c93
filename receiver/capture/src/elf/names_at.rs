//! Names of functions in an ELF file by where they are in the file.
//!
//! A program launches a GPU function by the address of a host function or, with HIP, of a variable that has its name. Its name is
//! looked up in the sources of [`ORDER`]. Each is read once, whatever the number of wanted functions, and nothing but
//! their names is kept: at most [`WANTED_MAX`] of [`NAME_BYTES_MAX`](super::addresses::NAME_BYTES_MAX) bytes.

use std::collections::{HashMap, HashSet};
use std::fs::File;

use object::Endianness;
use object::elf::{SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC, STT_OBJECT, SectionType, Sym64};
use object::read::elf::{SectionHeader as _, Sym as _};

use super::{Elf, ElfError, Section, debug_file, registrations};

/// Functions that are looked up at a time; further ones have no name.
pub(crate) const WANTED_MAX: usize = 1_024;

/// Where the name of a function is from.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum NameSource {
    /// The code that registers the GPU function.
    Registration,
    /// The symbols of the file, which linkers write and `strip` removes.
    Symbols,
    /// The symbols that the file exports.
    Exports,
    /// The symbols of its separate debug file.
    DebugFile,
}

/// The sources in the order in which they are read, until each wanted function has a name. A registration has the name of the GPU
/// function, as drivers and profilers show it; the symbol of the host function differs from it where a template is local to its file
/// or has a lambda as argument.
pub const ORDER: [NameSource; 4] =
    [NameSource::Registration, NameSource::Symbols, NameSource::Exports, NameSource::DebugFile];

/// The name of a function.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FoundName {
    /// The symbol, mostly mangled; cut to 4 KiB. Invalid UTF-8 is replaced.
    pub symbol: String,
    /// Where it is from.
    pub source: NameSource,
}

/// Finds the names of the functions at offsets of a file, of which the first [`WANTED_MAX`] are looked up. Of several names
/// at one offset, the first of the first source counts.
pub fn find_names(file: &File, offsets: &[u64]) -> Result<Vec<Option<FoundName>>, ElfError> {
    find_names_in(file, offsets, &ORDER)
}

/// Finds the names of functions in these sources only.
pub fn find_names_in(
    file: &File,
    offsets: &[u64],
    sources: &[NameSource],
) -> Result<Vec<Option<FoundName>>, ElfError> {
    let elf = Elf::read(file)?;
    let addresses: Vec<_> = offsets.iter().take(WANTED_MAX).map(|offset| elf.address_of(*offset)).collect();
    let mut wanted = Wanted::new(addresses.iter().flatten().copied());
    let mut first_error = None;
    for source in sources {
        if let Err(error) = add(&elf, *source, &mut wanted) {
            first_error.get_or_insert(error);
        }
    }
    match first_error {
        Some(error) if wanted.found.is_empty() => return Err(error),
        _ => {}
    }
    let name = |address: Option<u64>| wanted.found.get(&address?).cloned();
    let mut names: Vec<_> = addresses.into_iter().map(name).collect();
    names.resize(offsets.len(), None);
    Ok(names)
}

/// Adds the names that a source has of functions without one.
fn add(elf: &Elf<'_>, source: NameSource, wanted: &mut Wanted) -> Result<(), ElfError> {
    match source {
        _ if wanted.missing() == 0 => Ok(()),
        NameSource::Registration => registrations::add(elf, wanted),
        NameSource::Symbols => add_symbols(elf, SHT_SYMTAB, source, wanted),
        NameSource::Exports => add_symbols(elf, SHT_DYNSYM, source, wanted),
        NameSource::DebugFile => add_debug_symbols(elf, wanted),
    }
}

/// The functions that are looked up.
pub(super) struct Wanted {
    missing: HashSet<u64>,
    found: HashMap<u64, FoundName>,
}

impl Wanted {
    fn new(addresses: impl Iterator<Item = u64>) -> Wanted {
        Wanted { missing: addresses.collect(), found: HashMap::new() }
    }

    /// Returns the number of functions without a name.
    pub fn missing(&self) -> usize {
        self.missing.len()
    }

    /// Returns true if there is no name for an address yet, and one is wanted.
    pub fn is_missing(&self, address: u64) -> bool {
        self.missing.contains(&address)
    }

    /// Adds a name.
    pub fn add(&mut self, address: u64, symbol: Vec<u8>, source: NameSource) {
        let symbol = match String::from_utf8(symbol) {
            Ok(symbol) => symbol,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        if self.missing.remove(&address) {
            self.found.insert(address, FoundName { symbol, source });
        }
    }
}

/// Adds names from the symbol tables of a kind.
fn add_symbols(
    elf: &Elf<'_>,
    kind: SectionType,
    source: NameSource,
    wanted: &mut Wanted,
) -> Result<(), ElfError> {
    for table in elf.sections_of(kind)? {
        let Some(strings) = elf.linked(table) else { continue };
        for (address, position) in positions(elf, table, wanted)? {
            if let Some(name) = symbol_name(elf, strings, position) {
                wanted.add(address, name, source);
            }
        }
    }
    Ok(())
}

/// Returns where the names of wanted functions are in the strings of a symbol table.
fn positions(elf: &Elf<'_>, table: &Section, wanted: &Wanted) -> Result<HashMap<u64, u32>, ElfError> {
    let mut positions = HashMap::new();
    elf.entries(table, |_, symbol: &Sym64<Endianness>| {
        let address = symbol.st_value(elf.endian);
        let is_named = matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC | STT_OBJECT);
        if is_named && !symbol.is_undefined(elf.endian) && wanted.is_missing(address) {
            positions.entry(address).or_insert_with(|| symbol.st_name(elf.endian));
        }
    })?;
    Ok(positions)
}

/// Returns a name without its version.
fn symbol_name(elf: &Elf<'_>, strings: &Section, position: u32) -> Option<Vec<u8>> {
    let position = u64::from(position);
    let limit = strings.sh_size(elf.endian).checked_sub(position)?;
    let mut name = elf.string(strings.sh_offset(elf.endian).checked_add(position)?, limit);
    let end = name.iter().position(|byte| *byte == b'@').unwrap_or(name.len());
    name.truncate(end);
    (!name.is_empty()).then_some(name)
}

/// Adds names from the debug file, if there is a readable one.
fn add_debug_symbols(elf: &Elf<'_>, wanted: &mut Wanted) -> Result<(), ElfError> {
    let Some(file) = debug_file::open(elf) else { return Ok(()) };
    add_symbols(&Elf::read(&file)?, SHT_SYMTAB, NameSource::DebugFile, wanted)
}

#[cfg(test)]
#[path = "names_at/tests.rs"]
mod tests;
