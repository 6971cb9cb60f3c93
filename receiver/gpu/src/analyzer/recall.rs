//! What outlives the analysis: what it takes over from an earlier run, and what it leaves to the next.
//!
//! A kind of record is the first part of its key. Baselines change with every step and are worth little each: they are
//! told now and then, and at the end.

use event::ProcessId;
use steps::BaselineRecord;

use super::Analyzer;
use crate::batch::Sink;
use crate::keep::{Change, Kept, Left};
use crate::tell;

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

    /// What changed, since this was last asked, of the records that are to outlive the analysis.
    pub fn changes(&mut self, out: &mut dyn FnMut(Change)) {
        self.gone.drain(..).for_each(|key| out(Change { key, bytes: None }));
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
    fn recall_one(&mut self, kept: &Kept, _lives: &dyn Fn(ProcessId) -> bool, _sink: Sink<'_>) -> bool {
        let kind = kept.key.split_once('/').map_or("", |(kind, _)| kind);
        let is_read = match kind {
            BASELINE => {
                BaselineRecord::decode(&kept.bytes).map(|record| self.engine.restore(&record)).is_ok()
            }
            _ => false,
        };
        if !is_read {
            self.gone.push(kept.key.clone());
        }
        is_read
    }

    fn baselines(&mut self, out: &mut dyn FnMut(Change)) {
        for workload in self.engine.take_changed() {
            let record = self.engine.baseline_record(workload);
            let bytes = record.map(|record| record.encode());
            bytes.into_iter().for_each(|bytes| {
                out(Change { key: format!("{BASELINE}/{workload}"), bytes: Some(bytes) });
            });
        }
    }
}
