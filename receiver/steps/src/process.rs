//! One process: its streams, its unfinished steps, its workload and its counts.

use event::{GpuFunction, ProcessId};
use probe_abi::fold::mix;
use probe_abi::record::{StepRecord, flag};

use crate::assemble::{Assembled, Assembler};
use crate::finding::{Finding, StepTally};
use crate::gpu_attribution::GpuAttribution;
use crate::identity::{Identity, WorkloadId};
use crate::kernels::Functions;
use crate::mode::Mode;
use crate::peer_waits::PeerWaits;
use crate::phase::names::{Facts, NameEvidence};
use crate::phase::{Classifier, Hint, Phase, PhaseLabel, combine};
use crate::record::BaselineRecord;
use crate::segment::{Group, Segment};
use crate::settings::Settings;
use crate::shape::Shape;
use crate::stream::Streams;
use crate::workload::Workload;

/// Steps of one event for which memory stays allocated; more are rare, as when the mode of a new process is decided.
pub(crate) const ASSEMBLED: usize = 1;

/// The confidence of a decode by shape from which the process generates tokens: other steps of its stream read prompts.
const GENERATED_MIN: f64 = 0.9;
/// The evidence of kernels against generation from which no shape is one of a decode.
const GENERATES_LEAST: f64 = 0.5;

/// The state of one process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    assembler: Assembler,
    streams: Streams,
    functions: Functions,
    hint: Option<Hint>,
    /// True if a step was a decode.
    has_generated: bool,
    min_confidence: f64,
    is_classified: bool,
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
            functions: Functions::default(),
            hint: None,
            has_generated: false,
            min_confidence: settings.min_confidence,
            is_classified: settings.classifier != Classifier::None,
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
        self.assembler.push(&Segment { stream: numbered.stream, record: *record, records: 1 }, out);
    }

    /// Labels and judges assembled steps, in order, and empties the list.
    pub(crate) fn judge(
        &mut self,
        assembled: &mut Vec<Assembled>,
        gpus: &mut GpuAttribution,
        out: &mut Vec<Finding>,
    ) {
        let is_alone = self.tally.steps == 0 && assembled.len() == 1 && self.workload.profiles().is_empty();
        for Assembled { group, mode } in assembled.drain(..) {
            let label = self.label(&group, mode, is_alone);
            let peer_wait_ns = self.peer_waits.within(group.start_ns, group.end_ns);
            let (step, shift) = self.workload.judge(&group, label, peer_wait_ns, gpus);
            self.tally.steps += 1;
            self.tally.joined += u64::from(group.segments - 1);
            gpus.report(step, out);
            out.extend(shift.map(Finding::BaselineShift));
        }
        assembled.shrink_to(ASSEMBLED);
    }

    fn label(&mut self, group: &Group, mode: Mode, is_alone: bool) -> PhaseLabel {
        let shape = Shape::of(&group.work);
        let kernels = self.functions.kernels(&group.signature);
        let names = NameEvidence::of(&kernels, &self.functions, shape.is_known, self.has_generated);
        let facts = Facts { names: names.as_ref(), is_alone };
        let may_generate = names.as_ref().is_none_or(|names| names.generates.sum() >= -GENERATES_LEAST);
        let reading = || {
            let label = self.streams.label(group.main.stream, &shape, facts);
            let is_decode = label.phase == Phase::Decode && label.confidence >= GENERATED_MIN;
            self.has_generated |= may_generate && is_decode;
            label
        };
        match self.is_classified {
            true => combine::label(facts.names, mode, self.hint, reading).or_unknown(self.min_confidence),
            false => PhaseLabel::UNKNOWN,
        }
    }

    /// Adds a function that the process launched, or its name.
    pub(crate) fn add_function(&mut self, function: &GpuFunction) {
        self.functions.observe(function);
        self.assembler.set_generates(self.functions.may_generate());
    }

    /// Sets what the user says of the process.
    pub(crate) fn set_hint(&mut self, hint: Option<Hint>) {
        self.hint = hint;
        self.assembler.set_hint(hint);
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
