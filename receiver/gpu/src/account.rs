//! The receiver about itself: what the probes say of themselves, and what this analysis had to leave out.
//!
//! The one idea: whatever does not appear in the figures of a process appears here, by reason.

use event::Account as Probes;
use instrumentation::{DroppedItems, TimeRange};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use probe_abi::counters::DropReason;
use semconv::value::{
    WarptapAnalysisMemory, WarptapCollectiveFate, WarptapCollectiveFlaw, WarptapCollectivePart,
    WarptapKeepLoss, WarptapProbeFate, WarptapProbeFlaw, WarptapProbePass, WarptapRingSide, WarptapSignal,
};
use semconv::{attribute, metric};
use steps::Tally;

use crate::keep::Unkept;
use crate::points::{count, gauges, seconds, sums, text};

/// What became of everything.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// The probes' own, where the source has probes.
    pub(crate) probes: Option<Probes>,
    /// Losses told by events, in the order of [`DropReason::ALL`].
    pub(crate) lost: [u64; DropReason::ALL.len()],
    /// Processes whose series ended for want of room.
    pub(crate) evicted: u64,
    /// Series that stood for others of processes whose series ended since the last collection.
    pub(crate) overflowed: u64,
    /// Outliers without a span.
    pub(crate) suppressed: u64,
    /// Failed allocations without a log record.
    pub(crate) unsaid_failures: u64,
    /// Allocations not remembered.
    pub(crate) untracked: u64,
    /// Events of ended processes.
    pub(crate) orphaned: u64,
    /// Steps without durations.
    pub(crate) unmeasured: u64,
    /// What no pipeline took.
    pub(crate) dropped_items: DroppedItems,
    /// Records that were to outlive the receiver and are not kept.
    pub(crate) unkept: Unkept,
    /// Records of an earlier run that cannot be read.
    pub(crate) damaged: u64,
    /// What was left out of collectives.
    pub(crate) collectives: LeftOut,
}

/// What was left out of collectives to stay within bounds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct LeftOut {
    /// Ranks of communicators without series of their own.
    pub(crate) folded: u64,
    /// Log records.
    pub(crate) unsaid: u64,
    /// Parts in collectives that were to be traced.
    pub(crate) untraced: u64,
}

/// What is so now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) processes: usize,
    pub(crate) overflowing: u64,
    pub(crate) tally: Tally,
    /// What was counted of collectives, and operations that nobody has waited for yet.
    pub(crate) collectives: Option<(nccl::Tally, u64)>,
}

impl Account {
    /// Losses that an event told of.
    pub(crate) fn lose(&mut self, reason: DropReason, count: u64) {
        let lost = &mut self.lost[reason as usize];
        *lost = lost.saturating_add(count);
    }

    /// Everything, as metrics.
    pub(crate) fn metrics(&self, window: TimeRange, state: State) -> Vec<Metric> {
        let mut all = self.own(window, state);
        if let Some(probes) = &self.probes {
            all.extend(of_probes(probes, window));
        }
        all
    }

    fn own(&self, window: TimeRange, state: State) -> Vec<Metric> {
        let alone = |value| vec![(Vec::new(), count(value))];
        let dropped_items = [
            (WarptapSignal::Logs, self.dropped_items.logs),
            (WarptapSignal::Metrics, self.dropped_items.metrics),
            (WarptapSignal::Traces, self.dropped_items.traces),
        ];
        let dropped_items = by(attribute::WARPTAP_SIGNAL, dropped_items.map(|(s, n)| (s.as_str(), n)));
        let unkept = self.unkept.with(WarptapKeepLoss::Damaged, self.damaged);
        let unkept = WarptapKeepLoss::ALL.map(|loss| (loss.as_str(), unkept.of(loss)));
        let unkept = by(attribute::WARPTAP_KEEP_LOSS, unkept);
        let tally = &state.tally;
        let (of_collectives, outstanding) = state.collectives.unwrap_or_default();
        let forgotten = forgotten(tally, &of_collectives);
        let tracked = alone(u64::try_from(state.processes).unwrap_or(u64::MAX));
        vec![
            sums(metric::WARPTAP_ALLOCATION_UNSAID, window, alone(self.unsaid_failures)),
            sums(metric::WARPTAP_ALLOCATION_UNTRACKED, window, alone(self.untracked)),
            sums(metric::WARPTAP_ANALYSIS_FORGOTTEN, window, forgotten),
            sums(metric::WARPTAP_COLLECTIVE_FLAWS, window, flaws(&of_collectives)),
            sums(metric::WARPTAP_COLLECTIVE_LEFT_OUT, window, self.collectives.points()),
            sums(metric::WARPTAP_COLLECTIVE_OPERATIONS, window, fates(&of_collectives)),
            gauges(metric::WARPTAP_COLLECTIVE_OUTSTANDING, window, alone(outstanding)),
            sums(metric::WARPTAP_DELIVERY_LOST, window, dropped_items),
            sums(metric::WARPTAP_EVENT_LOST, window, by_reason(self.lost)),
            sums(metric::WARPTAP_EVENT_ORPHANED, window, alone(self.orphaned)),
            sums(metric::WARPTAP_KEEP_LOST, window, unkept),
            sums(metric::WARPTAP_PROCESS_EVICTED, window, alone(self.evicted)),
            gauges(metric::WARPTAP_PROCESS_TRACKED, window, tracked),
            sums(metric::WARPTAP_SEGMENT_LEFTOVER, window, alone(tally.leftover)),
            sums(metric::WARPTAP_SEGMENT_MISSED, window, alone(tally.missed)),
            gauges(metric::WARPTAP_SERIES_OVERFLOW, window, alone(state.overflowing)),
            sums(metric::WARPTAP_SPAN_SUPPRESSED, window, alone(self.suppressed)),
            sums(metric::WARPTAP_STEP_UNMEASURED, window, alone(self.unmeasured)),
        ]
    }
}

impl LeftOut {
    fn points(&self) -> Vec<(Vec<KeyValue>, Value)> {
        let rows = [
            (WarptapCollectivePart::Record, self.unsaid),
            (WarptapCollectivePart::Series, self.folded),
            (WarptapCollectivePart::Trace, self.untraced),
        ];
        by(attribute::WARPTAP_COLLECTIVE_PART, rows.map(|(part, n)| (part.as_str(), n)))
    }
}

/// What both analyses forgot.
fn forgotten(steps: &Tally, collectives: &nccl::Tally) -> Vec<(Vec<KeyValue>, Value)> {
    use WarptapAnalysisMemory as Memory;
    let (s, c) = (steps, collectives);
    let rows = [
        (Memory::Baseline, s.baselines_evicted),
        (Memory::Class, s.classes_evicted),
        (Memory::Cluster, s.clusters_evicted),
        (Memory::Edge, c.edges_evicted),
        (Memory::Event, c.events_evicted),
        (Memory::Handle, c.unwritten_evicted),
        (Memory::Pair, c.pairs_overflow),
        (Memory::Process, s.processes_evicted.saturating_add(c.processes_evicted)),
        (Memory::Rank, c.members_evicted),
        (Memory::Stream, s.streams_evicted.saturating_add(c.streams_evicted)),
        (Memory::Thread, c.threads_evicted),
    ];
    by(attribute::WARPTAP_ANALYSIS_MEMORY, rows.map(|(memory, n)| (memory.as_str(), n)))
}

fn fates(tally: &nccl::Tally) -> Vec<(Vec<KeyValue>, Value)> {
    use WarptapCollectiveFate as Fate;
    let rows = [
        (Fate::Captured, tally.captured),
        (Fate::Completed, tally.completed),
        (Fate::Ended, tally.ended),
        (Fate::Expired, tally.expired),
        (Fate::Failed, tally.failed),
        (Fate::Forgotten, tally.forgotten),
        (Fate::Nested, tally.nested),
        (Fate::Polled, tally.polled),
    ];
    by(attribute::WARPTAP_COLLECTIVE_FATE, rows.map(|(fate, n)| (fate.as_str(), n)))
}

fn flaws(tally: &nccl::Tally) -> Vec<(Vec<KeyValue>, Value)> {
    use WarptapCollectiveFlaw as Flaw;
    let rows = [
        (Flaw::Disagreement, tally.disagreements),
        (Flaw::EventUnknown, tally.events_unknown),
        (Flaw::GroupOpen, tally.groups_open),
        (Flaw::GroupOverflow, tally.groups_overflow),
        (Flaw::GroupUnmatched, tally.groups_unmatched),
        (Flaw::LateAttached, tally.late_attached),
        (Flaw::Lost, tally.collectives_lost),
        (Flaw::Replaced, tally.replaced),
        (Flaw::RoundGivenUp, tally.rounds_given_up),
        (Flaw::RoundStale, tally.rounds_stale),
        (Flaw::SizeUnknown, tally.sizes_unknown),
        (Flaw::Unaligned, tally.unaligned),
    ];
    by(attribute::WARPTAP_COLLECTIVE_FLAW, rows.map(|(flaw, n)| (flaw.as_str(), n)))
}

fn of_probes(probes: &Probes, window: TimeRange) -> Vec<Metric> {
    let alone = |value| vec![(Vec::new(), count(value))];
    let fates = [
        (WarptapProbeFate::Delivered, probes.delivered),
        (WarptapProbeFate::Folded, probes.folded),
        (WarptapProbeFate::SampledOut, probes.sampled_out),
    ];
    let flaws = [
        (WarptapProbeFlaw::UnclosedStream, probes.unclosed_streams),
        (WarptapProbeFlaw::UnknownEvent, probes.unknown_events),
        (WarptapProbeFlaw::UnmatchedReturn, probes.unmatched),
        (WarptapProbeFlaw::UnkeptGraph, probes.untracked_graphs),
        (WarptapProbeFlaw::Untimed, probes.untimed),
        (WarptapProbeFlaw::UntoldContext, probes.dropped_contexts),
    ];
    let passes =
        [(WarptapProbePass::Filtered, probes.filtered), (WarptapProbePass::Suppressed, probes.suppressed)];
    let sides = [(WarptapRingSide::Received, probes.received), (WarptapRingSide::Submitted, probes.records)];
    let fates = by(attribute::WARPTAP_PROBE_FATE, fates.map(|(f, n)| (f.as_str(), n)));
    let flaws = by(attribute::WARPTAP_PROBE_FLAW, flaws.map(|(f, n)| (f.as_str(), n)));
    let passes = by(attribute::WARPTAP_PROBE_PASS, passes.map(|(p, n)| (p.as_str(), n)));
    let sides = by(attribute::WARPTAP_RING_SIDE, sides.map(|(s, n)| (s.as_str(), n)));
    let mut metrics = vec![
        sums(metric::WARPTAP_PROBE_CALLS, window, fates),
        sums(metric::WARPTAP_PROBE_FLAWS, window, flaws),
        gauges(metric::WARPTAP_PROBE_FUNCTIONS, window, alone(probes.functions)),
        sums(metric::WARPTAP_PROBE_HITS, window, alone(probes.hits)),
        gauges(metric::WARPTAP_PROBE_LIBRARIES, window, alone(probes.libraries)),
        sums(metric::WARPTAP_PROBE_LOSSES, window, by_reason(probes.dropped)),
        sums(metric::WARPTAP_PROBE_PASSES, window, passes),
        sums(metric::WARPTAP_PROBE_RUNS, window, alone(probes.runs)),
        sums(metric::WARPTAP_RING_RECORDS, window, sides),
    ];
    if probes.run_cost_ns > 0 {
        let cost = Value::AsDouble(seconds(probes.runs.saturating_mul(probes.run_cost_ns)));
        metrics.push(sums(metric::WARPTAP_PROBE_TIME, window, vec![(Vec::new(), cost)]));
    }
    metrics
}

fn by_reason(counts: [u64; DropReason::ALL.len()]) -> Vec<(Vec<KeyValue>, Value)> {
    let rows = DropReason::ALL.into_iter().zip(counts);
    by(attribute::WARPTAP_LOSS_REASON, rows.map(|(reason, count)| (reason.name(), count)))
}

fn by(key: &str, rows: impl IntoIterator<Item = (&'static str, u64)>) -> Vec<(Vec<KeyValue>, Value)> {
    rows.into_iter().map(|(value, n)| (vec![text(key, value)], count(n))).collect()
}

#[cfg(test)]
mod tests {
    use semconv::value::WarptapLossReason;

    use super::*;

    #[test]
    fn the_registry_knows_every_reason_of_a_loss() {
        let mut reasons = DropReason::ALL.map(DropReason::name);
        reasons.sort_unstable();
        assert_eq!(reasons, WarptapLossReason::ALL.map(WarptapLossReason::as_str));
    }
}
