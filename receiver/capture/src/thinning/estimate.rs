//! Estimates of the calls that a process made while probes were detached.
//!
//! A window is a sample. The calls between two windows are estimated by the ratio of calls to something that is known all
//! the time, in both windows together: hits of the probes that are never detached, such as waits, or the CPU time of the
//! process where these are too few. A process that waits then makes no calls, and one that loses its CPU makes fewer.
//! Hits slow the process down: their cost is subtracted from the CPU time of a window. An error of that cost by a tenth of
//! the time between two calls is one of a tenth in an estimate by CPU time, and none in one by hits.
//!
//! Windows begin at random times, so that calls in a regular pattern are neither missed nor counted by each window.

use std::collections::BTreeMap;

use crate::budget::{CLASSES, ClassSet, ProbeClass};

/// Share of the CPU time of a window that its hits are taken to leave, at least.
const LEFT_MIN: f64 = 0.02;
/// Essential hits in two windows from which on the ratio is that of hits.
const ESSENTIAL_MIN: u64 = 4;

/// A time, and what a process has done by then.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ProcessClock {
    /// CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// CPU time of all threads of the process, ns.
    pub cpu_ns: u64,
    /// Hits of [`ProbeClass::Essential`].
    pub essential: u64,
}

impl ProcessClock {
    /// Returns what was done since an earlier moment.
    fn since(&self, earlier: &ProcessClock) -> Work {
        Work {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns) as f64,
            essential: self.essential.saturating_sub(earlier.essential),
        }
    }
}

/// What a process did in some time.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    cpu_ns: f64,
    essential: u64,
}

/// A time in which the probes of some classes were attached.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// The classes.
    pub classes: ClassSet,
    /// When they were attached.
    pub open: ProcessClock,
    /// When they were detached.
    pub close: ProcessClock,
    /// Hits of their rows between the two times.
    pub hits: &'a [(u16, u64)],
    /// Hits since the window before that were outside of both: attaching and detaching take a moment.
    pub stray: &'a [(u16, u64)],
    /// CPU time that the hits took, ns.
    pub cost_ns: u64,
}

/// What a window showed.
#[derive(Clone, Debug, Default)]
struct Sample {
    hits: BTreeMap<u16, u64>,
    classes: ClassSet,
    /// Work without the cost of the hits.
    work: Work,
}

/// The calls that one process made unobserved.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// When each class was detached, if it is.
    detached: [Option<ProcessClock>; CLASSES],
    /// The last window.
    last: Sample,
    unobserved: BTreeMap<u16, f64>,
    /// CPU time per time between the last two windows.
    pace: f64,
}

impl Estimate {
    /// Notes that the probes of a class were detached.
    pub fn detach(&mut self, class: ProbeClass, at: ProcessClock) {
        self.detached[class as usize].get_or_insert(at);
    }

    /// Notes that the probes of a class stay attached from now on.
    pub fn attach(&mut self, class: ProbeClass, at: ProcessClock) {
        if let Some(since) = self.detached[class as usize].take() {
            let last = self.last.clone();
            self.extrapolate(class, &at.since(&since), &[&last]);
        }
    }

    /// Adds a window to what is known, and estimates the calls since the window before.
    pub fn window(&mut self, window: &Window<'_>) {
        let (sample, before) = (Sample::of(window), std::mem::take(&mut self.last));
        for class in window.classes.iter() {
            let Some(since) = self.detached[class as usize].replace(window.close) else { continue };
            let off = window.open.since(&since);
            self.pace = off.cpu_ns / window.open.at_ns.saturating_sub(since.at_ns).max(1) as f64;
            self.extrapolate(class, &off, &[&before, &sample]);
        }
        for (row, hits) in window.stray {
            *self.unobserved.entry(*row).or_default() -= *hits as f64;
        }
        self.last = sample;
    }

    /// Estimates the calls from the last window to the end of the process, whose CPU time is no longer known.
    pub fn end(&mut self, at_ns: u64) {
        let last = self.last.clone();
        for class in ProbeClass::THINNABLE {
            if let Some(since) = self.detached[class as usize].take() {
                let cpu_ns = at_ns.saturating_sub(since.at_ns) as f64 * self.pace;
                self.extrapolate(
                    class,
                    &Work { cpu_ns, essential: 0 },
                    &[&Sample { work: last.work.by_cpu(), ..last.clone() }],
                );
            }
        }
    }

    /// Returns the estimated number of calls of a row that were not observed.
    pub fn unobserved(&self, row: u16) -> u64 {
        self.unobserved.get(&row).copied().unwrap_or(0.0) as u64
    }

    /// Adds the calls of a class in some work, by their ratio in the samples that contain the class.
    fn extrapolate(&mut self, class: ProbeClass, work: &Work, samples: &[&Sample]) {
        let samples = || samples.iter().filter(|sample| sample.classes.contains(class));
        let essential: u64 = samples().map(|sample| sample.work.essential).sum();
        let cpu_ns: f64 = samples().map(|sample| sample.work.cpu_ns).sum();
        let factor = match essential {
            ESSENTIAL_MIN.. => work.essential as f64 / essential as f64,
            _ if cpu_ns > 0.0 => work.cpu_ns / cpu_ns,
            _ => 0.0,
        };
        for (row, hits) in
            samples().flat_map(|sample| &sample.hits).filter(|(row, _)| ProbeClass::of_row(**row) == class)
        {
            *self.unobserved.entry(*row).or_default() += *hits as f64 * factor;
        }
    }
}

impl Sample {
    fn of(window: &Window<'_>) -> Sample {
        let Work { cpu_ns, essential } = window.close.since(&window.open);
        let own_ns = (cpu_ns - window.cost_ns as f64).max(cpu_ns * LEFT_MIN);
        let hits = window.hits.iter().copied().collect();
        Sample { hits, classes: window.classes, work: Work { cpu_ns: own_ns, essential } }
    }
}

impl Work {
    /// Returns the work as it is compared by CPU time.
    fn by_cpu(self) -> Work {
        Work { essential: 0, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn row(symbol: &str) -> u16 {
        probe_abi::PROBES.iter().find(|p| p.symbol == symbol).unwrap().id
    }

    /// Returns a moment of a process that uses its CPU all the time.
    fn busy(ms: u64) -> ProcessClock {
        ProcessClock { at_ns: ms * MS, cpu_ns: ms * MS, essential: 0 }
    }

    fn launches() -> ClassSet {
        ClassSet::NONE.with(ProbeClass::Launch)
    }

    fn window<'a>(open: ProcessClock, close: ProcessClock, hits: &'a [(u16, u64)]) -> Window<'a> {
        let classes = hits.iter().fold(launches(), |all, (row, _)| all.with(ProbeClass::of_row(*row)));
        Window { classes, open, close, hits, stray: &[], cost_ns: 0 }
    }

    #[test]
    fn calls_between_windows_are_those_of_windows_by_cpu_time() {
        let (mut estimate, launch) = (Estimate::default(), row("cudaLaunchKernel"));
        estimate.detach(ProbeClass::Launch, busy(0));
        // Half of the CPU time of the window is the cost of its hits.
        let hits = [(launch, 100)];
        let stray = [(launch, 3)];
        estimate.window(&Window { cost_ns: 5 * MS, stray: &stray, ..window(busy(990), busy(1_000), &hits) });
        assert_eq!(estimate.unobserved(launch), 100 * 990 / 5 - 3);
        // The process waits, and uses no CPU.
        let (open, close) = (
            ProcessClock { at_ns: 1_990 * MS, ..busy(1_000) },
            ProcessClock { at_ns: 2_000 * MS, ..busy(1_000) },
        );
        estimate.window(&window(open, close, &[]));
        assert_eq!(estimate.unobserved(launch), 100 * 990 / 5 - 3);
    }

    /// The cost of a hit is known with an error, and contention changes it. Waits are counted all the time.
    #[test]
    fn calls_between_windows_are_those_of_windows_by_essential_hits() {
        let (mut estimate, launch) = (Estimate::default(), row("cudaLaunchKernel"));
        let at = |ms, essential| ProcessClock { essential, ..busy(ms) };
        estimate.detach(ProbeClass::Launch, at(0, 0));
        estimate.window(&window(at(990, 1_980), at(1_000, 1_990), &[(launch, 50)]));
        assert_eq!(estimate.unobserved(launch), 1_980 * 5);
        estimate.window(&window(at(1_990, 2_990), at(2_000, 3_000), &[(launch, 150)]));
        assert_eq!(estimate.unobserved(launch), 1_980 * 5 + 1_000 * 10, "both windows");
        estimate.attach(ProbeClass::Launch, at(2_100, 3_100));
        assert_eq!(estimate.unobserved(launch), 1_980 * 5 + 1_000 * 10 + 100 * 15);
    }

    #[test]
    fn classes_are_estimated_by_their_own_windows() {
        let (mut estimate, launch, copy) =
            (Estimate::default(), row("cudaLaunchKernel"), row("cudaMemcpyAsync"));
        estimate.detach(ProbeClass::Launch, busy(0));
        estimate.window(&window(busy(90), busy(100), &[(launch, 10)]));
        estimate.detach(ProbeClass::Copy, busy(100));
        estimate.window(&window(busy(190), busy(200), &[(launch, 10), (copy, 20)]));
        assert_eq!((estimate.unobserved(launch), estimate.unobserved(copy)), (180, 180));
        estimate.attach(ProbeClass::Copy, busy(210));
        estimate.attach(ProbeClass::Copy, busy(300));
        assert_eq!((estimate.unobserved(launch), estimate.unobserved(copy)), (180, 200));
    }

    #[test]
    fn ended_processes_are_estimated_by_their_last_window() {
        let (mut estimate, launch) = (Estimate::default(), row("cudaLaunchKernel"));
        let at = |ms| ProcessClock { at_ns: ms * MS, cpu_ns: ms * MS / 2, essential: ms };
        estimate.detach(ProbeClass::Launch, at(0));
        estimate.window(&window(at(90), at(100), &[(launch, 10)]));
        assert_eq!(estimate.unobserved(launch), 90);
        estimate.end(200 * MS);
        estimate.end(300 * MS);
        assert_eq!(estimate.unobserved(launch), 190);
    }

    /// Each window sees a part of the pattern only.
    #[test]
    fn estimates_of_bursts_are_unbiased() {
        let launch = row("cudaLaunchKernel");
        let mut random = 1u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as f64 / f64::from(1u32 << 31)
        };
        // Bursts of 30 ms in each 100 ms, a call every microsecond, with the CPU busy all the time.
        let calls = |ms: f64| (ms / 100.0).floor() * 30e3 + (ms % 100.0).min(30.0) * 1e3;
        let moment =
            |ms: f64| ProcessClock { at_ns: (ms * 1e6) as u64, cpu_ns: (ms * 1e6) as u64, essential: 0 };
        let mut errors = Vec::new();
        for _ in 0..200 {
            let (mut estimate, mut seen, mut ms) = (Estimate::default(), 0.0, 0.0);
            estimate.detach(ProbeClass::Launch, busy(0));
            while ms < 600_000.0 {
                let open = ms + 750.0 + next() * 500.0;
                let hits = calls(open + 16.0) - calls(open);
                estimate.window(&window(moment(open), moment(open + 16.0), &[(launch, hits as u64)]));
                (seen, ms) = (seen + hits, open + 16.0);
            }
            errors.push((seen + estimate.unobserved(launch) as f64) / calls(ms) - 1.0);
        }
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        assert!(mean.abs() < 0.02, "{mean}");
    }
}
