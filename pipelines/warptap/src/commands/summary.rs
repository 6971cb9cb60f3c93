//! The findings as tables: a line for each process, stream and phase, and one for each rank of a communicator.

use std::collections::BTreeMap;

use event::ProcessId;
use gpu::Found;
use steps::{Finding, Outlier, Phase, Step};

use crate::commands::ranks::Ranks;
use crate::commands::terminal::{count, human};

/// Maximum number of durations stored per line; the p95 is that of the first ones, counts and means are exact.
const DURATIONS_MAX: usize = 100_000;
/// Maximum number of lines; steps of further lines are only counted.
const LINES_MAX: usize = 1_000;

/// Steps of one process, stream and phase.
#[derive(Default)]
struct Line {
    count: u64,
    sum_ns: u64,
    durations: Vec<u64>,
    confidence: f64,
    outliers: u64,
    unfinished: u64,
}

/// Steps by process, stream and phase, and collectives by rank.
#[derive(Default)]
pub(crate) struct Summary {
    pub(crate) ranks: Ranks,
    lines: BTreeMap<(ProcessId, u32, &'static str), Line>,
    left_out: u64,
    shifts: u64,
}

impl Summary {
    /// Counts a finding.
    pub(crate) fn add(&mut self, found: Found<'_>) {
        match found {
            Found::Step(Finding::Step(step)) => self.step(step),
            Found::Step(Finding::BaselineShift(_)) => self.shifts += 1,
            Found::Collective(finding) => self.ranks.add(finding),
        }
    }

    fn step(&mut self, step: &Step) {
        let key = (step.process, step.stream, step.phase.as_str());
        if self.lines.len() >= LINES_MAX && !self.lines.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let line = self.lines.entry(key).or_default();
        line.count += 1;
        line.sum_ns += step.duration_ns;
        line.confidence += step.confidence;
        line.outliers += u64::from(step.outlier != Outlier::None);
        line.unfinished += u64::from(step.is_unfinished);
        if line.durations.len() < DURATIONS_MAX {
            line.durations.push(step.duration_ns);
        }
    }

    /// Returns the total number of steps.
    pub(crate) fn steps(&self) -> u64 {
        self.lines.values().map(|l| l.count).sum()
    }

    /// Returns the total number of outliers.
    pub(crate) fn outliers(&self) -> u64 {
        self.lines.values().map(|l| l.outliers).sum()
    }

    /// Returns the rows of the tables.
    pub(crate) fn table(&self) -> Vec<String> {
        let mut rows = vec![format!(
            "{:>8} {:>6}  {:<8} {:>7} {:>10} {:>10} {:>10} {:>9} {:>11}",
            "pid", "stream", "phase", "steps", "mean", "p95", "confidence", "outliers", "unfinished"
        )];
        rows.extend(self.lines.iter().map(|((process, stream, phase), l)| l.row(*process, *stream, phase)));
        if self.lines.is_empty() {
            rows.push("      no steps: no process enqueued work and waited for it".to_owned());
        }
        if self.left_out > 0 {
            rows.push(format!("      and {} beyond {LINES_MAX} lines", count(self.left_out, "step")));
        }
        if self.shifts > 0 {
            rows.push(format!("      {}", count(self.shifts, "baseline shift")));
        }
        rows.extend(self.ranks.table());
        rows
    }

    /// Returns the count, mean duration in nanoseconds and outliers of one phase, over all processes.
    pub(crate) fn phase(&self, phase: Phase) -> (u64, f64, u64) {
        let lines = self.lines.iter().filter(|((_, _, p), _)| *p == phase.as_str()).map(|(_, l)| l);
        let (count, sum, outliers) =
            lines.fold((0, 0, 0), |(c, s, o), l| (c + l.count, s + l.sum_ns, o + l.outliers));
        (count, sum as f64 / (count as f64).max(1.0), outliers)
    }
}

impl Line {
    fn row(&self, process: ProcessId, stream: u32, phase: &str) -> String {
        let mean = self.sum_ns as f64 / self.count.max(1) as f64;
        let confidence = self.confidence / self.count.max(1) as f64;
        format!(
            "{:>8} {stream:>6}  {phase:<8} {:>7} {:>10} {:>10} {confidence:>10.2} {:>9} {:>11}",
            process.pid,
            self.count,
            human(mean),
            human(p95(&self.durations)),
            self.outliers,
            self.unfinished
        )
    }
}

fn p95(durations: &[u64]) -> f64 {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    // The smallest duration that 95% do not exceed.
    let rank = (sorted.len() * 95).div_ceil(100).saturating_sub(1);
    sorted.get(rank).copied().unwrap_or(0) as f64
}

#[cfg(test)]
mod tests {
    use super::p95;

    #[test]
    fn the_p95_is_the_smallest_sufficient_duration() {
        assert_eq!(p95(&(1..=100).collect::<Vec<_>>()), 95.0);
        assert_eq!((p95(&[7]), p95(&[])), (7.0, 0.0));
    }
}
