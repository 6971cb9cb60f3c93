//! A running process: work is added with the truth about it, and events are those that the kernel would send.
//!
//! Times are random and independent of the phase, with slow steps among them, so that the evaluation reveals a classifier
//! that depends on time.

use std::collections::BTreeMap;

use event::{Event, GpuFunction, ProcessId, StepRecord};
use probe_abi::PROBES;
use probe_abi::fold::Counter;
use probe_abi::function::{Signature, lane, one, word};
use steps::Phase;

use crate::names::Role;
use crate::testing::Rng;
use crate::work::{Function, Launches, Work};

const US: u64 = 1_000;

/// The phase of a step that is scored.
pub type Truth = Option<Phase>;

/// A segment of work, with the threads that enqueued it and wait for it.
#[derive(Clone, Debug)]
pub struct Segment {
    pub stream: u64,
    pub work: Work,
    pub truth: Truth,
    pub sync_call: &'static str,
    pub wait_us: u64,
    /// Calls that enqueued in the process since the previous sync call; `None` for the number of closed ones.
    pub process_enqueued_since_sync: Option<u64>,
}

impl Segment {
    /// Returns work that a sync call waits for.
    pub fn of(work: Work, truth: Truth) -> Segment {
        let sync_call = "cudaEventSynchronize";
        Segment { stream: 0x5000, work, truth, sync_call, wait_us: 1_000, process_enqueued_since_sync: None }
    }
}

/// The events of a process and the truth about them.
#[derive(Clone, Debug)]
pub struct Program {
    process: ProcessId,
    now_ns: u64,
    /// The next sequence number and the last return, by stream.
    streams: BTreeMap<u64, (u64, u64)>,
    pub events: Vec<Event>,
    /// By entry and return of the sync call: a step may end with either.
    truths: BTreeMap<u64, Truth>,
    slow_factor: u64,
    visibility: Visibility,
    /// Ordinals of functions by identity, and their identities by kernel, role and style.
    ordinals: BTreeMap<u64, u32>,
    identities: BTreeMap<(u64, Role, u64), u64>,
    rng: Rng,
}

/// The visibility of graphs and names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Visibility {
    /// Captures are visible.
    Captures,
    /// Only launches are visible: the agent was started after the captures.
    LaunchesAlone,
    /// Captures are visible, and no function has a name.
    NoNames,
    /// Neither captures nor names.
    LaunchesWithoutNames,
}

impl Visibility {
    fn has_captures(self) -> bool {
        matches!(self, Visibility::Captures | Visibility::NoNames)
    }

    /// Returns true if functions have names.
    pub fn has_names(self) -> bool {
        matches!(self, Visibility::Captures | Visibility::LaunchesAlone)
    }
}

/// Counters of a graph launch that are only known with its capture.
const OF_CAPTURES: [Counter; 6] = [
    Counter::GraphsKnown,
    Counter::GraphKernels,
    Counter::GraphThreads,
    Counter::GraphForeign,
    Counter::GraphBytes,
    Counter::GraphCollectives,
];

impl Program {
    /// Returns a process in which one step in a hundred takes `slow_factor` times as long.
    pub fn new(seed: u64, slow_factor: u64, visibility: Visibility) -> Program {
        Program {
            process: ProcessId { pid: 1 + seed as u32, start_ns: 1 },
            now_ns: 1_000_000_000,
            streams: BTreeMap::new(),
            events: Vec::new(),
            truths: BTreeMap::new(),
            slow_factor,
            visibility,
            ordinals: BTreeMap::new(),
            identities: BTreeMap::new(),
            rng: Rng::new(seed ^ 0x71_6d_65),
        }
    }

    /// Returns the truth about the step that ends at this instant; `None` if no step ends there.
    pub fn truth_at(&self, end_ns: u64) -> Option<Truth> {
        self.truths.get(&end_ns).copied()
    }

    /// Returns true if functions have names.
    pub fn has_names(&self) -> bool {
        self.visibility.has_names()
    }

    /// Ends segments by one sync call.
    pub fn close(&mut self, segments: &[Segment]) {
        let Some(first) = segments.first() else { return };
        let enqueues: u64 = segments.iter().map(|s| s.work.of(Counter::Enqueues)).sum();
        let slow = if self.rng.chance(0.01) { self.slow_factor } else { 1 };
        let first_ns = self.now_ns + 30 * US + self.rng.below(200 * US);
        let entry_ns = first_ns + enqueues * (2 * US + self.rng.below(3 * US)) * slow + 1;
        let wait_ns = (first.wait_us * US / 2 + self.rng.below(first.wait_us * US + 1)) * slow;
        for segment in segments {
            let record = self.record(segment, enqueues, [first_ns, entry_ns, wait_ns]);
            self.events.push(Event::Step(record));
        }
        self.now_ns = entry_ns + wait_ns;
        self.truths.insert(entry_ns, first.truth);
        self.truths.insert(self.now_ns, first.truth);
    }

    fn signature(&mut self, work: &Work) -> Signature {
        let mut signature = Signature::default();
        self.count(&work.launched, &mut signature);
        if self.visibility.has_captures() {
            self.count(&work.in_graphs, &mut signature);
        }
        signature
    }

    fn count(&mut self, launches: &Launches, signature: &mut Signature) {
        for (key, (function, times)) in launches {
            let lane = lane(self.ordinal(*key, function));
            let word = &mut signature.0[word(lane)];
            *word = word.wrapping_add(one(lane).wrapping_mul((*times).min(60_000)));
        }
    }

    fn ordinal(&mut self, key: (u64, Role, u64), function: &Function) -> u32 {
        let identity = *self.identities.entry(key).or_insert_with(|| function.identity());
        let next = self.ordinals.len() as u32;
        let ordinal = *self.ordinals.entry(identity).or_insert(next);
        if ordinal == next {
            let symbol = if self.visibility.has_names() { function.name() } else { String::new() };
            let (process, at_ns) = (self.process, self.now_ns);
            self.events.push(Event::Function(Box::new(GpuFunction {
                process,
                at_ns,
                ordinal,
                symbol,
                ..GpuFunction::default()
            })));
        }
        ordinal
    }

    fn record(&mut self, segment: &Segment, enqueues: u64, times: [u64; 3]) -> StepRecord {
        let [first_ns, entry_ns, duration_ns] = times;
        let (sequence, previous_exit_ns) = self.streams.get(&segment.stream).copied().unwrap_or((0, 0));
        self.streams.insert(segment.stream, (sequence + 1, entry_ns + duration_ns));
        let fresh = segment.work.of(Counter::Enqueues);
        let mut record = StepRecord {
            stream: segment.stream,
            sequence,
            previous_exit_ns,
            first_ns,
            enqueued_since_sync: fresh,
            process_enqueued_since_sync: segment.process_enqueued_since_sync.unwrap_or(enqueues),
            first_tid: self.process.pid,
            work: segment.work.counters.0,
            signature: self.signature(&segment.work),
            ..StepRecord::default()
        };
        if !self.visibility.has_captures() {
            OF_CAPTURES.iter().for_each(|counter| record.work[*counter as usize] = 0);
        }
        let header = &mut record.header;
        header.row = PROBES.iter().find(|p| p.symbol == segment.sync_call).expect("a probed function").id;
        (header.pid, header.tid) = (self.process.pid, self.process.pid);
        header.process_start_ns = self.process.start_ns;
        (header.entry_ns, header.duration_ns) = (entry_ns, duration_ns);
        record
    }
}
