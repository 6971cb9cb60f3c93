//! Rows of a trace become calls: what the device's side tells of a call is joined to it by its correlation.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use probe_abi::fold::mix;
use probe_abi::{Action, Direction, DirectionSource, Grid, Library, Probe};

use super::row::{Args, Category, Row, fnv1a, named_direction};
use super::streams::Streams;
use super::symbol::probe_of;
use super::{Annotation, Limits, Stats, Trace, TraceError};
use crate::call::Call;
use event::{ClockOffsets, ProcessId, ProcessInfo};

/// Times at or above this many ns, without a base, count from 1970: it is the year 2001.
const UNIX_FROM_NS: u64 = 1_000_000_000_000_000_000;
/// Processes whose name is kept.
const NAMES: usize = 4096;
/// Bytes of a name that are kept.
const NAME: usize = 1024;

/// A call as the host's side tells it.
pub(super) struct Draft {
    pub(super) call: Call,
    pub(super) probe: &'static Probe,
    correlation: Option<u64>,
    device: Option<u32>,
    stream: Option<u32>,
    direction: Option<Direction>,
    bytes: Option<u64>,
}

/// What the device's side tells of one call.
#[derive(Clone, Copy)]
struct Work {
    device: Option<u32>,
    stream: Option<u32>,
    threads: Option<u64>,
    bytes: Option<u64>,
    direction: Option<Direction>,
    /// Hash of the first kernel's name.
    name: u64,
    /// Sum over all kernels of what they are: tells one graph from another.
    content: u64,
    rows: u64,
}

/// What a `cuda_sync` row tells of one call.
#[derive(Clone, Copy)]
struct Wait {
    device: Option<u32>,
    stream: Option<u32>,
    record: Option<u64>,
}

/// Takes the rows of a trace, in whatever order.
pub(super) struct Collector {
    limits: Limits,
    base_ns: Option<i64>,
    drafts: Vec<Draft>,
    works: BTreeMap<u64, Work>,
    waits: BTreeMap<u64, Wait>,
    /// Streams of awaited events, by the correlation of the call that recorded them.
    records: BTreeMap<u64, Wait>,
    names: BTreeMap<u32, String>,
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
            annotations: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// The trace's times count from this many ns since 1970.
    pub(super) fn set_base(&mut self, base_ns: Option<i64>) {
        self.base_ns = base_ns;
    }

    pub(super) fn take(&mut self, row: &Row) -> Result<(), TraceError> {
        self.stats.entries += 1;
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
        let work = Work {
            device: row.args.device,
            stream: row.args.stream,
            threads,
            bytes: row.args.bytes,
            direction: named_direction(&row.name).or(row.args.direction),
            name,
            content: 0,
            rows: 0,
        };
        if self.works.len() >= self.limits.works && !self.works.contains_key(&correlation) {
            return Err(TraceError::TooMany { what: "calls with work", limit: self.limits.works });
        }
        let known = self.works.entry(correlation).or_insert(work);
        known.content = known.content.wrapping_add(mix(name.wrapping_add(threads.unwrap_or(0))));
        known.rows += 1;
        Ok(())
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
        let told: Vec<_> = drafts.iter().map(|d| self.told_stream(d)).collect();
        let mut streams = Streams::new(&drafts, &told);
        let mut calls = Vec::with_capacity(drafts.len());
        for (draft, told) in drafts.iter().zip(told) {
            calls.push(self.complete(draft, told, &mut streams));
        }
        self.count_orphans(&drafts);
        Trace {
            processes: self.processes(&calls),
            clock: self.clock(&calls),
            calls,
            annotations: self.annotations,
            stats: self.stats,
        }
    }

    /// Device and stream that either side tells of a call.
    fn told_stream(&self, draft: &Draft) -> Option<(u32, u32)> {
        let correlation = draft.correlation?;
        let work = self.works.get(&correlation).map(|w| (w.device, w.stream));
        let wait = self.waits.get(&correlation).map(|w| (w.device, w.stream));
        let record = self.records.get(&correlation).map(|w| (w.device, w.stream));
        let all = [Some((draft.device, draft.stream)), work, wait, record];
        all.into_iter().flatten().find_map(|(device, stream)| Some((device.unwrap_or(0), stream?)))
    }

    fn complete(&mut self, draft: &Draft, told: Option<(u32, u32)>, streams: &mut Streams) -> Call {
        let work = draft.correlation.and_then(|c| self.works.get(&c)).copied();
        let mut call = draft.call;
        call.stream = match streams.of(draft, told) {
            Some(stream) => stream,
            None => {
                self.stats.guessed_streams += u64::from(needs_stream(draft.probe));
                streams.guess(&call)
            }
        };
        self.stats.unmatched_calls += u64::from(draft.probe.action.enqueues() && work.is_none());
        call.bytes = draft.bytes.or(work.and_then(|w| w.bytes)).unwrap_or(0);
        call.direction = direction(draft, work);
        if let Some(work) = work {
            fill_identity(&mut call, draft.probe, &work);
        }
        if let Some(event) = self.event(draft) {
            call.handle = Some(event);
        } else if draft.probe.action == Action::EventSync {
            self.stats.untold_events += 1;
        }
        call
    }

    /// The event that a call means: named after the call that recorded it.
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
            ..ProcessInfo::default()
        };
        seen.into_iter().map(describe).collect()
    }

    /// What the trace leaves in the dark, in sentences.
    fn gaps(&self) -> Vec<String> {
        let guessed = self.stats.guessed_streams;
        let untold = self.stats.untold_events;
        let sentences = [
            (
                guessed,
                format!(
                    "the trace does not tell the stream of {guessed} calls: the thread's last one was taken"
                ),
            ),
            (
                untold,
                format!(
                    "the trace does not tell which event {untold} waits were for: the latest records were taken"
                ),
            ),
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

/// True for calls that mean nothing without their stream.
fn needs_stream(probe: &Probe) -> bool {
    probe.action.enqueues()
        || matches!(
            probe.action,
            Action::StreamSync
                | Action::StreamDestroy
                | Action::EventRecord
                | Action::CaptureBegin
                | Action::CaptureEnd
        )
}

/// Blocks times threads per block. HIP's ext launches count the grid in threads.
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

/// What the function's name says, else the call's own argument, else what the device did.
fn direction(draft: &Draft, work: Option<Work>) -> Direction {
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
    fn every_row_that_needs_a_stream_can_be_given_one() {
        for probe in PROBES.iter().filter(|p| needs_stream(p)) {
            let has_default = matches!(probe.action, Action::Copy | Action::Fill);
            assert!(probe.wiring.stream != ArgPos::NONE || has_default, "{}", probe.symbol);
        }
    }
}
