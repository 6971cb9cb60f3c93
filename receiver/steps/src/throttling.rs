//! The shares of a time in which each reason throttled a GPU's clocks, and the usual shares.
//!
//! Usual shares are learnt from the same steps as baselines. So the power limit of a GPU that always runs at it is not
//! reported as a cause, and throttling does not become usual by lasting, as its steps are not learnt from.

use event::ThrottleReason;

/// The number of steps that usual shares are averaged over.
const MEMORY: f32 = 128.0;

/// Shares of a time by reason, each 0 to 1. Several reasons may apply at once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThrottleShares([f32; ThrottleReason::ALL.len()]);

impl ThrottleShares {
    /// Returns the share in which this reason throttled the clocks.
    pub fn of(&self, reason: ThrottleReason) -> f64 {
        f64::from(self.0[reason as usize])
    }

    /// Adds to the share of a reason, up to 1.
    pub(crate) fn add(&mut self, reason: ThrottleReason, share: f64) {
        let sum = &mut self.0[reason as usize];
        *sum = (*sum + share as f32).min(1.0);
    }

    /// Returns the largest excess of a reason's share over its usual share; 0 without one.
    pub(crate) fn excess(&self, usual: &ThrottleShares) -> f64 {
        ThrottleReason::ALL.iter().map(|reason| self.of(*reason) - usual.of(*reason)).fold(0.0, f64::max)
    }
}

/// Usual shares, learnt step by step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct UsualShares {
    pub(crate) mean: ThrottleShares,
    /// Steps learnt from, up to [`MEMORY`].
    count: f32,
}

impl UsualShares {
    /// Learns from a step with these shares.
    pub(crate) fn learn(&mut self, shares: &ThrottleShares) {
        self.count = (self.count + 1.0).min(MEMORY);
        for (mean, share) in self.mean.0.iter_mut().zip(shares.0) {
            *mean += (share - *mean) / self.count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(cap: f64, brake: f64) -> ThrottleShares {
        let mut shares = ThrottleShares::default();
        shares.add(ThrottleReason::SwPowerCap, cap);
        shares.add(ThrottleReason::HwPowerBrake, brake);
        shares
    }

    #[test]
    fn excess_is_the_largest_of_any_reason() {
        let mut usual = UsualShares::default();
        (0..300).for_each(|_| usual.learn(&shares(1.0, 0.0)));
        assert_eq!(shares(1.0, 0.0).excess(&usual.mean), 0.0);
        assert_eq!(shares(1.0, 0.75).excess(&usual.mean), 0.75);
        assert_eq!(shares(0.0, 0.0).excess(&usual.mean), 0.0);
    }

    #[test]
    fn usual_shares_start_unbiased() {
        let mut usual = UsualShares::default();
        usual.learn(&shares(0.5, 0.0));
        assert_eq!(usual.mean, shares(0.5, 0.0));
        (0..2_000).for_each(|_| usual.learn(&shares(1.0, 0.0)));
        assert!(usual.mean.of(ThrottleReason::SwPowerCap) > 0.99);
    }

    #[test]
    fn a_share_never_exceeds_one() {
        let mut all = shares(0.9, 0.0);
        all.add(ThrottleReason::SwPowerCap, 0.9);
        assert_eq!(all, shares(1.0, 0.0));
    }
}
