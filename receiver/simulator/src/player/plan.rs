//! A profiler trace made ready to be played: for each of its threads, which calls when, with which arguments.
//!
//! The one idea: handles are the trace's own numbers, which the stubs take as they are, so that what a probe sees
//! can be compared with the trace number by number. What the trace leaves open is settled here, once, as
//! [`trace::fold`] settles it: a wait for an event it does not name is for the latest record on each stream, and
//! where a stream shows none, an event is recorded right before the wait.
//!
//! Times, arguments and the order in which calls are entered are the trace's. Not played: functions that nobody probes, and driver calls that the
//! trace shows within a runtime call, since libcudart makes those itself. All processes play in one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use probe_abi::{Action, Api, Direction, Library};
use trace::Call;
use trace::{Limits, Trace};

use super::PlayError;
use crate::functions::{by_symbol, is_enqueue};
use crate::invoke::Request;
use crate::model::call::{Effect, Function};
use crate::model::order::Order;

/// Handles of the events that the trace does not name, one per stream.
const UNTOLD: u64 = 0x7ead_0000_0000;
/// An event that nobody ever records.
const NEVER: u64 = 0x7eae_0000_0000;
/// A call that is no wait and takes longer than this sleeps: nobody burns a CPU for so long in a driver.
const BURN_NS_MAX: u64 = 500_000;

/// A call to make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Planned {
    /// Its place among the calls of all threads, in order of entry.
    pub(super) turn: u64,
    /// When, from the beginning of the trace, ns.
    pub(super) at_ns: u64,
    pub(super) request: Request,
    pub(super) order: Order,
}

/// A thread's calls in order.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) tid: u32,
    pub(super) calls: Vec<Planned>,
}

/// A trace to play.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) threads: Vec<Line>,
    /// Calls of the trace that are not played since the runtime makes them itself.
    pub(super) left_out: u64,
}

impl Plan {
    /// Reads a trace, plain or gzip.
    pub(super) fn read(path: &Path) -> Result<Plan, PlayError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(PlayError::file(format!("open trace {name}")))?;
        let trace = Trace::read(file, &Limits::default())
            .map_err(|e| PlayError::Trace { name: name.clone(), problem: e.to_string() })?;
        match trace.calls.is_empty() {
            true => Err(PlayError::Trace { name, problem: "no call of a probed function is in it".into() }),
            false => Ok(Plan::of(&trace.calls)),
        }
    }

    /// The plan for calls in order of their entries.
    pub(super) fn of(calls: &[Call]) -> Plan {
        let began_ns = calls.first().map_or(0, |c| c.entry_ns);
        let mut planner = Planner { streams: streams_of(calls), ..Planner::default() };
        for call in calls {
            planner.take(call, call.entry_ns - began_ns);
        }
        let threads = planner.threads.into_iter().map(|((_, tid), calls)| Line { tid, calls });
        Plan { threads: threads.collect(), left_out: planner.left_out }
    }

    /// The libraries it calls, the lowest first; the runtime needs the driver.
    pub(super) fn libraries(&self) -> Vec<Library> {
        let calls = self.threads.iter().flat_map(|t| &t.calls);
        let mut libraries: BTreeSet<Library> = calls.map(|c| c.request.function.probe.library).collect();
        if libraries.contains(&Library::Cudart) {
            libraries.insert(Library::Cuda);
        }
        libraries.into_iter().collect()
    }
}

/// What is known of a stream while the plan is made.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// An event is recorded on it somewhere in the trace.
    records: bool,
    work: u64,
    closed: u64,
    /// The latest recorded event, and how much it covers.
    latest: Option<(u64, u64)>,
}

fn streams_of(calls: &[Call]) -> BTreeMap<u64, Stream> {
    let mut streams: BTreeMap<u64, Stream> = BTreeMap::new();
    for call in calls {
        let records = call.probe().is_some_and(|p| p.action == Action::EventRecord);
        streams.entry(call.stream).or_default().records |= records;
    }
    streams
}

#[derive(Debug, Default)]
struct Planner {
    threads: BTreeMap<(u32, u32), Vec<Planned>>,
    streams: BTreeMap<u64, Stream>,
    /// What each told event covers: stream and work.
    events: BTreeMap<u64, (u64, u64)>,
    /// Until when each thread is within a runtime call.
    within: BTreeMap<(u32, u32), u64>,
    left_out: u64,
    turns: u64,
}

impl Planner {
    fn take(&mut self, call: &Call, at_ns: u64) {
        let Some(request) = request(call) else { return };
        let probe = request.function.probe;
        let thread = (call.process.pid, call.tid);
        let within = self.within.entry(thread).or_default();
        if probe.api == Api::Driver && call.exit_ns() <= *within {
            self.left_out += 1;
            return;
        }
        if probe.api == Api::Runtime {
            *within = (*within).max(call.exit_ns());
        }
        let planned = Planned { turn: 0, at_ns, request, order: order(call, &request.function) };
        match probe.action {
            Action::EventRecord => self.record(call, planned),
            Action::EventSync => self.wait(call, planned),
            _ => {
                self.follow(call, &request.function);
                self.push(call, planned);
            }
        }
    }

    fn push(&mut self, call: &Call, planned: Planned) {
        let planned = Planned { turn: self.turns, ..planned };
        self.turns += 1;
        self.threads.entry((call.process.pid, call.tid)).or_default().push(planned);
    }

    /// Keeps count of what is enqueued and closed.
    fn follow(&mut self, call: &Call, function: &Function) {
        let effect = Effect::of(function.probe);
        let stream = self.streams.entry(call.stream).or_default();
        if is_enqueue(effect) {
            stream.work += 1;
        }
        let reads_back = function.probe.wiring.blocking && call.direction == Direction::DeviceToHost;
        match effect {
            Effect::StreamSync => stream.closed = stream.work,
            Effect::Copy if reads_back => stream.closed = stream.work,
            Effect::DeviceSync => self.streams.values_mut().for_each(|s| s.closed = s.work),
            _ => {}
        }
    }

    fn record(&mut self, call: &Call, mut planned: Planned) {
        let stream = self.streams.entry(call.stream).or_default();
        let event = call.handle.unwrap_or(UNTOLD + call.stream);
        stream.latest = Some((event, stream.work));
        self.events.insert(event, (call.stream, stream.work));
        planned.request.handle = event;
        self.push(call, planned);
    }

    fn wait(&mut self, call: &Call, mut planned: Planned) {
        if let Some(event) = call.handle {
            planned.request.handle = event;
            if let Some((stream, work)) = self.events.get(&event).copied() {
                self.close(stream, work);
            }
            return self.push(call, planned);
        }
        let targets = self.targets(call, &planned);
        planned.request.handle = NEVER;
        let (first, others) = targets.split_first().unwrap_or((&NEVER, &[]));
        planned.request.handle = *first;
        self.push(call, planned);
        for event in others {
            let request = Request { handle: *event, ..planned.request };
            self.push(call, Planned { request, order: Order::NONE, ..planned });
        }
    }

    /// The events that a wait for an untold event ends, recorded first where the trace shows no record.
    fn targets(&mut self, call: &Call, wait: &Planned) -> Vec<u64> {
        let mut targets = Vec::new();
        let open: Vec<_> =
            self.streams.iter().filter(|(_, s)| s.work > s.closed).map(|(h, s)| (*h, *s)).collect();
        for (handle, stream) in open {
            match stream.latest {
                Some((event, work)) if work > stream.closed => {
                    targets.push(event);
                    self.close(handle, work);
                }
                None if !stream.records => {
                    targets.push(UNTOLD + handle);
                    self.insert_record(call, wait, handle);
                    self.close(handle, stream.work);
                }
                _ => {}
            }
        }
        targets
    }

    fn insert_record(&mut self, call: &Call, wait: &Planned, stream: u64) {
        let symbol = match wait.request.function.probe.library {
            Library::Amdhip => "hipEventRecord",
            Library::Cuda => "cuEventRecord",
            Library::Cudart | Library::Nccl => "cudaEventRecord",
        };
        if let Some((index, function)) = by_symbol(symbol) {
            let request = Request { stream, handle: UNTOLD + stream, ..Request::new(index, function) };
            self.push(call, Planned { request, order: Order::NONE, ..*wait });
        }
    }

    fn close(&mut self, stream: u64, work: u64) {
        let stream = self.streams.entry(stream).or_default();
        stream.closed = stream.closed.max(work);
    }
}

/// The call as a request; `None` for a row that this build does not know.
fn request(call: &Call) -> Option<Request> {
    let probe = call.probe()?;
    let symbol = if call.is_twin { probe.twin? } else { probe.symbol };
    let (index, function) = by_symbol(symbol)?;
    let (grid, block) = shape(call.threads);
    Some(Request {
        kernel: call.identity,
        stream: call.stream,
        handle: call.handle.unwrap_or(0),
        bytes: [call.bytes, 1],
        kind: call.direction as u64,
        grid,
        block,
        ..Request::new(index, function)
    })
}

/// Takes as long as recorded: a wait and whatever is long sleep, the rest is work. Nothing runs on the device.
fn order(call: &Call, function: &Function) -> Order {
    let waits =
        matches!(Effect::of(function.probe), Effect::StreamSync | Effect::EventSync | Effect::DeviceSync)
            || function.probe.wiring.blocking;
    match waits || call.duration_ns > BURN_NS_MAX {
        true => Order { gpu_ns: 0, block_ns: call.duration_ns, ..Order::NONE },
        false => Order { gpu_ns: 0, host_ns: call.duration_ns, ..Order::NONE },
    }
}

/// Threads of a block, at most.
const BLOCK_MAX: u64 = 1_024;

/// A grid and a block of exactly so many threads, as far as two sides hold them.
fn shape(threads: u64) -> ([u32; 3], [u32; 3]) {
    if threads == 0 {
        return ([0, 1, 1], [1; 3]);
    }
    let block = (1..=BLOCK_MAX.min(threads)).rev().find(|b| threads.is_multiple_of(*b)).unwrap_or(1);
    let blocks = threads / block;
    match u32::try_from(blocks) {
        Ok(x) => ([x, 1, 1], [block as u32, 1, 1]),
        Err(_) => {
            let rows = (1..=u64::from(u16::MAX)).rev().find(|r| blocks.is_multiple_of(*r)).unwrap_or(1);
            let x = (blocks / rows).min(u64::from(u32::MAX)) as u32;
            ([x, rows as u32, 1], [block as u32, 1, 1])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(symbol: &str, entry_ns: u64, stream: u64, handle: Option<u64>) -> Call {
        let row = by_symbol(symbol).unwrap().1.probe.id;
        Call { tid: 1, row, entry_ns, duration_ns: 10, stream, handle, threads: 7, ..Call::default() }
    }

    fn symbols(plan: &Plan) -> Vec<(&'static str, u64, u64)> {
        let calls = plan.threads.iter().flat_map(|t| &t.calls);
        calls.map(|c| (c.request.function.symbol(), c.request.stream, c.request.handle)).collect()
    }

    #[test]
    fn a_grid_has_exactly_the_threads_of_the_trace() {
        for threads in [0, 1, 7, 256, 1_000_003, 255_255, 5_000_000_000, 1 << 40] {
            let (grid, block) = shape(threads);
            let product: u64 = grid.iter().chain(&block).map(|side| u64::from(*side)).product();
            assert_eq!(product, threads);
        }
    }

    #[test]
    fn an_untold_wait_is_for_the_latest_record_of_each_stream() {
        let plan = Plan::of(&[
            call("hipLaunchKernel", 0, 0, None),
            call("hipEventRecord", 20, 0, None),
            call("hipLaunchKernel", 40, 0, None),
            call("hipLaunchKernel", 60, 9, None),
            call("hipEventSynchronize", 80, 0, None),
            call("hipEventSynchronize", 100, 0, None),
        ]);
        assert_eq!(
            symbols(&plan)[4..],
            [
                ("hipEventRecord", 9, UNTOLD + 9),
                ("hipEventSynchronize", 0, UNTOLD),
                ("hipEventSynchronize", 0, UNTOLD + 9),
                ("hipEventSynchronize", 0, NEVER),
            ]
        );
    }

    #[test]
    fn driver_calls_within_a_runtime_call_are_left_to_the_runtime() {
        let plan = Plan::of(&[
            Call { duration_ns: 50, ..call("cudaLaunchKernel", 0, 0, None) },
            call("cuLaunchKernel", 10, 0, None),
            call("cuLaunchKernel", 60, 0, None),
            call("cudaEventSynchronize", 80, 0, Some(5)),
        ]);
        let expected = [("cudaLaunchKernel", 0, 0), ("cuLaunchKernel", 0, 0), ("cudaEventSynchronize", 0, 5)];
        assert_eq!((symbols(&plan), plan.left_out), (expected.to_vec(), 1));
        assert_eq!(plan.libraries(), [Library::Cuda, Library::Cudart]);
    }

    #[test]
    fn waits_sleep_and_launches_work_as_long_as_recorded() {
        let plan =
            Plan::of(&[call("cudaLaunchKernel", 0, 0, None), call("cudaStreamSynchronize", 20, 0, None)]);
        let orders: Vec<_> =
            plan.threads[0].calls.iter().map(|c| (c.order.host_ns, c.order.block_ns)).collect();
        assert_eq!(orders, [(10, Order::BY_MODEL), (0, 10)]);
    }
}
