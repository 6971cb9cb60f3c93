//! The keys under `overhead`: what probes may cost.

use config::Percent;

/// The minimum budget: with less, probes would be detached almost always.
const BUDGET_MIN: Percent = Percent::of(0.1);

config::section! {
    /// What probes may cost the processes that they are in.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OverheadConfig {
        /// Share of its time that a thread may spend in probes. Above it, the probes of its process are attached for a part
        /// of the time only: those of launches first, then those of copies, then those of other calls that neither wait
        /// nor order work. Their counts are then estimates. `100%` is no limit.
        pub budget: Percent = Percent::of(1.0) => in BUDGET_MIN..=Percent::of(100.0),
    }
}

impl OverheadConfig {
    /// Returns the budget as a share, if there is one.
    pub(super) fn share(&self) -> Option<f64> {
        Some(self.budget.share()).filter(|share| *share < 1.0)
    }
}
