//! One workload: what its steps usually are, by phase, and the verdict on each new one.
//!
//! The one idea: the verdict is a comparison with the past, so it is made before the step becomes part of it.
//! A workload is a process; what outlives it stands in its [`Habits`].

use crate::causes::{StepFacts, Usual};
use event::ProcessId;
use probe_abi::fold::{Counter, mix};

use crate::baseline::{BaselineKey, BaselineSettings, Class, Observed, Outlier, Verdict};
use crate::finding::{BaselineShift, EventId, Finding, Step, Tally};
use crate::habit::{Habits, Key};
use crate::hardware::Beside;
use crate::phase::{Label, Phase};
use crate::record::BaselineRecord;
use crate::segment::Group;
use crate::shape::Shape;
use crate::throttling::Shares;

/// Steps that the usual parts average over.
const USUAL_MEMORY: u64 = 128;

/// What is usual for one process.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    process: ProcessId,
    habits: Habits,
    is_changed: bool,
}

impl Workload {
    pub(crate) fn new(process: ProcessId, settings: BaselineSettings) -> Workload {
        Workload { process, habits: Habits::new(settings), is_changed: false }
    }

    /// The verdict on a step, of which so much was waited for other ranks.
    pub(crate) fn judge(
        &mut self,
        group: &Group,
        label: Label,
        collective_wait_ns: Option<u64>,
        tally: &mut Tally,
        out: &mut Beside<'_>,
    ) {
        let mut step = step(self.process, group, label);
        step.collective_wait_ns = collective_wait_ns.map(|ns| ns.min(step.wait_ns));
        let mut shift = None;
        if !step.is_unfinished {
            let throttling = out.throttling(&step);
            shift = self.compare(&mut step, throttling.as_ref());
        }
        tally.steps += 1;
        tally.joined += u64::from(group.segments - 1);
        out.find(Finding::Step(step));
        if let Some(shift) = shift {
            out.find(Finding::BaselineShift(shift));
        }
    }

    /// What is usual for it.
    pub(crate) fn habits(&self) -> &Habits {
        &self.habits
    }

    /// Takes over what was usual before, as far as it is not known better by now.
    pub(crate) fn restore(&mut self, record: BaselineRecord) {
        record.for_process(self.process).habits.iter().for_each(|habit| self.habits.restore(habit));
    }

    /// True where something was learnt since this was last asked.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    fn compare(&mut self, step: &mut Step, throttling: Option<&Shares>) -> Option<BaselineShift> {
        let fingerprint = fingerprint(step, self.habits.key());
        let habit = self.habits.of(Key { phase: step.phase, fingerprint });
        let facts = step.facts();
        let throttled = throttling.map_or(0.0, |shares| shares.beyond(&habit.throttling.mean));
        let outside_ns = outside_ns(&facts, &habit.usual, throttled);
        let observed = Observed { duration_ns: step.duration_ns, class: class(step), outside_ns };
        let verdict = habit.baseline.observe(&observed);
        step.baseline = verdict.level;
        step.ratio = verdict.ratio;
        step.outlier = verdict.outlier;
        if verdict.outlier != Outlier::None {
            step.usual = habit.usual;
            step.usually_throttled = habit.throttling.mean;
            step.causes = crate::causes::explain(&facts, &habit.usual);
        }
        if verdict.shift.is_some() {
            (habit.usual, habit.throttling) = Default::default();
        }
        if verdict.is_learnt || verdict.shift.is_some() {
            learn(&mut habit.usual, &facts);
            throttling.into_iter().for_each(|shares| habit.throttling.learn(shares));
            self.is_changed = true;
        }
        self.shift(step, &verdict)
    }

    fn shift(&self, step: &Step, verdict: &Verdict) -> Option<BaselineShift> {
        let (before, after) = verdict.shift?;
        Some(BaselineShift { process: self.process, phase: step.phase, at_ns: step.end_ns, before, after })
    }
}

fn step(process: ProcessId, group: &Group, label: Label) -> Step {
    let main = &group.main.record;
    let duration_ns = group.duration_ns();
    let wait_ns = group.wait_ns.min(duration_ns);
    Step {
        id: EventId::of(process, group.main.stream, group.first_sequence, group.end_ns),
        process,
        stream: group.main.stream,
        sequence: group.first_sequence,
        thread: main.header.tid,
        first_thread: main.first_tid,
        device: main.device,
        start_ns: group.start_ns,
        end_ns: group.end_ns,
        gap_ns: group.gap_ns(),
        enqueue_ns: duration_ns - wait_ns,
        wait_ns,
        duration_ns,
        work: group.work,
        segments: group.segments,
        run_queue: group.run_queue,
        collective_wait_ns: None,
        is_start_known: group.is_start_known,
        is_unfinished: group.is_unfinished,
        phase: label.phase,
        confidence: label.confidence,
        baseline: None,
        ratio: 0.0,
        outlier: Outlier::None,
        usual: Usual::default(),
        gpu: None,
        throttled: Vec::new(),
        usually_throttled: Shares::default(),
        causes: Vec::new(),
    }
}

/// What kernels and graphs it launched, where that counts; 0 for none.
fn fingerprint(step: &Step, key: BaselineKey) -> u64 {
    match key {
        BaselineKey::Phase => 0,
        BaselineKey::PhaseAndFingerprint => {
            mix(step.work.of(Counter::Functions) ^ mix(step.work.of(Counter::Graphs)))
        }
    }
}

/// Which steps of its phase it is compared with. Iterations launch in every way at once.
fn class(step: &Step) -> Class {
    let shape = Shape::of(&step.work);
    match step.phase {
        Phase::Train => Class::of_work(0, shape.kernel_threads()),
        _ => shape.class(),
    }
}

/// How much longer than usual it waited for a CPU while other processes ran, and for other ranks, and ran on clocks that
/// were held down for so large a share of it beyond the usual. What is double then only makes the evidence stronger.
fn outside_ns(step: &StepFacts, usual: &Usual, throttled: f64) -> f64 {
    if usual.count == 0 {
        return 0.0;
    }
    let runq = step.runq_enqueue_ns.unwrap_or(0.0) + step.runq_wait_ns.unwrap_or(0.0);
    let collective = step.collective_wait_ns.unwrap_or(0.0) - usual.collective_wait_ns;
    let contention = runq - usual.runq_enqueue_ns - usual.runq_wait_ns;
    contention.max(0.0) + collective.max(0.0) + throttled * step.duration_ns
}

fn learn(usual: &mut Usual, step: &StepFacts) {
    usual.count += 1;
    let pull = 1.0 / usual.count.min(USUAL_MEMORY) as f64;
    let rows = [
        (&mut usual.duration_ns, step.duration_ns),
        (&mut usual.enqueue_ns, step.enqueue_ns),
        (&mut usual.wait_ns, step.wait_ns),
        (&mut usual.runq_enqueue_ns, step.runq_enqueue_ns.unwrap_or(0.0)),
        (&mut usual.runq_wait_ns, step.runq_wait_ns.unwrap_or(0.0)),
        (&mut usual.collective_wait_ns, step.collective_wait_ns.unwrap_or(0.0)),
        (&mut usual.copied_bytes, step.copied_bytes),
    ];
    rows.into_iter().for_each(|(mean, value)| *mean += (value - *mean) * pull);
}
