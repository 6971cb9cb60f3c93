//! What outlives the analysis: what it takes over from an earlier run, and what it leaves to the next.
//!
//! A kind of record is the first part of its key. Baselines change with every step and are worth little each: they are
//! told now and then, and at the end.

use event::{ProcessId, ProcessInfo};
use instrumentation::{encoded, instant};
use nccl::FlightRecord;
use steps::BaselineRecord;

use super::Analyzer;
use crate::batch::{Sink, take_records};
use crate::collectives::dump::Dump;
use crate::collectives::keeping::{self, Found};
use crate::keep::{Change, Kept, Left};
use crate::{resource, tell};

/// What steps usually take: by workload.
const BASELINE: &str = "baseline";
/// How often baselines are told, ns.
const BASELINES_EVERY_NS: u64 = 30_000_000_000;

impl Analyzer {
    /// Takes what an earlier run left, before the first event. `lives` tells whether a process is still there.
    pub fn recall(&mut self, left: &Left, lives: &dyn Fn(ProcessId) -> bool, sink: Sink<'_>) {
        self.clock.set(left.clock);
        let unread = left.records.iter().filter(|kept| !self.recall_one(kept, lives, sink)).count();
        self.account.damaged = left.damaged.saturating_add(unread as u64);
        if self.account.damaged > 0 {
            let at_unix = self.clock.unix(left.clock.at_ns);
            tell::damaged(&self.receiver, self.account.damaged, at_unix, &self.records, sink);
        }
    }

    /// Looks again for processes of which an earlier run left something and that have not been seen since. `lives` as in
    /// [`Analyzer::recall`].
    pub fn look_again(&mut self, lives: &dyn Fn(ProcessId) -> bool, sink: Sink<'_>) {
        let gone = self.collectives.iter_mut().flat_map(|c| c.take_gone(lives)).collect::<Vec<_>>();
        gone.iter().for_each(|found| self.tell_gone(found, sink));
    }

    /// What changed, since this was last asked, of the records that are to outlive the analysis.
    pub fn changes(&mut self, out: &mut dyn FnMut(Change)) {
        self.gone.drain(..).for_each(|key| out(Change { key, bytes: None }));
        self.collectives.iter_mut().for_each(|collectives| collectives.changes(out));
        if self.clock.now_ns() >= self.baselines_at_ns {
            self.baselines_at_ns = self.clock.now_ns().saturating_add(BASELINES_EVERY_NS);
            self.baselines(out);
        }
    }

    /// The same, for the last time.
    pub fn last_changes(&mut self, out: &mut dyn FnMut(Change)) {
        self.baselines_at_ns = 0;
        self.changes(out);
    }

    /// False where it cannot be read. Then it is not kept any longer.
    fn recall_one(&mut self, kept: &Kept, lives: &dyn Fn(ProcessId) -> bool, sink: Sink<'_>) -> bool {
        let kind = kept.key.split_once('/').map_or("", |(kind, _)| kind);
        let is_read = match kind {
            BASELINE => {
                BaselineRecord::decode(&kept.bytes).map(|record| self.engine.restore(&record)).is_ok()
            }
            keeping::KIND => FlightRecord::decode(&kept.bytes)
                .map(|record| self.recall_flight(record, kept, lives, sink))
                .is_ok(),
            _ => false,
        };
        if !is_read {
            self.gone.push(kept.key.clone());
        }
        is_read
    }

    /// A process that is still there is known again; of one that is not, what it had under way is told.
    fn recall_flight(
        &mut self,
        record: FlightRecord,
        kept: &Kept,
        lives: &dyn Fn(ProcessId) -> bool,
        sink: Sink<'_>,
    ) {
        let found = Found { record, to_unix_ns: kept.to_unix_ns };
        match &mut self.collectives {
            Some(collectives) if kept.is_this_boot && lives(found.record.process) => {
                collectives.recall(found)
            }
            _ => self.tell_gone(&found, sink),
        }
    }

    fn tell_gone(&mut self, found: &Found, sink: Sink<'_>) {
        let Found { record, to_unix_ns } = found;
        let at = instant(record.at_ns.saturating_add_signed(*to_unix_ns));
        record.ranks.iter().for_each(|rank| Dump::of_record(record, rank).tell_gone(at, &self.records));
        let info = ProcessInfo { process: record.process, ..ProcessInfo::default() };
        take_records(&encoded(&resource::process(&info, &self.settings.host)), &self.records, sink);
        self.gone.push(keeping::key(record.process));
    }

    fn baselines(&mut self, out: &mut dyn FnMut(Change)) {
        for workload in self.engine.take_changed() {
            // One that was forgotten to make room for others goes.
            let bytes = self.engine.baseline_record(workload).map(|record| record.encode());
            out(Change { key: format!("{BASELINE}/{workload}"), bytes });
        }
    }
}
