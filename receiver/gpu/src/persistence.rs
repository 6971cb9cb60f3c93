//! Persistence of the analysis: restores its state at the start, then writes changes once per second.

use std::time::{Duration, Instant};

use event::ProcessId;
use persist::PersistedRecords;

use crate::analyzer::Analyzer;
use crate::batch::Sink;

/// Interval between writes; a crash loses the changes since the last one.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// The unit of times in `/proc/PID/stat`: USER_HZ is 100 on all supported architectures.
const TICK_NS: u64 = 10_000_000;

/// The records of an analysis and the time of the last write.
pub(crate) struct Persistence {
    records: PersistedRecords,
    written_at: Instant,
}

impl Persistence {
    pub(crate) fn new(records: PersistedRecords) -> Persistence {
        Persistence { records, written_at: Instant::now() }
    }

    /// Restores the state of earlier runs.
    pub(crate) fn restore(&mut self, analyzer: &mut Analyzer, sink: Sink<'_>) {
        analyzer.restore(&self.records.take_restored(), &is_alive, sink);
    }

    /// Writes changes and checks for ended processes, if the interval has elapsed.
    pub(crate) fn poll(&mut self, analyzer: &mut Analyzer, sink: Sink<'_>) {
        if self.written_at.elapsed() >= WRITE_INTERVAL {
            self.written_at = Instant::now();
            analyzer.report_ended(&is_alive, sink);
            analyzer.changes(&mut |change| self.records.put(change));
            self.records.flush();
            analyzer.set_persist_drops(self.records.drops());
        }
    }

    /// Writes the last changes, waiting for a batch in progress.
    pub(crate) fn close(mut self, analyzer: &mut Analyzer) {
        analyzer.last_changes(&mut |change| self.records.put(change));
        self.records.close();
    }
}

/// Returns whether this very process is running: neither a zombie nor another process with a reused pid.
fn is_alive(process: ProcessId) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
    is_alive_by(&stat, process)
}

/// Reads the fields after the name, which may contain anything: the first is the state, the 20th the start time.
fn is_alive_by(stat: &str, process: ProcessId) -> bool {
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let started = fields.get(19).and_then(|ticks| ticks.parse::<u64>().ok());
    let has_ended = fields.first().is_none_or(|state| ["X", "Z"].contains(state));
    !has_ended && started == Some(process.start_ns / TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_pids_and_zombies_are_not_alive() {
        let stat = |state| {
            format!(
                "7 (a) S 1 (b)) {state} 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4200 0 0 18446744073709551615"
            )
        };
        let process = |start_ns| ProcessId { pid: 7, start_ns };
        assert!(is_alive_by(&stat("S"), process(42_009_999_999)));
        assert!(!is_alive_by(&stat("S"), process(42_010_000_000)));
        assert!(!is_alive_by(&stat("Z"), process(42_000_000_000)));
        assert!(!is_alive_by("", process(0)));
    }
}
