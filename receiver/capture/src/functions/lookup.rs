//! Look-up of the names of functions, on threads of their own: the memory of a process, and the files that it maps, can
//! be on a file system that does not answer, and the tables of a large library take long.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::sync::{Arc, Mutex, PoisonError};

use event::ProcessId;
use process_info::{Inspector, Patience};

use crate::elf::names_at::find_names;
use crate::libraries::open_mapped;
use crate::maps::{self, FileKey, Mapping};
use crate::process_strings::read_strings;

/// Names of functions by file and offset, of all processes. When full, it is cleared.
const CACHED_MAX: usize = 16_384;

/// A name that is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    /// That of a launched function.
    Function {
        /// Address or handle that is launched.
        address: u64,
        /// Address or handle that it is another one of.
        origin: u64,
        /// Address of the registered name, if there is one.
        name_at: Option<u64>,
    },
    /// That by which a handle was looked up.
    Handle {
        /// The handle.
        handle: u64,
        /// Address of the name.
        name_at: u64,
    },
}

impl Wanted {
    /// Returns the address or handle of the function.
    fn address(&self) -> u64 {
        match self {
            Wanted::Function { origin, .. } => *origin,
            Wanted::Handle { handle, .. } => *handle,
        }
    }

    fn name_at(&self) -> Option<u64> {
        match self {
            Wanted::Function { name_at, .. } => *name_at,
            Wanted::Handle { name_at, .. } => Some(*name_at),
        }
    }
}

/// The name of a function, or its place.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Found {
    /// Empty if it was not found.
    pub(super) symbol: String,
    /// File name of the module; empty for a handle of the driver.
    pub(super) module: String,
    /// Offset in the file; the handle without a module.
    pub(super) offset: u64,
}

type Answers = Vec<(Wanted, Found)>;
type Cache = Arc<Mutex<BTreeMap<(FileKey, u64), String>>>;

/// Looks names up.
pub(super) struct Lookup {
    inspector: Inspector<()>,
    cache: Cache,
}

impl Lookup {
    pub(super) fn new() -> Lookup {
        Lookup { inspector: Inspector::with(Patience::NONE, "gpu-names"), cache: Cache::default() }
    }

    pub(super) fn begin_turn(&mut self) {
        self.inspector.begin_turn();
    }

    /// Returns the names of a process that were found since the last call.
    pub(super) fn take(&mut self, process: ProcessId) -> Answers {
        self.inspector.take_kept(process.pid, ()).unwrap_or_default()
    }

    /// Begins to look names up, unless others of the process are looked up now.
    pub(super) fn ask(&mut self, (process, user): (ProcessId, u32), wanted: &mut Vec<Wanted>) {
        let (pid, cache, batch) = (process.pid, Arc::clone(&self.cache), wanted.clone());
        if self.inspector.begin((pid, user), (), move || find(pid, batch, &cache)) {
            wanted.clear();
        }
    }

    /// Forgets what was asked about a process that has ended.
    pub(super) fn forget(&mut self, process: ProcessId) {
        self.inspector.forget(process.pid);
    }
}

/// Returns the names of functions, in the order of the sources.
fn find(pid: u32, wanted: Vec<Wanted>, cache: &Cache) -> Answers {
    let mappings = mappings(pid);
    // Nothing is at address 0.
    let addresses: Vec<u64> = wanted.iter().map(|wanted| wanted.name_at().unwrap_or(0)).collect();
    let names = read_strings(pid, &addresses).unwrap_or_default().into_iter().chain(std::iter::repeat(None));
    let place = |(wanted, name): (Wanted, Option<String>)| {
        (wanted, Found { symbol: name.unwrap_or_default(), ..place(&mappings, wanted.address()) })
    };
    let mut found: Answers = wanted.into_iter().zip(names).map(place).collect();
    name_by_files(pid, &mappings, &mut found, cache);
    found
}

fn mappings(pid: u32) -> Vec<Mapping> {
    let file = File::open(format!("/proc/{pid}/maps")).ok();
    file.and_then(|file| maps::read_files(BufReader::new(file)).ok()).map(|read| read.all).unwrap_or_default()
}

fn mapping_of(mappings: &[Mapping], address: u64) -> Option<&Mapping> {
    mappings.iter().find(|m| (m.start..m.end).contains(&address))
}

/// Returns the module and the offset of an address, without a name.
fn place(mappings: &[Mapping], address: u64) -> Found {
    match mapping_of(mappings, address) {
        Some(m) => {
            Found { module: m.name().to_owned(), offset: address - m.start + m.offset, ..Found::default() }
        }
        None => Found { offset: address, ..Found::default() },
    }
}

/// Names the functions that have no name yet by the files of their modules, each of which is read once.
fn name_by_files(pid: u32, mappings: &[Mapping], found: &mut Answers, cache: &Cache) {
    let mut files: BTreeMap<FileKey, (&Mapping, Vec<usize>)> = BTreeMap::new();
    for (at, (wanted, found)) in found.iter_mut().enumerate().filter(|(_, (_, f))| f.symbol.is_empty()) {
        let Wanted::Function { origin, .. } = *wanted else { continue };
        let Some(mapping) = mapping_of(mappings, origin) else { continue };
        let cached = cached(cache, &[(mapping.file, found.offset)]);
        match cached.into_iter().flatten().next() {
            Some(symbol) => found.symbol = symbol,
            None => files.entry(mapping.file).or_insert_with(|| (mapping, Vec::new())).1.push(at),
        }
    }
    for (file, (mapping, functions)) in files {
        let offsets: Vec<u64> = functions.iter().map(|at| found[*at].1.offset).collect();
        let names = symbols_at(pid, mapping, &offsets);
        for (at, name) in functions.into_iter().zip(names) {
            let key = (file, found[at].1.offset);
            found[at].1.symbol.clone_from(&name);
            store(cache, key, name);
        }
    }
}

fn cached(cache: &Cache, keys: &[(FileKey, u64)]) -> Vec<Option<String>> {
    let cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
    keys.iter().map(|key| cache.get(key).cloned()).collect()
}

/// Stores a name, empty for a function that has none.
fn store(cache: &Cache, key: (FileKey, u64), name: String) {
    let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
    if cache.len() >= CACHED_MAX {
        cache.clear();
    }
    cache.insert(key, name);
}

/// Returns the names of the functions at these offsets of a file, empty where there is none.
fn symbols_at(pid: u32, mapping: &Mapping, offsets: &[u64]) -> Vec<String> {
    let file = open_mapped(pid, mapping).ok();
    let names = file.and_then(|file| find_names(&file, offsets).ok()).unwrap_or_default();
    let mut symbols: Vec<String> =
        names.into_iter().map(|name| name.map(|name| name.symbol).unwrap_or_default()).collect();
    symbols.resize(offsets.len(), String::new());
    symbols
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function with a symbol in this test program.
    #[inline(never)]
    extern "C" fn named_by_its_symbol() -> u64 {
        std::hint::black_box(7)
    }

    fn found(wanted: Wanted) -> Found {
        let mut found = find(std::process::id(), vec![wanted], &Cache::default());
        found.pop().unwrap().1
    }

    #[test]
    fn registered_names_precede_symbols() {
        let (address, name) = (named_by_its_symbol as *const () as u64, c"_Z6kernelv");
        let of = |name_at| Wanted::Function { address, origin: address, name_at };
        assert_eq!(found(of(Some(name.as_ptr() as u64))).symbol, "_Z6kernelv");
        let by_file = found(of(None));
        assert!(by_file.symbol.contains("named_by_its_symbol"), "{by_file:?}");
        assert!(by_file.offset > 0 && !by_file.module.is_empty());
    }

    #[test]
    fn handles_have_the_name_of_their_look_up_or_none() {
        let of = |name_at| Wanted::Handle { handle: 0x10, name_at };
        assert_eq!(
            found(of(c"triton_mm".as_ptr() as u64)),
            Found { symbol: "triton_mm".into(), module: String::new(), offset: 0x10 }
        );
        assert_eq!(found(of(0)), Found { offset: 0x10, ..Found::default() });
    }

    #[test]
    fn cached_names_are_not_looked_up_again() {
        let (cache, address) = (Cache::default(), named_by_its_symbol as *const () as u64);
        let wanted = Wanted::Function { address, origin: address, name_at: None };
        let first = find(std::process::id(), vec![wanted], &cache);
        cache.lock().unwrap().values_mut().for_each(|name| *name = "cached".into());
        let second = find(std::process::id(), vec![wanted], &cache);
        assert!(first[0].1.symbol != "cached" && second[0].1.symbol == "cached");
    }
}
