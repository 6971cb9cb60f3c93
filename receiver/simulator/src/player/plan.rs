//! The plan of a profiler trace: the calls of each of its threads, with times and arguments.
//!
//! Handles are the trace's own numbers, so the agent's output can be compared with the trace. What the trace leaves open is
//! decided as [`trace::fold`] does: a wait for an unnamed event is for the latest record on each stream, and on a stream
//! without records an event is recorded right before the wait.
//!
//! Times, arguments and the order of entries are the trace's. Functions without a probe are not played, nor are driver
//! calls within a runtime call, which libcudart makes itself. All processes are played in one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use probe_abi::{Action, Api, Direction, Library};
use trace::Call;
use trace::{Limits, Trace};

use super::PlayError;
use crate::functions::{by_symbol, is_enqueue};
use crate::invoke::Request;
use crate::model::call::{Effect, StubFunction};
use crate::model::order::Order;

/// Handles of events that the trace does not name, one per stream.
const UNNAMED: u64 = 0x7ead_0000_0000;
/// An event that is never recorded.
const NEVER: u64 = 0x7eae_0000_0000;
/// A call that takes longer than this sleeps instead of using CPU, ns.
const BURN_NS_MAX: u64 = 500_000;

/// A call to make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Planned {
    /// Position among the calls of all threads, in order of entry.
    pub(super) turn: u64,
    /// Time from the beginning of the trace, ns.
    pub(super) at_ns: u64,
    pub(super) request: Request,
    pub(super) order: Order,
}

/// The calls of a thread in order.
#[derive(Debug, Default)]
pub(super) struct PlannedThread {
    pub(super) tid: u32,
    pub(super) calls: Vec<Planned>,
}

/// A trace to play.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) threads: Vec<PlannedThread>,
    /// Number of calls that are not played because the runtime makes them.
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
            true => {
                Err(PlayError::Trace { name, problem: "it contains no call of a probed function".into() })
            }
            false => Ok(Plan::of(&trace.calls)),
        }
    }

    /// Returns the plan for calls in order of their entries.
    pub(super) fn of(calls: &[Call]) -> Plan {
        let began_ns = calls.first().map_or(0, |c| c.entry_ns);
        let mut planner = Planner { streams: streams_of(calls), ..Planner::default() };
        for call in calls {
            planner.take(call, call.entry_ns - began_ns);
        }
        let threads = planner.threads.into_iter().map(|((_, tid), calls)| PlannedThread { tid, calls });
        Plan { threads: threads.collect(), left_out: planner.left_out }
    }

    /// Returns the libraries that it calls, the lowest first; the runtime requires the driver.
    pub(super) fn libraries(&self) -> Vec<Library> {
        let calls = self.threads.iter().flat_map(|t| &t.calls);
        let mut libraries: BTreeSet<Library> = calls.map(|c| c.request.function.probe.library).collect();
        if libraries.contains(&Library::Cudart) {
            libraries.insert(Library::Cuda);
        }
        libraries.into_iter().collect()
    }
}

/// The state of a stream during planning.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Whether the trace records an event on it.
    records: bool,
    work: u64,
    closed: u64,
    /// The latest recorded event, and the work it covers.
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
    /// Stream and work that each named event covers.
    events: BTreeMap<u64, (u64, u64)>,
    /// Time until which each thread is within a runtime call.
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

    /// Counts the work that is enqueued and waited for.
    fn follow(&mut self, call: &Call, function: &StubFunction) {
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
        let event = call.handle.unwrap_or(UNNAMED + call.stream);
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

    /// Returns the events that a wait for an unnamed event is for; adds records where the trace has none.
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
                    targets.push(UNNAMED + handle);
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
            let request = Request { stream, handle: UNNAMED + stream, ..Request::new(index, function) };
            self.push(call, Planned { request, order: Order::NONE, ..*wait });
        }
    }

    fn close(&mut self, stream: u64, work: u64) {
        let stream = self.streams.entry(stream).or_default();
        stream.closed = stream.closed.max(work);
    }
}

/// Returns the arguments of a call; `None` for an unknown row.
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

/// Returns an order for the recorded duration: sync calls and long calls sleep, others use CPU. Device time is 0.
fn order(call: &Call, function: &StubFunction) -> Order {
    let waits =
        matches!(Effect::of(function.probe), Effect::StreamSync | Effect::EventSync | Effect::DeviceSync)
            || function.probe.wiring.blocking;
    match waits || call.duration_ns > BURN_NS_MAX {
        true => Order { gpu_ns: 0, block_ns: call.duration_ns, ..Order::NONE },
        false => Order { gpu_ns: 0, host_ns: call.duration_ns, ..Order::NONE },
    }
}

/// Largest number of threads in a block.
const BLOCK_MAX: u64 = 1_024;

/// Returns a grid and a block of exactly this many threads, as far as two sides can express.
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
    fn grid_has_exactly_the_threads_of_the_trace() {
        for threads in [0, 1, 7, 256, 1_000_003, 255_255, 5_000_000_000, 1 << 40] {
            let (grid, block) = shape(threads);
            let product: u64 = grid.iter().chain(&block).map(|side| u64::from(*side)).product();
            assert_eq!(product, threads);
        }
    }

    #[test]
    fn unnamed_wait_is_for_the_latest_record_of_each_stream() {
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
                ("hipEventRecord", 9, UNNAMED + 9),
                ("hipEventSynchronize", 0, UNNAMED),
                ("hipEventSynchronize", 0, UNNAMED + 9),
                ("hipEventSynchronize", 0, NEVER),
            ]
        );
    }

    #[test]
    fn driver_calls_within_runtime_calls_are_not_played() {
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
    fn sync_calls_sleep_and_launches_use_cpu_as_recorded() {
        let plan =
            Plan::of(&[call("cudaLaunchKernel", 0, 0, None), call("cudaStreamSynchronize", 20, 0, None)]);
        let orders: Vec<_> =
            plan.threads[0].calls.iter().map(|c| (c.order.host_ns, c.order.block_ns)).collect();
        assert_eq!(orders, [(10, Order::BY_MODEL), (0, 10)]);
    }
}
