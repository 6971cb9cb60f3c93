//! One workload: the usual steps of each phase, and the verdict on each new step.
//!
//! A verdict compares a step with earlier ones, so it is made before the step is learnt. A workload is one process; the
//! part that survives it is its [`PhaseProfiles`].

use event::ProcessId;
use probe_abi::fold::{Counter, mix};

use crate::baseline::{BaselineKey, BaselineSettings, BaselineVerdict, Class, Observed, Outlier};
use crate::causes::{Quantity, StepFacts, Usual};
use crate::finding::{BaselineShift, EventId, Step};
use crate::gpu_attribution::GpuAttribution;
use crate::phase::{Phase, PhaseLabel};
use crate::profile::{Key, PhaseProfiles};
use crate::record::BaselineRecord;
use crate::segment::Group;
use crate::shape::Shape;
use crate::throttling::ThrottleShares;

/// The usual steps of one process.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    process: ProcessId,
    profiles: PhaseProfiles,
    is_changed: bool,
}

impl Workload {
    pub(crate) fn new(process: ProcessId, settings: BaselineSettings) -> Workload {
        Workload { process, profiles: PhaseProfiles::new(settings), is_changed: false }
    }

    /// Judges a step and learns from it; returns the lasting change that it completes, if any.
    pub(crate) fn judge(
        &mut self,
        group: &Group,
        label: PhaseLabel,
        peer_wait_ns: Option<u64>,
        gpus: &GpuAttribution,
    ) -> (Step, Option<BaselineShift>) {
        let mut step = step(self.process, group, label);
        step.collective_wait_ns = peer_wait_ns.map(|ns| ns.min(step.wait_ns));
        if step.is_unfinished {
            return (step, None);
        }
        let throttling = gpus.throttling(&step);
        let shift = self.compare(&mut step, throttling.as_ref());
        (step, shift)
    }

    /// Returns the profiles of its phases.
    pub(crate) fn profiles(&self) -> &PhaseProfiles {
        &self.profiles
    }

    /// Restores stored profiles, except of phases that are warmed up by now.
    pub(crate) fn restore(&mut self, record: BaselineRecord) {
        record.for_process(self.process).profiles.iter().for_each(|profile| self.profiles.restore(profile));
    }

    /// Returns true if anything was learnt since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    fn compare(&mut self, step: &mut Step, throttling: Option<&ThrottleShares>) -> Option<BaselineShift> {
        let fingerprint = fingerprint(step, self.profiles.key());
        let profile = self.profiles.of(Key { phase: step.phase, fingerprint });
        let facts = step.facts();
        let throttled = throttling.map_or(0.0, |shares| shares.excess(&profile.throttling.mean));
        let outside_ns = outside_ns(&facts, &profile.usual, throttled);
        let observed = Observed { duration_ns: step.duration_ns, class: class(step), outside_ns };
        let verdict = profile.baseline.observe(&observed);
        step.baseline = verdict.level;
        step.ratio = verdict.ratio;
        step.outlier = verdict.outlier;
        if verdict.outlier != Outlier::None {
            step.usual = profile.usual;
            step.usually_throttled = profile.throttling.mean;
            step.causes = crate::causes::explain(&facts, &profile.usual);
        }
        step.unusual = profile.lanes.unusual(&step.signature);
        profile.lanes.learn(&step.signature);
        if verdict.shift.is_some() {
            (profile.usual, profile.throttling) = Default::default();
        }
        if verdict.is_learnt || verdict.shift.is_some() {
            profile.usual.learn(&facts);
            throttling.into_iter().for_each(|shares| profile.throttling.learn(shares));
            self.is_changed = true;
        }
        self.shift(step, &verdict)
    }

    fn shift(&self, step: &Step, verdict: &BaselineVerdict) -> Option<BaselineShift> {
        let (before, after) = verdict.shift?;
        Some(BaselineShift { process: self.process, phase: step.phase, at_ns: step.end_ns, before, after })
    }
}

fn step(process: ProcessId, group: &Group, label: PhaseLabel) -> Step {
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
        signature: group.signature,
        unusual: 0,
        segments: group.segments,
        increases: group.increases,
        collective_wait_ns: None,
        is_start_known: group.is_start_known,
        is_unfinished: group.is_unfinished,
        is_end_inferred: group.is_end_inferred,
        phase: label.phase,
        confidence: label.confidence,
        baseline: None,
        ratio: 0.0,
        outlier: Outlier::None,
        usual: Usual::default(),
        gpu: None,
        throttled: Vec::new(),
        usually_throttled: ThrottleShares::default(),
        causes: Vec::new(),
    }
}

/// Returns the fingerprint of the step's kernels and graphs, if baselines are keyed by it; else 0.
fn fingerprint(step: &Step, key: BaselineKey) -> u64 {
    match key {
        BaselineKey::Phase => 0,
        BaselineKey::PhaseAndFingerprint => {
            mix(step.work.of(Counter::Functions) ^ mix(step.work.of(Counter::Graphs)))
        }
    }
}

/// Returns the class of steps that this one is compared with. Training iterations launch in several ways at once, so
/// only their work counts.
fn class(step: &Step) -> Class {
    let shape = Shape::of(&step.work);
    match step.phase {
        Phase::Train => Class::of_work(0, shape.kernel_threads()),
        _ => shape.class(),
    }
}

/// Returns the excess time in which the step waited for a CPU or for peers, or ran on throttled clocks, in ns. Time that
/// counts twice only makes the evidence stronger.
fn outside_ns(step: &StepFacts, usual: &Usual, throttled: f64) -> f64 {
    if usual.count == 0 {
        return 0.0;
    }
    let excess = |quantity| step.get(quantity) - usual.get(quantity);
    let contention = excess(Quantity::RunQueueEnqueue) + excess(Quantity::RunQueueWait);
    let throttled_ns = throttled * step.get(Quantity::Duration);
    contention.max(0.0) + excess(Quantity::PeerWait).max(0.0) + throttled_ns
}
