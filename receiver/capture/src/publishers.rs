//! Processes that publish the trace contexts of their threads, and where ([`probe_abi::context`]).
//!
//! A file is parsed once, whatever the number of processes that map it; the result of the loader for one process is
//! read from the memory of that process. A process can falsify its own contexts and nothing else: the kernel programs
//! check each read.
//!
//! [`FILES_MAX`] files are cached; then the cache is cleared. A process has one slot in the array of the kernel, which
//! another process may occupy.

pub(crate) mod elf;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use probe_abi::context::{SYMBOL, Variable};

use self::elf::{Access, Exports, LoaderWord};
use crate::inspect::{ProcessInspector, Question};
use crate::kernel::Kernel;
use crate::libraries::{Coverage, open_mapped};
use crate::maps::{FileKey, Mapping};

/// Files in the cache.
const FILES_MAX: usize = 16_384;
/// Highest module number that is accepted.
const MODULES_MAX: u64 = 1 << 16;
/// Largest distance from the thread pointer that is accepted: the blocks of all modules loaded at start.
const DISTANCE_MAX: u64 = 1 << 20;

/// A [`Variable`] as the words of a map value.
pub type PublisherWords = [u64; size_of::<Variable>() / 8];

/// The processes that publish contexts, and a cache of their files.
#[derive(Default)]
pub struct Publishers {
    files: BTreeMap<FileKey, Option<Exports>>,
    /// Pids with a slot in the array of the kernel.
    published: BTreeSet<u32>,
}

/// The layout of a thread's table of TLS blocks, which depends on the C library.
struct Blocks {
    table_at: u64,
    last_at: u64,
    entry_bytes: u64,
}

impl Publishers {
    /// Finds where a process publishes contexts and stores it in the kernel; `None` if the process does not publish.
    pub fn update(
        &mut self,
        kernel: &mut Kernel,
        inspector: &mut ProcessInspector,
        (pid, user): (u32, u32),
        mappings: &[Mapping],
    ) -> Option<Coverage> {
        let publisher = mappings.iter().find_map(|m| Some((m, self.exports(inspector, (pid, user), m)?)));
        let Some((mapping, exports)) = publisher else {
            self.clear(kernel, pid);
            return None;
        };
        let is_main = mappings.first().is_some_and(|first| first.file == mapping.file);
        let (of, blocks) = (mapping.clone(), blocks(mappings));
        let find = move || variable(pid, &of, &exports, is_main, &blocks);
        let found = inspector.inspect((pid, user), Question::Memory, find);
        let published = found
            .unwrap_or_else(|why| Err(why.to_string()))
            .and_then(|variable| self.put(kernel, pid, variable));
        Some(match published {
            Ok(()) => Coverage::Observed(format!("trace contexts: {SYMBOL} in {}", mapping.name())),
            Err(why) => Coverage::Gap(format!("trace contexts: {SYMBOL} in {}: {why}", mapping.name())),
        })
    }

    /// Removes a process that has exited or executed another program.
    pub fn clear(&mut self, kernel: &mut Kernel, pid: u32) {
        if self.published.remove(&pid) {
            // The kernel program for exits may have cleared it already.
            let _ = kernel.variables.set(Variable::slot(pid), PublisherWords::default(), 0);
        }
    }

    fn exports(
        &mut self,
        inspector: &mut ProcessInspector,
        (pid, user): (u32, u32),
        mapping: &Mapping,
    ) -> Option<Exports> {
        if let Some(known) = self.files.get(&mapping.file) {
            return known.clone();
        }
        if self.files.len() >= FILES_MAX {
            self.files.clear();
        }
        // A process may show another file than the one that it maps: that is no verdict on the file.
        let of = mapping.clone();
        let find = move || Some(elf::find(&open_mapped(pid, &of).ok()?, SYMBOL).ok().flatten());
        let found = inspector.inspect_once((pid, user), Question::Exports(mapping.file), find).ok()??;
        self.files.insert(mapping.file, found.clone());
        found
    }

    fn put(&mut self, kernel: &mut Kernel, pid: u32, variable: Variable) -> Result<(), String> {
        let slot = Variable::slot(pid);
        let there = kernel.variables.get(&slot, 0).map_err(|e| e.to_string())?;
        let mut words: PublisherWords = zerocopy::transmute!(variable);
        if there == words {
            return Ok(());
        }
        if there[0] != 0 && there[0] != u64::from(pid) {
            return Err(format!("process {} occupies its slot", there[0]));
        }
        // The owner is written last, so that the kernel programs see all of it or nothing.
        let owner = std::mem::take(&mut words[0]);
        kernel.variables.set(slot, words, 0).map_err(|e| e.to_string())?;
        words[0] = owner;
        kernel.variables.set(slot, words, 0).map_err(|e| e.to_string())?;
        self.published.insert(pid);
        Ok(())
    }
}

/// Returns the layout by the loader that is mapped. glibc: the address of the table is the second word at the thread
/// pointer on x86-64 and the first on AArch64; an entry is two words, and the number of entries precedes the table
/// (nptl/tls.h, dl-tls.c). musl: the address is the second word on x86-64 and precedes the thread pointer on AArch64; an
/// entry is a word, and the first is the number of entries (pthread_impl.h).
fn blocks(mappings: &[Mapping]) -> Blocks {
    let is_musl =
        mappings.iter().any(|m| m.name().starts_with("ld-musl") || m.name().starts_with("libc.musl"));
    let is_arm = cfg!(target_arch = "aarch64");
    match is_musl {
        true => Blocks { table_at: if is_arm { 8u64.wrapping_neg() } else { 8 }, last_at: 0, entry_bytes: 8 },
        false => {
            Blocks { table_at: if is_arm { 0 } else { 8 }, last_at: 16u64.wrapping_neg(), entry_bytes: 16 }
        }
    }
}

/// Returns the location of the variable in the threads of a process.
fn variable(
    pid: u32,
    mapping: &Mapping,
    exports: &Exports,
    is_main: bool,
    blocks: &Blocks,
) -> Result<Variable, String> {
    let (word, address, delta) = match exports.access {
        Access::Own(distance) if is_main => return at_distance(pid, distance),
        Access::Own(_) => return Err("no relocation refers to the TLS block of its module".to_owned()),
        Access::Indirect { word, address, delta } => (word, address, delta),
    };
    let bias = exports
        .bias(mapping.start, mapping.offset)
        .ok_or("the mapping does not match the segments of the file")?;
    let memory = File::open(format!("/proc/{pid}/mem"))
        .map_err(|e| format!("cannot open the memory of the process: {e}"))?;
    let address = address.wrapping_add(bias);
    if word == LoaderWord::Descriptor {
        let [_, argument] = read_words(&memory, address)?;
        if is_distance(argument) {
            return at_distance(pid, argument.wrapping_add(delta));
        }
        let [module, offset] = read_words(&memory, argument)?;
        return in_module(pid, module, offset.wrapping_add(delta), blocks);
    }
    let [value] = read_words(&memory, address)?;
    match word {
        LoaderWord::Module => in_module(pid, value, exports.offset, blocks),
        _ => at_distance(pid, value.wrapping_add(delta)),
    }
}

fn read_words<const N: usize>(memory: &File, address: u64) -> Result<[u64; N], String> {
    let mut bytes = [[0; 8]; N];
    let read = memory.read_exact_at(bytes.as_flattened_mut(), address);
    read.map_err(|e| format!("cannot read the memory of the process at {address:#x}: {e}"))?;
    Ok(bytes.map(u64::from_ne_bytes))
}

/// Returns true if the argument of a descriptor is a distance and not a pointer: blocks loaded at start are below the
/// thread pointer on x86-64 and close above it on AArch64.
fn is_distance(argument: u64) -> bool {
    match cfg!(target_arch = "aarch64") {
        true => argument < DISTANCE_MAX,
        false => argument.wrapping_neg() <= DISTANCE_MAX,
    }
}

fn at_distance(pid: u32, distance: u64) -> Result<Variable, String> {
    match is_distance(distance) {
        true => Ok(Variable { pid: pid.into(), offset: distance, ..Variable::default() }),
        false => Err(format!(
            "{:#x} bytes from the thread pointer: expected at most {DISTANCE_MAX:#x}",
            distance as i64
        )),
    }
}

fn in_module(pid: u32, module: u64, offset: u64, blocks: &Blocks) -> Result<Variable, String> {
    if module == 0 || module > MODULES_MAX {
        return Err(format!("module {module}: expected 1 to {MODULES_MAX}"));
    }
    let Blocks { table_at, last_at, entry_bytes } = *blocks;
    Ok(Variable { pid: pid.into(), module, offset, table_at, last_at, entry_bytes })
}
