//! Collection of metrics at the instants of an interval of event time. No clock is read.

use event::Event;
use instrumentation::{TimeRange, overflowing};
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;

use super::{Analyzer, Look};
use crate::account::State;
use crate::batch::{Sink, metrics, resource_metrics};
use crate::collectives::Collectives;
use crate::traced::Traced;

impl Analyzer {
    /// Collects everything recorded up to `at_ns` and sends it to `sink`.
    pub fn collect(&mut self, at_ns: u64, sink: Sink<'_>) {
        self.emit_metrics(at_ns, true, sink);
    }

    /// Advances event time to `at_ns`, and collects if an interval has elapsed. If several have elapsed, metrics
    /// are collected once.
    pub(super) fn advance(&mut self, at_ns: u64, sink: Sink<'_>, look: Look<'_>) {
        let interval = self.settings.collection_interval_ns.max(1);
        if self.first_ns.is_none() {
            self.first_ns = Some(at_ns);
            self.collect_at_ns = at_ns.saturating_add(interval);
        }
        if at_ns >= self.collect_at_ns && self.collect_at_ns < u64::MAX {
            let missed = (at_ns - self.collect_at_ns) / interval;
            let due_ns = self.collect_at_ns + missed * interval;
            self.collect_at_ns = due_ns.saturating_add(interval);
            let tick = Event::Tick { at_ns: due_ns };
            self.with_collectives(sink, |collectives, emitter| collectives.observe(&tick, emitter, look));
            self.engine.observe(&tick, &mut self.findings);
            self.report_findings(sink, look);
            self.with_collectives(sink, |collectives, emitter| collectives.report(emitter, look));
            self.collect(due_ns, sink);
        }
        self.clock.advance(at_ns);
        self.trouble.advance(at_ns);
    }

    pub(super) fn emit_metrics(&mut self, at_ns: u64, is_repeated: bool, sink: Sink<'_>) {
        self.record_rank_states();
        let (clock, mut is_last) = (&self.clock, false);
        let collect = |traced: &mut Traced| {
            let (collected, ends) = traced.collect(clock, at_ns);
            is_last |= ends;
            collected
        };
        let mut all: Vec<ResourceMetrics> = self.processes.values_mut().map(collect).collect();
        all.retain(|r| r.scope_metrics.iter().any(|s| !s.metrics.is_empty()));
        let ended = std::mem::take(&mut self.account.overflowed);
        let overflowing = all.iter().map(series_overflowing).sum::<u64>() + ended;
        all.insert(0, self.about_itself(at_ns, overflowing));
        sink(metrics(all, is_repeated && !is_last));
    }

    fn about_itself(&mut self, at_ns: u64, overflowing: u64) -> ResourceMetrics {
        let first_ns = self.first_ns.unwrap_or(at_ns);
        let start = *self.start_unix.get_or_insert(self.clock.unix(first_ns));
        let window = TimeRange { start, time: self.clock.unix(at_ns).max(start) };
        let state = State {
            processes: self.processes.len(),
            thinned: self.processes.values().filter(|traced| traced.overhead.is_thinned()).count(),
            overflowing,
            tally: self.engine.tally(),
            collectives: self.collectives.as_ref().map(Collectives::tally),
        };
        resource_metrics(self.receiver.clone(), self.account.metrics(window, state))
    }
}

/// Returns the number of overflow series of a process.
pub(super) fn series_overflowing(collected: &ResourceMetrics) -> u64 {
    collected.scope_metrics.iter().map(|scope| overflowing(&scope.metrics)).sum()
}
