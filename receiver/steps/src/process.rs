//! One process: its streams, its unfinished steps, its workload and its counts.

use event::ProcessId;
use probe_abi::fold::mix;
use probe_abi::record::{StepRecord, flag};

use crate::assemble::{Assembled, Assembler};
use crate::finding::{Finding, StepTally};
use crate::gpu_attribution::GpuAttribution;
use crate::identity::{Identity, WorkloadId};
use crate::mode::Mode;
use crate::peer_waits::PeerWaits;
use crate::phase::{Phase, PhaseLabel};
use crate::record::BaselineRecord;
use crate::segment::{Group, Segment};
use crate::settings::Settings;
use crate::shape::Shape;
use crate::stream::Streams;
use crate::workload::Workload;

/// Steps of one event for which memory stays allocated; more are rare, as when the mode of a new process is decided.
pub(crate) const ASSEMBLED: usize = 1;

/// The state of one process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    assembler: Assembler,
    streams: Streams,
    workload: Workload,
    peer_waits: PeerWaits,
    tally: StepTally,
    /// The workload that the process is.
    pub(crate) identity: Identity,
    /// The engine's tick at its latest event.
    pub(crate) used: u64,
}

impl Process {
    pub(crate) fn new(id: ProcessId, settings: &Settings) -> Process {
        Process {
            assembler: Assembler::new(settings.joining),
            streams: Streams::new(settings.classifier),
            workload: Workload::new(id, settings.baseline),
            peer_waits: PeerWaits::default(),
            tally: StepTally::default(),
            identity: Identity::default(),
            used: 0,
        }
    }

    /// Assembles the next segment.
    pub(crate) fn observe(&mut self, record: &StepRecord, out: &mut Vec<Assembled>) {
        let numbered = self.streams.number(record.stream, record.sequence);
        self.tally.segments += 1;
        self.tally.missed = self.tally.missed.saturating_add(numbered.missed);
        if numbered.is_taken_over {
            self.assembler.end_stream(numbered.stream, out);
        }
        if record.header.flags & flag::UNARMED != 0 {
            self.tally.unarmed += 1;
            return;
        }
        self.assembler.push(&Segment { stream: numbered.stream, record: *record }, out);
    }

    /// Labels and judges assembled steps, in order, and empties the list.
    pub(crate) fn judge(
        &mut self,
        assembled: &mut Vec<Assembled>,
        gpus: &mut GpuAttribution,
        out: &mut Vec<Finding>,
    ) {
        for Assembled { group, mode } in assembled.drain(..) {
            let label = self.label(&group, mode);
            let peer_wait_ns = self.peer_waits.within(group.start_ns, group.end_ns);
            let (step, shift) = self.workload.judge(&group, label, peer_wait_ns, gpus);
            self.tally.steps += 1;
            self.tally.joined += u64::from(group.segments - 1);
            gpus.report(step, out);
            out.extend(shift.map(Finding::BaselineShift));
        }
        assembled.shrink_to(ASSEMBLED);
    }

    fn label(&mut self, group: &Group, mode: Mode) -> PhaseLabel {
        match mode {
            Mode::Training { confidence } => PhaseLabel { phase: Phase::Train, confidence },
            _ => self.streams.label(group.main.stream, &Shape::of(&group.work)),
        }
    }

    /// Records time that it waited for other ranks.
    pub(crate) fn record_peer_wait(&mut self, from_ns: u64, to_ns: u64) {
        self.peer_waits.record(from_ns, to_ns);
    }

    /// Ends the stream with this handle.
    pub(crate) fn destroy_stream(&mut self, handle: u64, out: &mut Vec<Assembled>) {
        if let Some(stream) = self.streams.destroy(handle) {
            self.assembler.end_stream(stream, out);
        }
    }

    /// Handles the update or destruction of the executable graph with this handle.
    pub(crate) fn change_graph(&mut self, handle: u64) {
        self.streams.change_graph(mix(handle));
    }

    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.assembler.due_ns()
    }

    pub(crate) fn advance(&mut self, now_ns: u64, out: &mut Vec<Assembled>) {
        self.assembler.advance(now_ns, out);
    }

    /// Assembles all deferred segments, at the end of the process.
    pub(crate) fn finish(&mut self, out: &mut Vec<Assembled>) {
        self.tally.leftover += self.assembler.finish(out);
    }

    /// Returns its baselines to store; `None` if none is warmed up, or its workload is not known.
    pub(crate) fn record(&self, process: ProcessId) -> Option<BaselineRecord> {
        let (workload, profiles) = (self.identity.workload()?, self.workload.profiles().to_store());
        (!profiles.is_empty()).then_some(BaselineRecord { workload, process, profiles })
    }

    /// Restores stored baselines.
    pub(crate) fn restore(&mut self, record: BaselineRecord) {
        self.workload.restore(record);
    }

    /// Returns its workload if a baseline has learnt since the last call.
    pub(crate) fn take_changed(&mut self) -> Option<WorkloadId> {
        self.workload.take_changed().then(|| self.identity.workload())?
    }

    pub(crate) fn tally(&self) -> StepTally {
        StepTally {
            streams_evicted: self.streams.evicted(),
            clusters_evicted: self.streams.clusters_evicted(),
            classes_evicted: self.workload.profiles().classes_evicted(),
            baselines_evicted: self.workload.profiles().evicted(),
            ..self.tally
        }
    }
}
