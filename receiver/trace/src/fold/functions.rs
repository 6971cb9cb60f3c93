//! Functions: their ordinals in a process, by the kernel's rule, and their names, where the source has them.

use std::collections::BTreeMap;

use probe_abi::counters::SelfCounter;
use probe_abi::fold::Enqueue;
use probe_abi::function::{FUNCTIONS_MAX, OVERFLOW_LANE, lane};
use probe_abi::graph::Contents;

use super::Folder;
use super::graphs::exec_key;
use crate::call::Call;
use crate::{TracedGraph, TracedKernel};
use event::{Event, GpuFunction, ProcessId};

/// Ordinals of the functions of a process by identity, in the order of their first launch. At most [`FUNCTIONS_MAX`].
#[derive(Debug, Default)]
pub(super) struct Functions(BTreeMap<u64, u32>);

/// The ordinal of a function.
enum Ordinal {
    Known(u32),
    New(u32),
    Full,
}

impl Functions {
    fn ordinal(&mut self, identity: u64) -> Ordinal {
        let next = self.0.len() as u32;
        match self.0.get(&identity) {
            Some(ordinal) => Ordinal::Known(*ordinal),
            None if u64::from(next) >= FUNCTIONS_MAX => Ordinal::Full,
            None => {
                self.0.insert(identity, next);
                Ordinal::New(next)
            }
        }
    }
}

/// Names of functions by identity, and the functions not reported yet.
#[derive(Debug, Default)]
pub(super) struct Names {
    symbols: BTreeMap<u64, String>,
    found: Vec<GpuFunction>,
}

impl Names {
    /// Appends the functions that were launched for the first time.
    pub(super) fn report(&mut self, out: &mut Vec<Event>) {
        out.extend(self.found.drain(..).map(|function| Event::Function(Box::new(function))));
    }

    fn find(&mut self, process: ProcessId, at_ns: u64, identity: u64, ordinal: u32) {
        let symbol = self.symbols.get(&identity).cloned().unwrap_or_default();
        let module = String::new();
        self.found.push(GpuFunction { process, at_ns, ordinal, symbol, module, offset: identity });
    }
}

impl Folder {
    /// Sets the name of the function with this identity, for [`Event::Function`]. The caller bounds their number.
    pub fn name_function(&mut self, identity: u64, symbol: &str) {
        self.names.symbols.insert(identity, symbol.to_owned());
    }

    /// Sets the contents of the executable graph of a launch, as if its capture had been seen. They are unknown, but for
    /// the functions, if the threads of a kernel are.
    pub fn add_graph(&mut self, launch: &Call, contents: &TracedGraph) {
        let key = exec_key(launch.process.pid, launch.handle.unwrap_or(0));
        if self.graphs.get(&key).is_some() || !self.adopt(launch) {
            return;
        }
        let graph = Contents::default();
        graph.move_bytes(contents.bytes);
        for kernel in &contents.kernels {
            self.add_kernel(launch, *kernel, &graph);
        }
        self.graphs.store(key, &graph);
    }

    fn add_kernel(&mut self, launch: &Call, kernel: TracedKernel, graph: &Contents) {
        let lane = self.lane(launch, kernel.function);
        graph.launch(false, &Enqueue { threads: kernel.threads.unwrap_or(0), lane, ..Enqueue::default() });
        if kernel.threads.is_none() {
            graph.set_unknown();
        }
    }

    /// Returns the lane of a launched function, which gets the next ordinal if it is new. A source that does not say
    /// which function was launched has no ordinals.
    pub(super) fn lane(&mut self, call: &Call, identity: u64) -> u32 {
        let Some(process) = self.processes.get_mut(&call.process.pid).filter(|_| identity != 0) else {
            return OVERFLOW_LANE;
        };
        match process.functions.ordinal(identity) {
            Ordinal::Known(ordinal) => lane(ordinal),
            Ordinal::New(ordinal) => {
                self.names.find(call.process, call.entry_ns, identity, ordinal);
                lane(ordinal)
            }
            Ordinal::Full => {
                self.account[SelfCounter::UnlistedFunction] += 1;
                OVERFLOW_LANE
            }
        }
    }
}
