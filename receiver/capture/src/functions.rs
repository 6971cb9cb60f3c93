//! Functions that processes launch: their launches, from slots of the kernel, and their names.
//!
//! The kernel numbers and records a function when it is launched first. Its name is, in this order: the one by which the
//! process looked up the handle; the one that was registered for its address; that of its symbol or registration in the
//! file of its module. Names are found on threads of their own ([`lookup`]), since a process can delay them.
//!
//! Bounded: [`FUNCTIONS_MAX`] functions of a process by the kernel, [`HANDLES_MAX`] handles. A handle beyond them, or of a
//! process whose records were lost, has no name.

mod lookup;

use std::collections::BTreeMap;

use event::{CallRecord, Event, FunctionRecord, FunctionTotal, GpuFunction, ProcessId};
use probe_abi::Action;
use probe_abi::function::{FUNCTIONS_MAX, HOT_FUNCTIONS, HotFunction};

use self::lookup::{Found, Lookup, Wanted};
use crate::kernel::{HOT_FUNCTION_WORDS, Kernel};
use crate::user;

/// Handles of functions of a process.
const HANDLES_MAX: usize = 4096;
/// Handles between that of a launch and the one that has a name: a function, its kernel, its host address.
const ALIASES_MAX: usize = 4;

/// What is known of a handle.
#[derive(Debug)]
enum Handle {
    /// Its name is being read.
    Pending,
    /// The name by which it was looked up.
    Named(String),
    /// Another handle, or the address, of the same function.
    Alias(u64),
}

/// A launched function.
#[derive(Clone, Copy, Debug)]
struct Launched {
    ordinal: u32,
    /// Launches at the last total.
    launches: u64,
}

/// The functions of a process.
#[derive(Debug, Default)]
struct OfProcess {
    /// By address or handle.
    launched: BTreeMap<u64, Launched>,
    handles: BTreeMap<u64, Handle>,
    /// Names to look up next.
    wanted: Vec<Wanted>,
}

/// The functions of traced processes.
pub(crate) struct Functions {
    processes: BTreeMap<ProcessId, OfProcess>,
    lookup: Lookup,
}

impl Functions {
    pub(crate) fn new() -> Functions {
        Functions { processes: BTreeMap::new(), lookup: Lookup::new() }
    }

    /// Takes the record of a launch. Appends the function, if it is new, and the launch.
    pub(crate) fn launch(&mut self, kernel: &Kernel, record: &FunctionRecord, into: &mut Vec<Event>) {
        let process = ProcessId::from(&record.header);
        let functions = self.processes.entry(process).or_default();
        functions.add(kernel, process, record.header.entry_ns, (record.address, record.ordinal), into);
        into.push(Event::Launch(*record));
    }

    /// Takes the record of a call that names a function or returns another handle of it. Ignores others.
    pub(crate) fn call(&mut self, kernel: &Kernel, call: &CallRecord, into: &mut Vec<Event>) {
        let action = probe_abi::row(call.header.row).map(|row| row.action);
        let handle = match action {
            Some(Action::NameFunction) => Handle::Pending,
            Some(Action::AliasFunction) => Handle::Alias(call.bytes),
            _ => return,
        };
        if call.result != 0 || call.handle == 0 {
            return;
        }
        let process = ProcessId::from(&call.header);
        let at_ns = call.header.entry_ns.saturating_add(call.header.duration_ns);
        let functions = self.processes.entry(process).or_default();
        functions.set_handle(kernel, process, at_ns, (call.handle, handle, call.bytes), into);
    }

    /// Appends the names that were found, and looks further ones up.
    pub(crate) fn advance(&mut self, at_ns: u64, into: &mut Vec<Event>) {
        self.lookup.begin_turn();
        for (process, functions) in &mut self.processes {
            for found in self.lookup.take(*process) {
                functions.take(*process, at_ns, found, into);
            }
            if !functions.wanted.is_empty() {
                self.lookup.ask((*process, user::of(process.pid)), &mut functions.wanted);
            }
        }
    }

    /// Appends the launches of the functions of a process since it was first seen, where they have changed.
    pub(crate) fn totals(&mut self, kernel: &Kernel, process: ProcessId, at_ns: u64, into: &mut Vec<Event>) {
        let numbered = numbered(kernel, process.pid);
        if numbered == 0 {
            return;
        }
        let functions = self.processes.entry(process).or_default();
        if numbered > functions.numbered() {
            // Their records did not fit into the ring, or an earlier agent has read them.
            for (_, slot) in slots(kernel, process.pid) {
                functions.add(kernel, process, at_ns, (slot.address(), slot.ordinal()), into);
            }
        }
        functions.read(kernel, process, at_ns, into);
    }

    /// Frees the slots of a process that has ended.
    pub(crate) fn remove(&mut self, kernel: &mut Kernel, process: ProcessId) {
        self.lookup.forget(process);
        let functions = self.processes.remove(&process).unwrap_or_default();
        let is_known = numbered(kernel, process.pid) <= functions.numbered();
        let slots: Vec<u32> = match is_known {
            true => functions
                .launched
                .keys()
                .filter_map(|at| slot_of(kernel, process.pid, *at))
                .map(|s| s.0)
                .collect(),
            false => slots(kernel, process.pid).map(|(at, _)| at).collect(),
        };
        free(kernel, slots);
    }
}

/// Frees the slots of a process whose functions are not known. Its fold must still be there.
pub(crate) fn remove(kernel: &mut Kernel, pid: u32) {
    if numbered(kernel, pid) > 0 {
        let slots = slots(kernel, pid).map(|(at, _)| at).collect();
        free(kernel, slots);
    }
}

fn free(kernel: &mut Kernel, slots: Vec<u32>) {
    for slot in slots {
        let _ = kernel.hot_functions.set(slot, [0; HOT_FUNCTION_WORDS], 0);
    }
}

impl OfProcess {
    fn numbered(&self) -> u64 {
        self.launched.len() as u64
    }

    /// Adds a launched function, unless it is known.
    fn add(
        &mut self,
        kernel: &Kernel,
        process: ProcessId,
        at_ns: u64,
        (address, ordinal): (u64, u32),
        into: &mut Vec<Event>,
    ) {
        if self.launched.contains_key(&address) || self.numbered() >= FUNCTIONS_MAX {
            return;
        }
        self.launched.insert(address, Launched { ordinal, launches: 0 });
        let symbol = self.symbol(kernel, process.pid, address);
        into.push(described(process, at_ns, ordinal, Found { symbol, ..Found::default() }));
    }

    /// Returns the name of an address or handle, empty if it is not known yet; it is looked up then.
    fn symbol(&mut self, kernel: &Kernel, pid: u32, address: u64) -> String {
        match self.origin(address) {
            (_, Some(Handle::Named(symbol))) => symbol.clone(),
            (_, Some(Handle::Pending)) => String::new(),
            (origin, _) => {
                let name_at = kernel.registered.get(&[u64::from(pid), origin], 0).ok();
                self.wanted.push(Wanted::Function { address, origin, name_at });
                String::new()
            }
        }
    }

    /// Returns what an address or handle is an alias of, and what is known of that.
    fn origin(&self, address: u64) -> (u64, Option<&Handle>) {
        let mut at = address;
        for _ in 0..ALIASES_MAX {
            match self.handles.get(&at) {
                Some(Handle::Alias(of)) => at = *of,
                known => return (at, known),
            }
        }
        (at, None)
    }

    /// Sets what is known of a handle, which may be another function's than before. `name_at` is the address of its name.
    fn set_handle(
        &mut self,
        kernel: &Kernel,
        process: ProcessId,
        at_ns: u64,
        (handle, known, name_at): (u64, Handle, u64),
        into: &mut Vec<Event>,
    ) {
        if self.handles.len() >= HANDLES_MAX && !self.handles.contains_key(&handle) {
            return;
        }
        if matches!(known, Handle::Pending) {
            self.wanted.push(Wanted::Handle { handle, name_at });
        }
        self.handles.insert(handle, known);
        if let Some(Launched { ordinal, .. }) = self.launched.get(&handle).copied() {
            let symbol = self.symbol(kernel, process.pid, handle);
            into.push(described(process, at_ns, ordinal, Found { symbol, ..Found::default() }));
        }
    }

    /// Takes a name that was found.
    fn take(
        &mut self,
        process: ProcessId,
        at_ns: u64,
        (wanted, found): (Wanted, Found),
        into: &mut Vec<Event>,
    ) {
        match wanted {
            Wanted::Function { address, .. } => {
                let known = self.launched.get(&address);
                into.extend(known.map(|launched| described(process, at_ns, launched.ordinal, found)));
            }
            Wanted::Handle { handle, .. } => {
                for (address, launched) in &self.launched {
                    if self.origin(*address).0 == handle {
                        into.push(described(process, at_ns, launched.ordinal, found.clone()));
                    }
                }
                self.handles.insert(handle, Handle::Named(found.symbol));
            }
        }
    }

    /// Appends the launches of functions since their last total.
    fn read(&mut self, kernel: &Kernel, process: ProcessId, at_ns: u64, into: &mut Vec<Event>) {
        for (address, known) in &mut self.launched {
            let Some((_, slot)) = slot_of(kernel, process.pid, *address) else { continue };
            let launches = slot.launches.load(std::sync::atomic::Ordering::Relaxed);
            if std::mem::replace(&mut known.launches, launches) != launches {
                let total = FunctionTotal { at_ns, process, ordinal: known.ordinal, launches };
                into.push(Event::FunctionTotal(total));
            }
        }
    }
}

fn described(process: ProcessId, at_ns: u64, ordinal: u32, found: Found) -> Event {
    let Found { symbol, module, offset } = found;
    Event::Function(Box::new(GpuFunction { process, at_ns, ordinal, symbol, module, offset }))
}

/// Returns how many functions of a process have a number.
fn numbered(kernel: &Kernel, pid: u32) -> u64 {
    let fold = kernel.processes.get(&pid, 0).ok();
    let functions = |words| -> u64 {
        let fold: probe_abi::record::ProcessFold = zerocopy::transmute!(words);
        fold.functions.load(std::sync::atomic::Ordering::Relaxed)
    };
    fold.map_or(0, functions)
}

fn slot(kernel: &Kernel, at: u32) -> Option<HotFunction> {
    kernel.hot_functions.get(&at, 0).ok().map(|words| zerocopy::transmute!(words))
}

/// Returns the slot of a function.
fn slot_of(kernel: &Kernel, pid: u32, address: u64) -> Option<(u32, HotFunction)> {
    let slots = HotFunction::slots(pid, address).into_iter().filter_map(|at| Some((at, slot(kernel, at)?)));
    slots.into_iter().find(|(_, slot)| slot.is_of(pid, address))
}

/// Returns all slots of a process.
fn slots(kernel: &Kernel, pid: u32) -> impl Iterator<Item = (u32, HotFunction)> {
    let all = (0..HOT_FUNCTIONS).filter_map(|at| Some((at, slot(kernel, at)?)));
    all.filter(move |(_, slot)| slot.pid() == pid)
}
