//! Internal telemetry of the receiver: counters of the probes, and of everything that the analysis dropped or suppressed.
//!
//! Data that is missing from the metrics of a process is counted here by reason.

use event::Account as Probes;
use instrumentation::{DroppedItems, TimeRange, normalize};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use persist::PersistDrops;
use probe_abi::counters::{DropReason, SelfCounter};
use semconv::value::{
    WarptapAnalysisEntry, WarptapCollectiveAnomaly, WarptapCollectiveOutcome, WarptapPersistenceDropReason,
    WarptapProbeOutcome, WarptapRingSide, WarptapSignal,
};
use semconv::{attribute, metric};
use steps::StepTally;

use crate::discovery::Discovery;
use crate::points::{count, gauges, seconds, sums, text};

/// The counters of internal telemetry.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// The counters of the probes, if the source has probes.
    pub(crate) probes: Option<Probes>,
    /// Lost records reported by events, in the order of [`DropReason::ALL`].
    pub(crate) lost: [u64; DropReason::ALL.len()],
    /// How libraries are found.
    pub(crate) discovery: Discovery,
    /// Excluded processes, discarded records of theirs, and how many of them the filter had no slot for; `None` without a
    /// selection.
    pub(crate) selection: Option<[u64; 3]>,
    /// Number of evicted processes.
    pub(crate) evicted: u64,
    /// Overflow series of processes that ended since the last collection.
    pub(crate) overflowed: u64,
    /// Outliers with suppressed spans.
    pub(crate) suppressed: u64,
    /// Failed allocations with suppressed log records.
    pub(crate) suppressed_failures: u64,
    /// Number of untracked allocations.
    pub(crate) untracked: u64,
    /// Frees of memory whose allocation is not known.
    pub(crate) unknown_frees: u64,
    /// Events of ended processes.
    pub(crate) orphaned: u64,
    /// Steps without durations.
    pub(crate) unmeasured: u64,
    /// Items that no pipeline accepted.
    pub(crate) dropped_items: DroppedItems,
    /// Records that could not be persisted.
    pub(crate) persist_drops: PersistDrops,
    /// Records of earlier runs that could not be read.
    pub(crate) corrupted_records: u64,
    /// Suppressed telemetry of collectives.
    pub(crate) collectives: SuppressedCounts,
}

/// Suppressed telemetry of collectives.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct SuppressedCounts {
    /// Ranks in the overflow series.
    pub(crate) folded: u64,
    /// Number of suppressed log records.
    pub(crate) suppressed_logs: u64,
    /// Untraced participations in collectives.
    pub(crate) untraced: u64,
}

/// The current state of the analysis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) processes: usize,
    /// Processes whose probes are attached for a part of the time only.
    pub(crate) thinned: usize,
    pub(crate) overflowing: u64,
    pub(crate) tally: StepTally,
    /// Counters of collectives, and the number of outstanding operations.
    pub(crate) collectives: Option<(nccl::Tally, u64)>,
}

impl Account {
    /// Counts lost records.
    pub(crate) fn lose(&mut self, reason: DropReason, count: u64) {
        let lost = &mut self.lost[reason as usize];
        *lost = lost.saturating_add(count);
    }

    /// Returns all counters as metrics. Those of the probes continue over a restart of the agent, and so does their
    /// start.
    pub(crate) fn metrics(&self, window: TimeRange, state: State) -> Vec<Metric> {
        let mut all = self.own(window, state);
        all.extend(self.discovery.metrics(window));
        all.extend(self.selection.into_iter().flat_map(|counts| selected(counts, window)));
        normalize(&mut all, window);
        if let Some(probes) = &self.probes {
            let since = Some(probes.since_unix_ns).filter(|since| *since > 0).unwrap_or(window.start);
            let window = TimeRange { start: since.min(window.start), ..window };
            let mut of_probes = of_probes(probes, window);
            normalize(&mut of_probes, window);
            all.extend(of_probes);
            all.sort_by(|a, b| a.name.cmp(&b.name));
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
        let drops = self.persist_drops.with(WarptapPersistenceDropReason::Corrupted, self.corrupted_records);
        let drops = WarptapPersistenceDropReason::ALL.map(|reason| (reason.as_str(), drops.of(reason)));
        let drops = by(attribute::WARPTAP_PERSISTENCE_DROP_REASON, drops);
        let tally = &state.tally;
        let (of_collectives, outstanding) = state.collectives.unwrap_or_default();
        let evicted = evicted(tally, &of_collectives);
        let [thinned, tracked] =
            [state.thinned, state.processes].map(|n| alone(u64::try_from(n).unwrap_or(u64::MAX)));
        vec![
            sums(metric::WARPTAP_ALLOCATION_LOGS_SUPPRESSED, window, alone(self.suppressed_failures)),
            sums(metric::WARPTAP_ALLOCATION_UNKNOWN_FREES, window, alone(self.unknown_frees)),
            sums(metric::WARPTAP_ALLOCATION_UNTRACKED, window, alone(self.untracked)),
            sums(metric::WARPTAP_ANALYSIS_EVICTED, window, evicted),
            sums(metric::WARPTAP_COLLECTIVE_ANOMALIES, window, anomalies(&of_collectives)),
            sums(metric::WARPTAP_COLLECTIVE_SUPPRESSED, window, self.collectives.points()),
            sums(metric::WARPTAP_COLLECTIVE_OPERATIONS, window, outcomes(&of_collectives)),
            gauges(metric::WARPTAP_COLLECTIVE_OUTSTANDING, window, alone(outstanding)),
            sums(metric::WARPTAP_DELIVERY_DROPPED, window, dropped_items),
            sums(metric::WARPTAP_EVENT_DROPPED, window, by_reason(self.lost)),
            sums(metric::WARPTAP_EVENT_ORPHANED, window, alone(self.orphaned)),
            sums(metric::WARPTAP_PERSISTENCE_DROPPED, window, drops),
            sums(metric::WARPTAP_PROCESS_EVICTED, window, alone(self.evicted)),
            gauges(metric::WARPTAP_PROCESS_THINNED, window, thinned),
            gauges(metric::WARPTAP_PROCESS_TRACKED, window, tracked),
            sums(metric::WARPTAP_SEGMENT_UNARMED, window, alone(tally.unarmed)),
            sums(metric::WARPTAP_SEGMENT_UNASSIGNED, window, alone(tally.leftover)),
            sums(metric::WARPTAP_SEGMENT_MISSED, window, alone(tally.missed)),
            gauges(metric::WARPTAP_SERIES_OVERFLOW, window, alone(state.overflowing)),
            sums(metric::WARPTAP_OUTLIER_SUPPRESSED, window, alone(self.suppressed)),
            sums(metric::WARPTAP_STEP_UNMEASURED, window, alone(self.unmeasured)),
        ]
    }
}

/// Returns what the selection of processes leaves out.
fn selected(counts: [u64; 3], window: TimeRange) -> [Metric; 3] {
    let [excluded, discarded, unfiltered] = counts.map(|value| vec![(Vec::new(), count(value))]);
    [
        sums(metric::WARPTAP_SELECTION_DISCARDED, window, discarded),
        gauges(metric::WARPTAP_SELECTION_EXCLUDED, window, excluded),
        sums(metric::WARPTAP_SELECTION_UNFILTERED, window, unfiltered),
    ]
}

impl SuppressedCounts {
    fn points(&self) -> Vec<(Vec<KeyValue>, Value)> {
        let rows = [
            (WarptapSignal::Logs, self.suppressed_logs),
            (WarptapSignal::Metrics, self.folded),
            (WarptapSignal::Traces, self.untraced),
        ];
        by(attribute::WARPTAP_SIGNAL, rows.map(|(signal, n)| (signal.as_str(), n)))
    }
}

/// Returns the evictions of both analyses.
fn evicted(steps: &StepTally, collectives: &nccl::Tally) -> Vec<(Vec<KeyValue>, Value)> {
    use WarptapAnalysisEntry as Entry;
    let (s, c) = (steps, collectives);
    let rows = [
        (Entry::Baseline, s.baselines_evicted),
        (Entry::Class, s.classes_evicted),
        (Entry::Cluster, s.clusters_evicted),
        (Entry::Edge, c.edges_evicted),
        (Entry::Event, c.events_evicted),
        (Entry::Handle, c.unwritten_evicted),
        (Entry::Pair, c.pairs_overflow),
        (Entry::Process, s.processes_evicted.saturating_add(c.processes_evicted)),
        (Entry::Rank, c.members_evicted),
        (Entry::Stream, s.streams_evicted.saturating_add(c.streams_evicted)),
        (Entry::Thread, c.threads_evicted),
    ];
    by(attribute::WARPTAP_ANALYSIS_ENTRY, rows.map(|(entry, n)| (entry.as_str(), n)))
}

fn outcomes(tally: &nccl::Tally) -> Vec<(Vec<KeyValue>, Value)> {
    use WarptapCollectiveOutcome as Outcome;
    let rows = [
        (Outcome::Captured, tally.captured),
        (Outcome::Completed, tally.completed),
        (Outcome::Ended, tally.ended),
        (Outcome::Expired, tally.expired),
        (Outcome::Failed, tally.failed),
        (Outcome::Evicted, tally.evicted),
        (Outcome::Nested, tally.nested),
    ];
    by(attribute::WARPTAP_COLLECTIVE_OUTCOME, rows.map(|(outcome, n)| (outcome.as_str(), n)))
}

fn anomalies(tally: &nccl::Tally) -> Vec<(Vec<KeyValue>, Value)> {
    use WarptapCollectiveAnomaly as Anomaly;
    let rows = [
        (Anomaly::Dispute, tally.disagreements),
        (Anomaly::GroupNotEnded, tally.groups_open),
        (Anomaly::GroupNotStarted, tally.groups_unmatched),
        (Anomaly::GroupOverflow, tally.groups_overflow),
        (Anomaly::LateAttached, tally.late_attached),
        (Anomaly::Lost, tally.collectives_lost),
        (Anomaly::RankReplaced, tally.replaced),
        (Anomaly::RoundEvicted, tally.rounds_dropped),
        (Anomaly::RoundStale, tally.rounds_stale),
        (Anomaly::Unaligned, tally.unaligned),
        (Anomaly::UnknownEvent, tally.events_unknown),
        (Anomaly::UnknownSize, tally.sizes_unknown),
        (Anomaly::WaitUnarmed, tally.waits_unarmed),
    ];
    by(attribute::WARPTAP_COLLECTIVE_ANOMALY, rows.map(|(anomaly, n)| (anomaly.as_str(), n)))
}

fn of_probes(probes: &Probes, window: TimeRange) -> Vec<Metric> {
    let alone = |value| vec![(Vec::new(), count(value))];
    let outcomes = [
        (WarptapProbeOutcome::Delivered, probes.delivered),
        (WarptapProbeOutcome::Folded, probes.folded),
        (WarptapProbeOutcome::SampledOut, probes.sampled_out),
    ];
    let sides = [(WarptapRingSide::Received, probes.received), (WarptapRingSide::Submitted, probes.records)];
    let outcomes = by(attribute::WARPTAP_PROBE_OUTCOME, outcomes.map(|(o, n)| (o.as_str(), n)));
    let others = |is_ignored| {
        let counters = SelfCounter::ALL.into_iter().filter(move |counter| counter.is_ignored() == is_ignored);
        counters.map(|counter| (counter.name(), probes[counter]))
    };
    let anomalies = by(attribute::WARPTAP_PROBE_ANOMALY, others(false));
    let ignored = by(attribute::WARPTAP_PROBE_IGNORE_REASON, others(true));
    let sides = by(attribute::WARPTAP_RING_SIDE, sides.map(|(s, n)| (s.as_str(), n)));
    let mut metrics = vec![
        sums(metric::WARPTAP_PROBE_CALLS, window, outcomes),
        sums(metric::WARPTAP_PROBE_ANOMALIES, window, anomalies),
        gauges(metric::WARPTAP_PROBE_FUNCTIONS, window, alone(probes.functions)),
        sums(metric::WARPTAP_PROBE_HITS, window, alone(probes.hits)),
        gauges(metric::WARPTAP_PROBE_LIBRARIES, window, alone(probes.libraries)),
        sums(metric::WARPTAP_PROBE_DROPPED, window, by_reason(probes.dropped)),
        sums(metric::WARPTAP_PROBE_IGNORED, window, ignored),
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
    by(attribute::WARPTAP_DROP_REASON, rows.map(|(reason, count)| (reason.name(), count)))
}

fn by(key: &str, rows: impl IntoIterator<Item = (&'static str, u64)>) -> Vec<(Vec<KeyValue>, Value)> {
    rows.into_iter().map(|(value, n)| (vec![text(key, value)], count(n))).collect()
}

#[cfg(test)]
mod tests {
    use semconv::value::{WarptapDropReason, WarptapProbeAnomaly, WarptapProbeIgnoreReason};

    use super::*;

    #[track_caller]
    fn check(names: impl Iterator<Item = &'static str>, registry: &[&str]) {
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        assert_eq!(names, registry);
    }

    #[test]
    fn registry_has_every_counter_of_the_probes() {
        let others = |is_ignored| SelfCounter::ALL.into_iter().filter(move |c| c.is_ignored() == is_ignored);
        check(DropReason::ALL.into_iter().map(DropReason::name), &WarptapDropReason::ALL.map(|r| r.as_str()));
        check(others(false).map(SelfCounter::name), &WarptapProbeAnomaly::ALL.map(|a| a.as_str()));
        check(others(true).map(SelfCounter::name), &WarptapProbeIgnoreReason::ALL.map(|r| r.as_str()));
    }
}
