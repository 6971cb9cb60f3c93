//! One process: its streams, its steps under way, its workload, and what was counted of it.

use event::ProcessId;
use probe_abi::fold::mix;
use probe_abi::record::StepRecord;

use crate::assemble::Assembler;
use crate::finding::Tally;
use crate::hardware::Beside;
use crate::identity::{Identity, WorkloadId};
use crate::mode::Mode;
use crate::others::Others;
use crate::phase::{Label, Phase};
use crate::record::BaselineRecord;
use crate::segment::{Group, Segment};
use crate::settings::Settings;
use crate::shape::Shape;
use crate::stream::Streams;
use crate::workload::Workload;

/// Where whole steps go: labelled, judged, given out.
#[derive(Clone, Debug)]
struct Judge {
    streams: Streams,
    workload: Workload,
    others: Others,
    tally: Tally,
}

impl Judge {
    fn take(&mut self, group: &Group, mode: Mode, out: &mut Beside<'_>) {
        let label = match mode {
            Mode::Training { confidence } => Label { phase: Phase::Train, confidence },
            _ => self.streams.label(group.main.stream, &Shape::of(&group.work)),
        };
        let waited_ns = self.others.within(group.start_ns, group.end_ns);
        self.workload.judge(group, label, waited_ns, &mut self.tally, out);
    }
}

/// A process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    assembler: Assembler,
    judge: Judge,
    /// Which workload it is.
    pub(crate) identity: Identity,
    /// When it was last heard of, in events of the engine.
    pub(crate) used: u64,
}

impl Process {
    pub(crate) fn new(id: ProcessId, settings: &Settings) -> Process {
        Process {
            assembler: Assembler::new(settings.joining),
            judge: Judge {
                streams: Streams::new(settings.classifier),
                workload: Workload::new(id, settings.baseline),
                others: Others::default(),
                tally: Tally::default(),
            },
            identity: Identity::default(),
            used: 0,
        }
    }

    /// The next segment.
    pub(crate) fn observe(&mut self, record: &StepRecord, out: &mut Beside<'_>) {
        let place = self.judge.streams.place(record.stream, record.sequence);
        self.judge.tally.segments += 1;
        self.judge.tally.missed = self.judge.tally.missed.saturating_add(place.missed);
        let segment = Segment { stream: place.stream, record: *record };
        self.with(out, |assembler, take| {
            if place.is_taken_over {
                assembler.forget_stream(place.stream, take);
            }
            assembler.push(&segment, take);
        });
    }

    /// It waited for others.
    pub(crate) fn wait_for_others(&mut self, from_ns: u64, to_ns: u64) {
        self.judge.others.wait(from_ns, to_ns);
    }

    /// The stream with this handle is gone.
    pub(crate) fn destroy_stream(&mut self, handle: u64, out: &mut Beside<'_>) {
        if let Some(stream) = self.judge.streams.destroy(handle) {
            self.with(out, |assembler, take| assembler.forget_stream(stream, take));
        }
    }

    /// The executable graph with this handle does something else from here on, or is gone and the handle may come
    /// back as another.
    pub(crate) fn change_graph(&mut self, handle: u64) {
        self.judge.streams.forget_graph(mix(handle));
    }

    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.assembler.due_ns()
    }

    pub(crate) fn advance(&mut self, now_ns: u64, out: &mut Beside<'_>) {
        self.with(out, |assembler, take| assembler.advance(now_ns, take));
    }

    /// Nothing will follow.
    pub(crate) fn finish(&mut self, out: &mut Beside<'_>) {
        let mut leftover = 0;
        self.with(out, |assembler, take| leftover = assembler.finish(take));
        self.judge.tally.leftover += leftover;
    }

    /// What is to be kept of it; `None` where nothing is known, or not whose.
    pub(crate) fn record(&self, process: ProcessId) -> Option<BaselineRecord> {
        let (workload, habits) = (self.identity.workload()?, self.judge.workload.habits().kept());
        (!habits.is_empty()).then_some(BaselineRecord { workload, process, habits })
    }

    /// Takes over what was kept.
    pub(crate) fn restore(&mut self, record: BaselineRecord) {
        self.judge.workload.restore(record);
    }

    /// The workload, where something was learnt of it since this was last asked.
    pub(crate) fn take_changed(&mut self) -> Option<WorkloadId> {
        self.judge.workload.take_changed().then(|| self.identity.workload())?
    }

    pub(crate) fn mode(&self) -> Mode {
        self.assembler.mode()
    }

    pub(crate) fn tally(&self) -> Tally {
        Tally {
            streams_evicted: self.judge.streams.evicted(),
            clusters_evicted: self.judge.streams.clusters_evicted(),
            classes_evicted: self.judge.workload.habits().classes_evicted(),
            baselines_evicted: self.judge.workload.habits().evicted(),
            ..self.judge.tally
        }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        size_of::<Self>()
            + self.assembler.heap_bytes()
            + self.judge.streams.heap_bytes()
            + self.judge.workload.habits().heap_bytes()
            + self.judge.others.heap_bytes()
    }

    /// Runs the assembler with the judge behind it.
    fn with(&mut self, out: &mut Beside<'_>, run: impl FnOnce(&mut Assembler, &mut dyn FnMut(Group, Mode))) {
        let judge = &mut self.judge;
        run(&mut self.assembler, &mut |group, mode| judge.take(&group, mode, out));
    }
}
