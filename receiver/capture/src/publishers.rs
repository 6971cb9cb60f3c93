//! Which processes publish the traces that their threads work for, and where ([`probe_abi::context`]).
//!
//! The one idea: a file is looked into once, whatever the number of processes that map it; what the loader worked out
//! for one process is read from that process's memory. All of it is the process's own word, and can mislead about
//! nothing but itself: the programs check each read.
//!
//! Bounded: [`FILES_MAX`] files are remembered, then all are forgotten and looked at again; a process has one place in
//! the kernel's array, which another may have taken.

mod elf;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use probe_abi::context::{SYMBOL, Variable};

use self::elf::{Exports, Slot, Way};
use crate::kernel::Kernel;
use crate::libraries::{Sight, open};
use crate::maps::{FileKey, Mapping};

/// Files remembered.
const FILES_MAX: usize = 16_384;
/// Modules that a process may have: a number above is not believed.
const MODULES_MAX: u64 = 1 << 16;
/// Distances from the thread pointer that are believed: blocks of all modules that are loaded at the start.
const DISTANCE_MAX: u64 = 1 << 20;

/// A variable's words, as the kernel's array has them.
pub type Words = [u64; size_of::<Variable>() / 8];

/// The publishers.
#[derive(Default)]
pub struct Publishers {
    files: BTreeMap<FileKey, Option<Exports>>,
    /// Pids with a place in the kernel.
    placed: BTreeSet<u32>,
}

/// How a C library keeps a thread's blocks.
struct Blocks {
    table_at: u64,
    last_at: u64,
    entry_bytes: u64,
}

impl Publishers {
    /// Looks where a process publishes, and tells the kernel. `None` where it does not.
    pub fn look(&mut self, kernel: &mut Kernel, pid: u32, mappings: &[Mapping]) -> Option<Sight> {
        let publisher = mappings.iter().find_map(|m| Some((m, self.exports(pid, m)?)));
        let Some((mapping, exports)) = publisher else {
            self.forget(kernel, pid);
            return None;
        };
        let is_main = mappings.first().is_some_and(|first| first.file == mapping.file);
        let placed = variable(pid, mapping, &exports, is_main, &blocks(mappings))
            .and_then(|variable| self.put(kernel, pid, variable));
        Some(match placed {
            Ok(()) => Sight::Seen(format!("trace contexts: {SYMBOL} in {}", mapping.name())),
            Err(why) => Sight::Blind(format!("trace contexts: {SYMBOL} in {}: {why}", mapping.name())),
        })
    }

    /// The process is gone, or runs another program.
    pub fn forget(&mut self, kernel: &mut Kernel, pid: u32) {
        if self.placed.remove(&pid) {
            // The kernel may have taken it back itself.
            let _ = kernel.variables.set(Variable::slot(pid), Words::default(), 0);
        }
    }

    fn exports(&mut self, pid: u32, mapping: &Mapping) -> Option<Exports> {
        if let Some(known) = self.files.get(&mapping.file) {
            return known.clone();
        }
        if self.files.len() >= FILES_MAX {
            self.files.clear();
        }
        let found = open(pid, mapping).ok().and_then(|(file, _)| elf::find(file, SYMBOL).ok().flatten());
        self.files.insert(mapping.file, found.clone());
        found
    }

    fn put(&mut self, kernel: &mut Kernel, pid: u32, variable: Variable) -> Result<(), String> {
        let place = Variable::slot(pid);
        let there = kernel.variables.get(&place, 0).map_err(|e| e.to_string())?;
        let mut words = words(&variable);
        if there == words {
            return Ok(());
        }
        if there[0] != 0 && there[0] != u64::from(pid) {
            return Err(format!("process {} has its place", there[0]));
        }
        // Whose it is comes last, so that the programs see all of it or nothing.
        let owner = std::mem::take(&mut words[0]);
        kernel.variables.set(place, words, 0).map_err(|e| e.to_string())?;
        words[0] = owner;
        kernel.variables.set(place, words, 0).map_err(|e| e.to_string())?;
        self.placed.insert(pid);
        Ok(())
    }
}

fn words(v: &Variable) -> Words {
    [v.pid, v.module, v.offset, v.table_at, v.last_at, v.entry_bytes]
}

/// By the loader that is mapped. Glibc: the table's address stands behind the thread's own on x86-64 and first on
/// AArch64, an entry is two words, and their number stands before the table (nptl/tls.h, dl-tls.c). musl: behind the
/// thread's own, and right before the thread pointer; an entry is a word, the first their number (pthread_impl.h).
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

/// Where the variable stands in the threads of a process.
fn variable(
    pid: u32,
    mapping: &Mapping,
    exports: &Exports,
    is_main: bool,
    blocks: &Blocks,
) -> Result<Variable, String> {
    let (slot, address, beyond) = match exports.way {
        Way::Own(distance) if is_main => return at_distance(pid, distance),
        Way::Own(_) => return Err("no relocation tells where its module's blocks are".to_owned()),
        Way::Through { slot, address, beyond } => (slot, address, beyond),
    };
    let bias = exports.bias(mapping.start, mapping.offset).ok_or("it is mapped as its file does not say")?;
    let memory =
        File::open(format!("/proc/{pid}/mem")).map_err(|e| format!("cannot read its memory: {e}"))?;
    let address = address.wrapping_add(bias);
    if slot == Slot::Descriptor {
        let [_, argument] = read_words(&memory, address)?;
        if is_distance(argument) {
            return at_distance(pid, argument.wrapping_add(beyond));
        }
        let [module, offset] = read_words(&memory, argument)?;
        return in_module(pid, module, offset.wrapping_add(beyond), blocks);
    }
    let [word] = read_words(&memory, address)?;
    match slot {
        Slot::Module => in_module(pid, word, exports.offset, blocks),
        _ => at_distance(pid, word.wrapping_add(beyond)),
    }
}

fn read_words<const N: usize>(memory: &File, address: u64) -> Result<[u64; N], String> {
    let mut bytes = [[0; 8]; N];
    let read = memory.read_exact_at(bytes.as_flattened_mut(), address);
    read.map_err(|e| format!("cannot read its memory at {address:#x}: {e}"))?;
    Ok(bytes.map(u64::from_ne_bytes))
}

/// True for the argument of a descriptor that is a distance and no pointer: blocks loaded at the start lie below the
/// thread pointer on x86-64, close above it on AArch64.
fn is_distance(argument: u64) -> bool {
    match cfg!(target_arch = "aarch64") {
        true => argument < DISTANCE_MAX,
        false => argument.wrapping_neg() <= DISTANCE_MAX,
    }
}

fn at_distance(pid: u32, distance: u64) -> Result<Variable, String> {
    match is_distance(distance) {
        true => Ok(Variable { pid: pid.into(), offset: distance, ..Variable::default() }),
        false => Err(format!("{:#x} bytes from the thread pointer: not that far", distance as i64)),
    }
}

fn in_module(pid: u32, module: u64, offset: u64, blocks: &Blocks) -> Result<Variable, String> {
    if module == 0 || module > MODULES_MAX {
        return Err(format!("module {module}: expected 1 to {MODULES_MAX}"));
    }
    let Blocks { table_at, last_at, entry_bytes } = *blocks;
    Ok(Variable { pid: pid.into(), module, offset, table_at, last_at, entry_bytes })
}
