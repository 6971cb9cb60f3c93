//! How far the probes of a process are thinned: which classes, and for how much of the time they are attached.
//!
//! Of each period, the probes of the thinned classes are attached for one window. A long window shows whole steps, and of
//! short ones there are more: the first levels have a window each second, the others short windows.

use event::{CLASSES, ClassSet, ProbeClass};

/// Period of long windows, ns.
const PERIOD_NS: u64 = 1_000_000_000;
/// Halvings of the period from which on windows are short.
const SHORT_FROM: u8 = 5;
/// Length of a short window, ns. Attaching takes as long.
const SHORT_NS: u64 = 8_000_000;
/// Time for which breakpoints stay after a window although nothing is counted any more, ns, as it was measured: after a
/// long window the kernel waits for an RCU grace period before it removes them, after a short one it has just done so.
const TAIL_NS: u64 = 12_000_000;
const SHORT_TAIL_NS: u64 = 1_000_000;
/// Smallest share of the budget for which a class is worth thinning.
const WORTH: f64 = 0.05;

/// Number of steps of [`ThinningLevel::halvings`].
const HALVINGS_MAX: u8 = 10;

/// How far the probes of a process are thinned.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ThinningLevel {
    /// The thinned classes; empty if none is.
    pub classes: ClassSet,
    /// The probes of these classes are attached for 2^-n of the time.
    pub halvings: u8,
}

impl ThinningLevel {
    /// Nothing is thinned.
    pub const FULL: ThinningLevel = ThinningLevel { classes: ClassSet::NONE, halvings: 0 };

    /// Returns the level that keeps a thread within `target`, a share of its time, and gives up least: the first classes
    /// that suffice, attached as long as possible. If none suffices, the lowest level of all classes. `shares` are those
    /// of the classes while they are attached.
    pub fn within(shares: &[f64; CLASSES], target: f64) -> ThinningLevel {
        let mut level = ThinningLevel::FULL;
        if level.predict(shares) <= target {
            return level;
        }
        for class in ProbeClass::THINNABLE {
            if shares[class as usize] < target * WORTH {
                continue;
            }
            level.classes = level.classes.with(class);
            for halvings in 1..=HALVINGS_MAX {
                level.halvings = halvings;
                if level.predict(shares) <= target {
                    return level;
                }
            }
        }
        if level.classes.is_empty() { ThinningLevel::FULL } else { level }
    }

    /// Returns the share of a thread's time that its probes take at this level.
    pub fn predict(&self, shares: &[f64; CLASSES]) -> f64 {
        let share = |class: ProbeClass| match self.classes.contains(class) {
            true => shares[class as usize] * self.cost(),
            false => shares[class as usize],
        };
        ProbeClass::ALL.into_iter().map(share).sum()
    }

    /// Returns the part of the time for which the probes of thinned classes cost something.
    fn cost(&self) -> f64 {
        let tail_ns = if self.is_short() { SHORT_TAIL_NS } else { TAIL_NS };
        (self.window_ns() + tail_ns) as f64 / self.period_ns() as f64
    }

    /// Returns the length of a window, ns.
    pub fn window_ns(&self) -> u64 {
        if self.is_short() { SHORT_NS } else { PERIOD_NS >> self.halvings }
    }

    fn is_short(&self) -> bool {
        self.halvings >= SHORT_FROM
    }

    /// Returns the time from the beginning of a window to that of the next one, ns.
    pub fn period_ns(&self) -> u64 {
        self.window_ns() << self.halvings
    }

    /// Returns how much is given up: the thinned classes, each by the share of the time without its probes.
    pub fn given_up(&self) -> f64 {
        self.classes.iter().count() as f64 * (1.0 - self.duty())
    }

    /// Returns the share of the time for which the probes of thinned classes are attached.
    pub fn duty(&self) -> f64 {
        if self.classes.is_empty() { 1.0 } else { 1.0 / f64::from(1u32 << self.halvings) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: f64 = 0.01;

    fn within(shares: [f64; CLASSES]) -> (Vec<ProbeClass>, u8) {
        let level = ThinningLevel::within(&shares, BUDGET);
        (level.classes.iter().collect(), level.halvings)
    }

    #[test]
    fn nothing_is_thinned_within_the_budget() {
        assert_eq!(ThinningLevel::within(&[0.004, 0.003, 0.001, 0.002], BUDGET), ThinningLevel::FULL);
    }

    #[test]
    fn launches_are_given_up_first() {
        assert_eq!(within([0.02, 0.004, 0.001, 0.0]), (vec![ProbeClass::Launch], 3));
        assert_eq!(within([0.02, 0.3, 0.0, 0.0]), (vec![ProbeClass::Launch, ProbeClass::Copy], 6));
        assert_eq!(
            within([0.02, 0.3, 0.4, 0.0]),
            (vec![ProbeClass::Launch, ProbeClass::Copy, ProbeClass::Call], 7)
        );
    }

    #[test]
    fn classes_that_cost_nothing_are_not_thinned() {
        assert_eq!(within([0.0, 0.0, 0.3, 0.0]), (vec![ProbeClass::Call], 6));
        assert_eq!(within([0.0, 0.0, 0.0, 0.3]), (vec![], 0), "nothing helps");
    }

    #[test]
    fn windows_are_the_share_of_their_period() {
        for halvings in 1..=HALVINGS_MAX {
            let level = ThinningLevel { halvings, classes: ClassSet::NONE.with(ProbeClass::Launch) };
            assert!(level.window_ns() >= SHORT_NS && level.period_ns() >= SHORT_NS << SHORT_FROM);
            let duty = level.window_ns() as f64 / level.period_ns() as f64;
            assert!((duty - level.duty()).abs() < 1e-9, "{halvings}: {duty}");
        }
    }
}
