//! Calls from the rows of a trace: host and device rows of a call are joined by their correlation number.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use probe_abi::fold::mix;
use probe_abi::{Action, Direction, DirectionSource, Grid, Library, Probe};

use super::row::{Args, Category, Row, fnv1a, named_direction};
use super::streams::Streams;
use super::symbol::probe_of;
use super::{Annotation, Limits, Stats, Trace, TraceError, TracedGraph, TracedKernel};
use crate::call::Call;
use event::{ClockOffsets, ProcessId, ProcessInfo};

/// Without a base time, times from this many ns on (the year 2001) are Unix times.
const UNIX_FROM_NS: u64 = 1_000_000_000_000_000_000;
/// Maximum number of process names.
const NAMES: usize = 4096;
/// Maximum bytes of a name.
const NAME: usize = 1024;
/// Maximum number of names of kernels; a kernel beyond has no name.
const KERNEL_NAMES: usize = 65_536;

/// A call from its host row.
pub(super) struct Draft {
    pub(super) call: Call,
    pub(super) probe: &'static Probe,
    correlation: Option<u64>,
    device: Option<u32>,
    stream: Option<u32>,
    direction: Option<Direction>,
    bytes: Option<u64>,
}

/// The device rows of one call.
#[derive(Clone)]
struct Work {
    device: Option<u32>,
    stream: Option<u32>,
    threads: Option<u64>,
    bytes: Option<u64>,
    direction: Option<Direction>,
    /// Hash of the name of the first kernel.
    name: u64,
    /// Sum of hashes over all kernels, which identifies a graph.
    content: u64,
    rows: u64,
    /// True if the first row is a kernel.
    is_kernel: bool,
    /// Kernels after the first row: only a graph launch has some.
    further: Vec<TracedKernel>,
    /// Bytes of all copies and fills.
    all_bytes: u64,
}

impl Work {
    /// Returns the kernels of all rows.
    fn kernels(&self) -> Vec<TracedKernel> {
        let first = self.is_kernel.then_some(TracedKernel { function: self.name, threads: self.threads });
        first.into_iter().chain(self.further.iter().copied()).collect()
    }
}

/// The `cuda_sync` row of one call.
#[derive(Clone, Copy)]
struct Wait {
    device: Option<u32>,
    stream: Option<u32>,
    record: Option<u64>,
}

/// A collector of the rows of a trace, in any order.
pub(super) struct Collector {
    limits: Limits,
    base_ns: Option<i64>,
    drafts: Vec<Draft>,
    works: BTreeMap<u64, Work>,
    waits: BTreeMap<u64, Wait>,
    /// Streams of awaited events, by the correlation of the call that recorded them.
    records: BTreeMap<u64, Wait>,
    names: BTreeMap<u32, String>,
    functions: BTreeMap<u64, String>,
    further: usize,
    annotations: Vec<Annotation>,
    stats: Stats,
}

impl Collector {
    pub(super) fn new(limits: Limits) -> Collector {
        Collector {
            limits,
            base_ns: None,
            drafts: Vec::new(),
            works: BTreeMap::new(),
            waits: BTreeMap::new(),
            records: BTreeMap::new(),
            names: BTreeMap::new(),
            functions: BTreeMap::new(),
            further: 0,
            annotations: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// Sets the Unix time, ns, that the times of the trace are relative to.
    pub(super) fn set_base(&mut self, base_ns: Option<i64>) {
        self.base_ns = base_ns;
    }

    pub(super) fn take(&mut self, row: &Row) -> Result<(), TraceError> {
        self.stats.entries += 1;
        self.count_category(&row.category_name);
        match (row.phase, row.category) {
            (b'M', _) => self.take_name(row),
            (b'X', Category::Call) => return self.take_call(row),
            (b'X', Category::Kernel | Category::Copy | Category::Fill) => return self.take_work(row),
            (b'X', Category::Sync) => return self.take_wait(row),
            (b'X', Category::Annotation) => return self.take_annotation(row),
            _ => {}
        }
        Ok(())
    }

    fn count_category(&mut self, name: &[u8]) {
        let name = String::from_utf8_lossy(name);
        let categories = &mut self.stats.categories;
        let has_room = categories.len() < Stats::CATEGORIES || categories.contains_key(&*name);
        let name = if has_room { &*name } else { "" };
        match categories.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(categories.insert(name.to_owned(), 1)),
        }
    }

    fn take_name(&mut self, row: &Row) {
        if let (b"process_name", Some(pid)) = (row.name.as_slice(), row.pid)
            && self.names.len() < NAMES
        {
            self.names.insert(pid, text(&row.args.label));
        }
    }

    fn take_call(&mut self, row: &Row) -> Result<(), TraceError> {
        let (Some(pid), Some(tid), Some(entry_ns)) = (row.pid, row.tid, begin(row)) else {
            self.stats.malformed += 1;
            return Ok(());
        };
        let name = text(&row.name);
        let Some((probe, is_twin)) = probe_of(&name) else {
            self.ignore(name);
            return Ok(());
        };
        *self.stats.calls.entry(probe.symbol).or_default() += 1;
        let args = &row.args;
        let call = Call {
            process: ProcessId { pid, start_ns: 0 },
            tid,
            row: probe.id,
            is_twin,
            entry_ns,
            duration_ns: row.duration_ns as u64,
            handle: args.address,
            threads: threads(probe, args).unwrap_or(0),
            identity: args.kernel.unwrap_or(0),
            ..Call::default()
        };
        let (device, stream, direction) = (args.device, args.stream, args.direction);
        let bytes = args.bytes;
        let draft = Draft { call, probe, correlation: args.correlation, device, stream, direction, bytes };
        push_bounded(&mut self.drafts, draft, self.limits.calls, "calls")
    }

    fn ignore(&mut self, name: String) {
        let has_room = self.stats.ignored.len() < Stats::IGNORED || self.stats.ignored.contains_key(&name);
        let name = if has_room { name } else { String::new() };
        *self.stats.ignored.entry(name).or_default() += 1;
    }

    fn take_work(&mut self, row: &Row) -> Result<(), TraceError> {
        self.stats.device_rows += 1;
        let Some(correlation) = row.args.correlation else {
            self.stats.orphan_rows += 1;
            return Ok(());
        };
        let name = fnv1a(&row.name);
        let threads = product(row.args.grid, row.args.block);
        if row.category == Category::Kernel {
            self.note_function(name, &row.name);
        }
        let work = Work {
            device: row.args.device,
            stream: row.args.stream,
            threads,
            bytes: row.args.bytes,
            direction: named_direction(&row.name).or(row.args.direction),
            name,
            content: 0,
            rows: 0,
            is_kernel: row.category == Category::Kernel,
            further: Vec::new(),
            all_bytes: 0,
        };
        if self.works.len() >= self.limits.works && !self.works.contains_key(&correlation) {
            return Err(TraceError::TooMany { what: "calls with work", limit: self.limits.works });
        }
        let known = self.works.entry(correlation).or_insert(work);
        known.content = known.content.wrapping_add(mix(name.wrapping_add(threads.unwrap_or(0))));
        known.all_bytes = known.all_bytes.saturating_add(row.args.bytes.unwrap_or(0));
        known.rows += 1;
        if known.rows > 1 && row.category == Category::Kernel {
            self.further += 1;
            push_bounded(
                &mut known.further,
                TracedKernel { function: name, threads },
                self.limits.works,
                "kernels",
            )?;
        }
        match self.further > self.limits.works {
            true => Err(TraceError::TooMany { what: "kernels in graphs", limit: self.limits.works }),
            false => Ok(()),
        }
    }

    fn note_function(&mut self, hash: u64, name: &[u8]) {
        if self.functions.len() < KERNEL_NAMES {
            self.functions.entry(hash).or_insert_with(|| text(name));
        }
    }

    fn take_wait(&mut self, row: &Row) -> Result<(), TraceError> {
        let args = &row.args;
        let Some(correlation) = args.correlation else { return Ok(()) };
        if self.waits.len() >= self.limits.works {
            return Err(TraceError::TooMany { what: "synchronisations", limit: self.limits.works });
        }
        let wait = Wait { device: args.device, stream: args.stream, record: args.awaited_record };
        self.waits.insert(correlation, wait);
        if let Some(record) = args.awaited_record {
            self.records.insert(record, Wait { stream: args.awaited_stream, ..wait });
        }
        Ok(())
    }

    fn take_annotation(&mut self, row: &Row) -> Result<(), TraceError> {
        let (Some(pid), Some(tid), Some(start_ns)) = (row.pid, row.tid, begin(row)) else {
            self.stats.malformed += 1;
            return Ok(());
        };
        let end_ns = start_ns.saturating_add(row.duration_ns as u64);
        let annotation = Annotation { name: text(&row.name), pid, tid, start_ns, end_ns };
        push_bounded(&mut self.annotations, annotation, self.limits.annotations, "annotations")
    }

    pub(super) fn finish(mut self) -> Trace {
        self.drafts.sort_by_key(|d| (d.call.entry_ns, Reverse(d.call.duration_ns)));
        self.annotations.sort_by_key(|a| a.start_ns);
        let drafts = std::mem::take(&mut self.drafts);
        let known: Vec<_> = drafts.iter().map(|d| self.known_stream(d)).collect();
        let mut streams = Streams::new(&drafts, &known);
        let mut calls = Vec::with_capacity(drafts.len());
        for (draft, known) in drafts.iter().zip(known) {
            calls.push(self.complete(draft, known, &mut streams));
        }
        self.count_orphans(&drafts);
        Trace {
            processes: self.processes(&calls),
            clock: self.clock(&calls),
            graphs: self.graphs(&calls, &drafts),
            functions: self.functions,
            calls,
            annotations: self.annotations,
            stats: self.stats,
        }
    }

    /// Returns device and stream of a call from any of its rows.
    fn known_stream(&self, draft: &Draft) -> Option<(u32, u32)> {
        let correlation = draft.correlation?;
        let work = self.works.get(&correlation).map(|w| (w.device, w.stream));
        let wait = self.waits.get(&correlation).map(|w| (w.device, w.stream));
        let record = self.records.get(&correlation).map(|w| (w.device, w.stream));
        let all = [Some((draft.device, draft.stream)), work, wait, record];
        all.into_iter().flatten().find_map(|(device, stream)| Some((device.unwrap_or(0), stream?)))
    }

    fn complete(&mut self, draft: &Draft, known: Option<(u32, u32)>, streams: &mut Streams) -> Call {
        let mut call = draft.call;
        call.stream = match streams.resolve(draft, known) {
            Some(stream) => stream,
            None => {
                self.stats.inferred_streams += u64::from(needs_stream(draft.probe));
                streams.infer(&call)
            }
        };
        let work = draft.correlation.and_then(|c| self.works.get(&c));
        self.stats.unmatched_calls += u64::from(draft.probe.cookie().enqueues() && work.is_none());
        call.bytes = draft.bytes.or(work.and_then(|w| w.bytes)).unwrap_or(0);
        call.direction = direction(draft, work);
        if let Some(work) = work {
            fill_identity(&mut call, draft.probe, work);
        }
        if let Some(event) = self.event(draft) {
            call.handle = Some(event);
        } else if draft.probe.action == Action::EventSync {
            self.stats.inferred_events += 1;
        }
        call
    }

    /// Returns the contents of the launched graphs by the handle that [`fill_identity`] gives their launches.
    fn graphs(&self, calls: &[Call], drafts: &[Draft]) -> BTreeMap<u64, TracedGraph> {
        let launches = calls.iter().zip(drafts).filter(|(_, d)| d.probe.action == Action::GraphLaunch);
        let mut graphs = BTreeMap::new();
        for (call, draft) in launches {
            let work = draft.correlation.and_then(|c| self.works.get(&c));
            if let (Some(handle), Some(work)) = (call.handle, work) {
                let contents = || TracedGraph { kernels: work.kernels(), bytes: work.all_bytes };
                graphs.entry(handle).or_insert_with(contents);
            }
        }
        graphs
    }

    /// Returns the event of a call, which is the correlation of the call that recorded it.
    fn event(&self, draft: &Draft) -> Option<u64> {
        let correlation = draft.correlation?;
        match draft.probe.action {
            Action::EventRecord => self.records.contains_key(&correlation).then_some(correlation),
            Action::EventSync => self.waits.get(&correlation)?.record,
            _ => None,
        }
    }

    fn count_orphans(&mut self, drafts: &[Draft]) {
        let called: BTreeSet<_> = drafts.iter().filter_map(|d| d.correlation).collect();
        let orphans = self.works.iter().filter(|(correlation, _)| !called.contains(correlation));
        self.stats.orphan_rows += orphans.map(|(_, work)| work.rows).sum::<u64>();
    }

    fn clock(&self, calls: &[Call]) -> Option<ClockOffsets> {
        let at_ns = calls.first()?.entry_ns;
        let offsets = |to_unix_ns| ClockOffsets { at_ns, to_unix_ns, to_boottime_ns: 0 };
        let from_base = self.base_ns.map(offsets);
        from_base.or_else(|| (at_ns >= UNIX_FROM_NS).then(|| offsets(0)))
    }

    fn processes(&self, calls: &[Call]) -> Vec<ProcessInfo> {
        let mut seen: BTreeMap<ProcessId, (u64, BTreeSet<&'static str>)> = BTreeMap::new();
        for call in calls {
            let process = seen.entry(call.process).or_insert((call.entry_ns, BTreeSet::new()));
            process.1.extend(call.probe().map(|p| library_name(p.library)));
        }
        let describe = |(process, (at_ns, libraries)): (ProcessId, (u64, BTreeSet<&str>))| ProcessInfo {
            process,
            at_ns,
            executable: self.names.get(&process.pid).cloned().unwrap_or_default(),
            observed: libraries.into_iter().map(String::from).collect(),
            gaps: self.gaps(),
            since_unix_ns: 0,
            ..ProcessInfo::default()
        };
        seen.into_iter().map(describe).collect()
    }

    /// Describes the inferred values of the trace.
    fn gaps(&self) -> Vec<String> {
        let streams = self.stats.inferred_streams;
        let events = self.stats.inferred_events;
        let sentences = [
            (
                streams,
                format!(
                    "the trace has no stream for {streams} calls: inferred from the last stream of the thread"
                ),
            ),
            (events, format!("the trace has no event for {events} waits: inferred from the latest records")),
        ];
        sentences.into_iter().filter(|(count, _)| *count > 0).map(|(_, sentence)| sentence).collect()
    }
}

fn push_bounded<T>(into: &mut Vec<T>, item: T, limit: usize, what: &'static str) -> Result<(), TraceError> {
    if into.len() >= limit {
        return Err(TraceError::TooMany { what, limit });
    }
    into.push(item);
    Ok(())
}

fn begin(row: &Row) -> Option<u64> {
    row.begin_ns.and_then(|ns| u64::try_from(ns).ok())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(NAME)]).into_owned()
}

/// Returns true for calls that need a stream.
fn needs_stream(probe: &Probe) -> bool {
    probe.cookie().enqueues()
        || matches!(
            probe.action,
            Action::StreamSync
                | Action::StreamDestroy
                | Action::EventRecord
                | Action::CaptureBegin
                | Action::CaptureEnd
        )
}

/// Returns blocks times threads per block. The grid of HIP's ext launches is in threads.
fn threads(probe: &Probe, args: &Args) -> Option<u64> {
    match probe.wiring.grid {
        Grid::None => None,
        Grid::Threads => product(args.grid, Some([1; 3])),
        Grid::Dim3 | Grid::Words | Grid::Config => product(args.grid, args.block),
    }
}

fn product(grid: Option<[u64; 3]>, block: Option<[u64; 3]>) -> Option<u64> {
    Some(grid?.into_iter().chain(block?).fold(1u64, u64::saturating_mul))
}

/// Returns the direction of the function, else of the argument of the call, else of the device row.
fn direction(draft: &Draft, work: Option<&Work>) -> Direction {
    match draft.probe.wiring.direction {
        DirectionSource::Fixed(direction) if direction != Direction::Unknown => direction,
        _ => draft.direction.or(work.and_then(|w| w.direction)).unwrap_or(Direction::Unknown),
    }
}

fn fill_identity(call: &mut Call, probe: &Probe, work: &Work) {
    match probe.action {
        Action::Launch => {
            call.identity = work.name;
            if call.threads == 0 {
                call.threads = work.threads.unwrap_or(0);
            }
        }
        Action::GraphLaunch => {
            call.identity = work.content;
            call.handle = Some(work.content);
        }
        _ => {}
    }
}

fn library_name(library: Library) -> &'static str {
    match library {
        Library::Amdhip => "libamdhip64.so",
        Library::Cuda => "libcuda.so",
        Library::Cudart => "libcudart.so",
        Library::Nccl => "libnccl.so",
    }
}

#[cfg(test)]
mod tests {
    use probe_abi::{ArgPos, PROBES};

    use super::*;

    #[test]
    fn rows_that_need_a_stream_have_one() {
        for probe in PROBES.iter().filter(|p| needs_stream(p)) {
            let has_default = matches!(probe.action, Action::Copy | Action::Fill);
            assert!(probe.wiring.stream != ArgPos::NONE || has_default, "{}", probe.symbol);
        }
    }
}
