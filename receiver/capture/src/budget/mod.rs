//! The budget of the probes: how far each process is thinned so that no traced thread spends more than a share of its time
//! in them. Decides only: it reads no clock and no map, and [`crate::thinning`] applies its decisions.
//!
//! The kernel counts hits by process, so a process is taken for one thread that made all of its calls; none of its threads
//! spends more than that. A decision has three parts:
//!
//! - **Down at once.** Costs are summed over the last second. When they exceed the budget, the level is chosen by the
//!   most expensive of the intervals in it, because a storm usually begins within an interval.
//! - **Up after three windows.** While a class is thinned, its share is known from its windows only. When the last three
//!   all allow a higher level with half of the budget to spare, and the level is old enough, it rises to that level.
//! - **Up less often each time.** A process that is thinned again soon after it recovered must hold its level twice as
//!   long, up to a minute.

mod level;

use std::collections::BTreeMap;

pub use event::{CLASSES, ClassSet, ProbeClass};

pub use self::level::ThinningLevel;

/// Interval at which costs are observed, ns.
pub const INTERVAL_NS: u64 = 250_000_000;
/// Intervals over which the share is averaged.
const INTERVALS: usize = 4;
/// Windows that must agree before a level rises.
const WINDOWS: usize = 3;
/// Share of the budget that a new, lower level aims at.
const AIM: f64 = 0.8;
/// Share of the budget that a higher level must keep free.
const RISE: f64 = 0.5;
const HOLD_NS_MIN: u64 = 2_000_000_000;
const HOLD_NS_MAX: u64 = 64_000_000_000;
/// Time at full level after which the hold time is the shortest again.
const QUIET_NS: u64 = 300_000_000_000;

/// The cost of a hit to the thread that makes it, measured on this machine, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HitCosts {
    /// Of a launch, whose entry alone is probed.
    pub launch_ns: u64,
    /// Of a timed call.
    pub timed_ns: u64,
}

impl HitCosts {
    fn of(&self, class: ProbeClass) -> u64 {
        if class == ProbeClass::Launch { self.launch_ns } else { self.timed_ns }
    }

    /// Returns the cost of hits by class, ns.
    pub fn by_class(&self, hits: &[u64; CLASSES]) -> [u64; CLASSES] {
        ProbeClass::ALL.map(|class| hits[class as usize].saturating_mul(self.of(class)))
    }
}

/// What is known of one process.
#[derive(Clone, Debug, Default)]
struct State {
    /// Shares of the classes in the last intervals, the latest last. Zero for classes that were thinned.
    intervals: [[f64; CLASSES]; INTERVALS],
    /// Shares of the thinned classes in the last windows, the latest last.
    windows: [[f64; CLASSES]; WINDOWS],
    /// Windows since the level changed.
    seen: usize,
    level: ThinningLevel,
    since_ns: u64,
    hold_ns: u64,
}

/// The budget, and the level of each process.
#[derive(Debug)]
pub struct Budget {
    share: f64,
    costs: HitCosts,
    processes: BTreeMap<u32, State>,
}

/// A change of the level of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The level before.
    pub from: ThinningLevel,
    /// The new level.
    pub to: ThinningLevel,
    /// Share of a thread's time that the probes took, or would take at full level.
    pub share: f64,
}

impl Budget {
    /// Creates a budget of this share of each thread's time.
    pub fn new(share: f64, costs: HitCosts) -> Budget {
        Budget { share, costs, processes: BTreeMap::new() }
    }

    /// Returns the cost of a hit.
    pub fn costs(&self) -> HitCosts {
        self.costs
    }

    /// Returns the level of a process.
    pub fn level(&self, pid: u32) -> ThinningLevel {
        self.processes.get(&pid).map_or(ThinningLevel::FULL, |state| state.level)
    }

    /// Returns the share of one thread's time that the probes of a process take at its level, averaged over the last second.
    pub fn share(&self, pid: u32) -> f64 {
        self.processes.get(&pid).map_or(0.0, |state| state.level.predict(&state.average()))
    }

    /// Returns whether the share of a process is above the budget although nothing more can be thinned.
    pub fn is_exceeded(&self, pid: u32) -> bool {
        self.share(pid) > self.share
    }

    /// Removes a process that ended.
    pub fn remove(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// Observes the hits of a window, which was open for `open_ns`.
    pub fn window(&mut self, pid: u32, open_ns: u64, hits: &[u64; CLASSES]) {
        let Some(state) = self.processes.get_mut(&pid) else { return };
        let shares = self.costs.by_class(hits).map(|cost| ratio(cost, open_ns));
        state.windows.rotate_left(1);
        state.windows[WINDOWS - 1] = shares;
        // The first window of a level replaces what stood in for it.
        if state.seen == 0 {
            state.windows = [shares; WINDOWS];
        }
        state.seen += 1;
    }

    /// Observes the hits of an interval up to `now_ns`, and returns the change of the level, if any.
    pub fn interval(
        &mut self,
        pid: u32,
        now_ns: u64,
        interval_ns: u64,
        hits: &[u64; CLASSES],
    ) -> Option<Change> {
        let costs = self.costs.by_class(hits);
        let state =
            self.processes.entry(pid).or_insert_with(|| State { hold_ns: HOLD_NS_MIN, ..State::default() });
        state.push(costs.map(|cost| ratio(cost, interval_ns)));
        let from = state.level;
        let change = state.lower(self.share).or_else(|| state.raise(self.share, now_ns));
        let (to, share) = change.filter(|(to, _)| *to != from)?;
        state.set(to, now_ns);
        Some(Change { from, to, share })
    }
}

fn ratio(cost_ns: u64, of_ns: u64) -> f64 {
    (cost_ns as f64 / of_ns.max(1) as f64).min(1.0)
}

impl State {
    /// Adds the shares of an interval. Those of thinned classes are known from their windows.
    fn push(&mut self, shares: [f64; CLASSES]) {
        self.intervals.rotate_left(1);
        self.intervals[INTERVALS - 1] = shares;
        self.clear_thinned();
    }

    fn clear_thinned(&mut self) {
        for class in self.level.classes.iter() {
            self.intervals.iter_mut().for_each(|shares| shares[class as usize] = 0.0);
        }
    }

    /// Returns the average share of each class while it is attached.
    fn average(&self) -> [f64; CLASSES] {
        self.shares(|values| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Returns the largest share of each class while it is attached.
    fn peak(&self) -> [f64; CLASSES] {
        self.shares(|values| values.iter().copied().fold(0.0, f64::max))
    }

    fn shares(&self, of: impl Fn(&[f64]) -> f64) -> [f64; CLASSES] {
        ProbeClass::ALL.map(|class| match self.level.classes.contains(class) {
            true => of(&self.windows.map(|shares| shares[class as usize])),
            false => of(&self.intervals.map(|shares| shares[class as usize])),
        })
    }

    /// Returns a lower level if the share is above the budget.
    fn lower(&self, budget: f64) -> Option<(ThinningLevel, f64)> {
        let share = self.level.predict(&self.average());
        let peak = self.peak();
        let to = ThinningLevel::within(&peak, budget * AIM);
        let is_lower = share > budget && to.predict(&peak) < self.level.predict(&peak);
        is_lower.then_some((to, share))
    }

    /// Returns a higher level if the last windows allow it.
    fn raise(&self, budget: f64, now_ns: u64) -> Option<(ThinningLevel, f64)> {
        let is_old = now_ns.saturating_sub(self.since_ns) >= self.hold_ns;
        if self.seen < WINDOWS || !is_old {
            return None;
        }
        let peak = self.peak();
        let to = ThinningLevel::within(&peak, budget * RISE);
        (to.given_up() < self.level.given_up()).then(|| (to, peak.iter().sum()))
    }

    fn set(&mut self, to: ThinningLevel, now_ns: u64) {
        if self.level == ThinningLevel::FULL {
            let is_soon = self.since_ns > 0 && now_ns.saturating_sub(self.since_ns) < QUIET_NS;
            self.hold_ns = if is_soon { (self.hold_ns * 2).min(HOLD_NS_MAX) } else { HOLD_NS_MIN };
        }
        // The share of a class that was attached until now stands in for that of its first windows.
        self.windows = [self.peak(); WINDOWS];
        (self.level, self.since_ns, self.seen) = (to, now_ns, 0);
        self.clear_thinned();
    }
}

#[cfg(test)]
mod tests;
