//! The events of a trace: its calls are folded as by the kernel programs, with a tick and totals for every second.

use std::convert::Infallible;

use probe_abi::Action;

use super::{Call, Trace};
use crate::fold::{Bounds, Folder};
use event::{Event, EventSource};

/// Events after which a read returns; the last call may add a few more.
const BATCH: usize = 1024;
/// Time between ticks.
const TICK_NS: u64 = 1_000_000_000;

/// A source of the events of a trace. Totals and the account follow each tick and the end.
#[derive(Debug)]
pub struct TraceEvents {
    trace: Trace,
    folder: Folder,
    next: usize,
    tick_ns: u64,
    begun: bool,
    finished: bool,
}

impl TraceEvents {
    pub(super) fn new(trace: Trace) -> TraceEvents {
        let mut folder = Folder::new(Bounds::default());
        let records = |c: &&Call| c.probe().is_some_and(|p| p.action == Action::EventRecord);
        for call in trace.calls.iter().filter(records) {
            folder.expect_records(call.stream_key());
        }
        trace.functions.iter().for_each(|(identity, name)| folder.name_function(*identity, name));
        let tick_ns = trace.calls.first().map_or(0, |c| c.entry_ns.saturating_add(TICK_NS));
        TraceEvents { trace, folder, next: 0, tick_ns, begun: false, finished: false }
    }

    /// Returns the trace.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    fn begin(&self, into: &mut Vec<Event>) {
        into.extend(self.trace.clock.map(Event::Clock));
        into.extend(self.trace.processes.iter().map(|p| Event::Process(Box::new(p.clone()))));
    }

    /// Appends one tick for the last whole second before a call.
    fn tick_before(&mut self, entry_ns: u64, into: &mut Vec<Event>) {
        if entry_ns < self.tick_ns {
            return;
        }
        let at_ns = self.tick_ns + (entry_ns - self.tick_ns) / TICK_NS * TICK_NS;
        self.folder.advance(at_ns, into);
        self.tick(at_ns, into);
        self.tick_ns = at_ns.saturating_add(TICK_NS);
    }

    /// Gives a graph that is launched the contents of its device rows.
    fn add_graph(&mut self, call: &Call) {
        if call.probe().is_some_and(|p| p.action == Action::GraphLaunch)
            && let Some(contents) = call.handle.and_then(|handle| self.trace.graphs.get(&handle))
        {
            self.folder.add_graph(call, contents);
        }
    }

    fn tick(&mut self, at_ns: u64, into: &mut Vec<Event>) {
        self.folder.totals(at_ns, into);
        into.push(Event::Tick { at_ns });
    }

    fn end(&mut self, into: &mut Vec<Event>) {
        let at_ns = self.folder.finish(into);
        into.push(Event::Tick { at_ns });
        self.finished = true;
    }
}

impl EventSource for TraceEvents {
    type Error = Infallible;

    fn read(&mut self, into: &mut Vec<Event>) -> Result<bool, Infallible> {
        if self.finished {
            return Ok(false);
        }
        let enough = into.len() + BATCH;
        if !std::mem::replace(&mut self.begun, true) {
            self.begin(into);
        }
        while into.len() < enough {
            let Some(call) = self.trace.calls.get(self.next).copied() else {
                self.end(into);
                break;
            };
            self.tick_before(call.entry_ns, into);
            self.add_graph(&call);
            self.folder.push(&call, into);
            self.next += 1;
        }
        Ok(true)
    }
}
