//! Restoring the analysis from earlier runs, and persisting its changes.
//!
//! The first part of a record's key is its type. Baselines change with every step, so they are persisted at an interval and
//! at the end.

use event::{ProcessId, ProcessInfo};
use instrumentation::{encoded, instant};
use nccl::FlightRecord;
use persist::{RecordChange, RestoredState, StoredRecord};
use steps::BaselineRecord;

use super::Analyzer;
use crate::batch::{Sink, take_records};
use crate::collectives::dump::Dump;
use crate::collectives::persisted::{self, Found};
use crate::emit;

/// The key prefix of baselines, one for each workload.
const BASELINE: &str = "baseline";
/// Interval between writes of baselines, ns.
const BASELINES_EVERY_NS: u64 = 30_000_000_000;

impl Analyzer {
    /// Restores the state of earlier runs; call it before the first event. `is_alive` returns whether a process is
    /// running.
    pub fn restore(
        &mut self,
        restored: &RestoredState,
        is_alive: &dyn Fn(ProcessId) -> bool,
        sink: Sink<'_>,
    ) {
        self.clock.set(restored.clock);
        let unread = restored.records.iter().filter(|r| !self.restore_record(r, is_alive, sink)).count();
        self.account.corrupted_records = restored.corrupted.saturating_add(unread as u64);
        if self.account.corrupted_records > 0 {
            let at_unix = self.clock.unix(restored.clock.at_ns);
            emit::corrupted_records(
                &self.receiver,
                self.account.corrupted_records,
                at_unix,
                &self.records,
                sink,
            );
        }
    }

    /// Reports restored processes that ended before they were observed again. `is_alive` as in [`Analyzer::restore`].
    pub fn report_ended(&mut self, is_alive: &dyn Fn(ProcessId) -> bool, sink: Sink<'_>) {
        let ended = self.collectives.iter_mut().flat_map(|c| c.take_ended(is_alive)).collect::<Vec<_>>();
        ended.iter().for_each(|found| self.report_flight(found, sink));
    }

    /// Calls `out` with the record changes since the last call.
    pub fn changes(&mut self, out: &mut dyn FnMut(RecordChange)) {
        self.deleted_records.drain(..).for_each(|key| out(RecordChange { key, bytes: None }));
        self.collectives.iter_mut().for_each(|collectives| collectives.changes(out));
        if self.clock.now_ns() >= self.baselines_at_ns {
            self.baselines_at_ns = self.clock.now_ns().saturating_add(BASELINES_EVERY_NS);
            self.baselines(out);
        }
    }

    /// Calls `out` with all remaining record changes, including baselines; call it at the end.
    pub fn last_changes(&mut self, out: &mut dyn FnMut(RecordChange)) {
        self.baselines_at_ns = 0;
        self.changes(out);
    }

    /// Restores a record; returns false and deletes it if it cannot be read.
    fn restore_record(
        &mut self,
        record: &StoredRecord,
        is_alive: &dyn Fn(ProcessId) -> bool,
        sink: Sink<'_>,
    ) -> bool {
        let kind = record.key.split_once('/').map_or("", |(kind, _)| kind);
        let is_read = match kind {
            BASELINE => {
                BaselineRecord::decode(&record.bytes).map(|baseline| self.engine.restore(&baseline)).is_ok()
            }
            persisted::KIND => FlightRecord::decode(&record.bytes)
                .map(|flight| self.restore_flight(flight, record, is_alive, sink))
                .is_ok(),
            _ => false,
        };
        if !is_read {
            self.deleted_records.push(record.key.clone());
        }
        is_read
    }

    /// Restores the collectives of a running process, or reports the operations in progress of an ended one.
    fn restore_flight(
        &mut self,
        flight: FlightRecord,
        stored: &StoredRecord,
        is_alive: &dyn Fn(ProcessId) -> bool,
        sink: Sink<'_>,
    ) {
        let found = Found { record: flight, to_unix_ns: stored.to_unix_ns };
        match &mut self.collectives {
            Some(collectives) if stored.is_this_boot && is_alive(found.record.process) => {
                collectives.restore(found)
            }
            _ => self.report_flight(&found, sink),
        }
    }

    fn report_flight(&mut self, found: &Found, sink: Sink<'_>) {
        let Found { record, to_unix_ns } = found;
        let at = instant(record.at_ns.saturating_add_signed(*to_unix_ns));
        record
            .ranks
            .iter()
            .for_each(|rank| Dump::of_record(record, rank).log_ended_process(at, &self.records));
        let info = ProcessInfo { process: record.process, ..ProcessInfo::default() };
        take_records(&encoded(&instrumentation::process(&info, &self.settings.host)), &self.records, sink);
        self.deleted_records.push(persisted::key(record.process));
    }

    fn baselines(&mut self, out: &mut dyn FnMut(RecordChange)) {
        for workload in self.engine.take_changed() {
            // An evicted baseline is deleted.
            let bytes = self.engine.baseline_record(workload).map(|record| record.encode());
            out(RecordChange { key: format!("{BASELINE}/{workload}"), bytes });
        }
    }
}
