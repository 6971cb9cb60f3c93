//! Collectives as text: a line for each rank of each communicator, and a sentence for each verdict.

use std::collections::BTreeMap;

use nccl::finding::{Completed, Enqueued};
use nccl::{CommunicatorId, Finding, RankIdentity};

use crate::commands::terminal::{count, human};

/// Maximum number of lines; findings of further ranks are only counted.
const LINES_MAX: usize = 1_000;
/// Number of collectives that the latest wait of a rank is averaged over.
const LATEST: f64 = 8.0;

/// Collectives of one rank of one communicator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    collectives: u64,
    bytes: u64,
    waits: u64,
    wait_ns: f64,
    /// Moving average of the wait, in nanoseconds.
    pub(crate) latest_wait_ns: f64,
    verdicts: u64,
    pub(crate) is_late: bool,
}

/// The ranks, sorted by communicator and number.
#[derive(Default)]
pub(crate) struct Ranks {
    lines: BTreeMap<(CommunicatorId, Option<u32>, u32), Line>,
    left_out: u64,
}

impl Ranks {
    /// Counts a finding.
    pub(crate) fn add(&mut self, finding: &Finding) {
        match finding {
            Finding::Enqueued(found) => self.enqueued(found),
            Finding::Completed(found) => self.completed(found),
            Finding::Straggler(found) => self.late(&found.who, true),
            Finding::Recovered(found) => self.late(&found.who, false),
            _ => {}
        }
    }

    fn line(&mut self, who: &RankIdentity) -> Option<&mut Line> {
        let key = (who.communicator, who.rank.value, who.process.pid);
        if self.lines.len() >= LINES_MAX && !self.lines.contains_key(&key) {
            self.left_out += 1;
            return None;
        }
        Some(self.lines.entry(key).or_default())
    }

    fn enqueued(&mut self, found: &Enqueued) {
        let Some(line) = self.line(&found.who) else { return };
        line.collectives += 1;
        line.bytes = line.bytes.saturating_add(found.bytes.unwrap_or(0));
    }

    fn completed(&mut self, found: &Completed) {
        let Some(line) = self.line(&found.who) else { return };
        let wait_ns = found.barrier_wait_ns as f64;
        line.waits += 1;
        line.wait_ns += wait_ns;
        line.latest_wait_ns += (wait_ns - line.latest_wait_ns) / LATEST.min(line.waits as f64);
    }

    fn late(&mut self, who: &RankIdentity, is_late: bool) {
        let Some(line) = self.line(who) else { return };
        line.verdicts += u64::from(is_late);
        line.is_late = is_late;
    }

    /// Returns the name and line of each rank, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (String, &Line)> {
        self.lines.iter().map(|((_, rank, pid), line)| match rank {
            Some(rank) => (format!("rank {rank}"), line),
            None => (format!("pid {pid}"), line),
        })
    }

    /// Returns the rows of the table; empty without collectives.
    pub(crate) fn table(&self) -> Vec<String> {
        if self.lines.is_empty() {
            return Vec::new();
        }
        let mut rows = vec![format!(
            "{:>8} {:>18} {:>5} {:>11} {:>9} {:>10} {:>9}",
            "pid", "communicator", "rank", "operations", "MB", "mean wait", "verdicts"
        )];
        rows.extend(self.lines.iter().map(|((communicator, rank, pid), line)| {
            let rank = rank.map_or("?".to_owned(), |rank| rank.to_string());
            format!("{pid:>8} {:>18} {rank:>5} {}", communicator.to_string(), line.row())
        }));
        if self.left_out > 0 {
            rows.push(format!("      and {} beyond {LINES_MAX} lines", count(self.left_out, "finding")));
        }
        rows
    }
}

impl Line {
    fn row(&self) -> String {
        let (megabytes, wait) = (self.bytes as f64 / 1e6, human(self.wait_ns / self.waits.max(1) as f64));
        format!("{:>11} {megabytes:>9.1} {wait:>10} {:>9}", self.collectives, self.verdicts)
    }
}

/// Returns a verdict as one sentence, and whether it is a problem; none for other findings.
pub(crate) fn verdict(finding: &Finding) -> Option<(bool, String)> {
    Some(match finding {
        Finding::Straggler(found) => {
            let (behind, rounds) = (human(found.behind_ns as f64), found.rounds);
            let text = format!(
                "is {behind} behind its peers in {} of {}",
                found.late_rounds,
                count(rounds as u64, "collective")
            );
            (true, format!("{} of {} {text}", found.who, found.who.communicator))
        }
        Finding::Recovered(found) => {
            (false, format!("{} of {} is no longer late", found.who, found.who.communicator))
        }
        Finding::Hang(found) => {
            let missing: Vec<String> = found.missing.iter().map(|absent| absent.who.to_string()).collect();
            let (operation, seq) = (found.operation.name(), found.seq);
            let (waiting, missing) = (found.waiting.len(), missing.join(", "));
            let absent = if missing.is_empty() { "another node".to_owned() } else { missing };
            (
                true,
                format!(
                    "{} hangs in {operation} #{seq}: {} waiting for {absent}",
                    found.communicator,
                    count(waiting as u64, "rank")
                ),
            )
        }
        Finding::HangOver(found) => {
            let hung = human(found.duration_ns as f64);
            (false, format!("{} continues after {hung} in #{}", found.communicator, found.seq))
        }
        _ => return None,
    })
}
