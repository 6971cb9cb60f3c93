//! For which share of a time each reason held the clocks of a GPU down, and which shares are usual.
//!
//! The one idea: what is usual is learnt of the same steps as the rest of what is usual. So a GPU that always runs at
//! its power limit has that for no cause, and a brake does not become usual by lasting, as its steps teach nothing.

use event::ThrottleReason;

/// Steps that the usual shares average over.
const MEMORY: f32 = 128.0;

/// Shares of a time by reason, 0 to 1. Several reasons may hold the clocks down at once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares([f32; ThrottleReason::ALL.len()]);

impl Shares {
    /// The share in which this reason held them down.
    pub fn of(&self, reason: ThrottleReason) -> f64 {
        f64::from(self.0[reason as usize])
    }

    /// The same reason held them down for so much longer.
    pub(crate) fn add(&mut self, reason: ThrottleReason, share: f64) {
        let sum = &mut self.0[reason as usize];
        *sum = (*sum + share as f32).min(1.0);
    }

    /// By how much the reason that is furthest beyond the usual is.
    pub(crate) fn beyond(&self, usual: &Shares) -> f64 {
        ThrottleReason::ALL.iter().map(|reason| self.of(*reason) - usual.of(*reason)).fold(0.0, f64::max)
    }
}

/// The shares that are usual.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct UsualShares {
    pub(crate) mean: Shares,
    /// Steps, up to [`MEMORY`].
    count: f32,
}

impl UsualShares {
    /// A step that was nothing strange had these.
    pub(crate) fn learn(&mut self, shares: &Shares) {
        self.count = (self.count + 1.0).min(MEMORY);
        for (mean, share) in self.mean.0.iter_mut().zip(shares.0) {
            *mean += (share - *mean) / self.count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(cap: f64, brake: f64) -> Shares {
        let mut shares = Shares::default();
        shares.add(ThrottleReason::SwPowerCap, cap);
        shares.add(ThrottleReason::HwPowerBrake, brake);
        shares
    }

    #[test]
    fn what_is_beyond_the_usual_is_told_by_reason() {
        let mut usual = UsualShares::default();
        (0..300).for_each(|_| usual.learn(&shares(1.0, 0.0)));
        assert_eq!(shares(1.0, 0.0).beyond(&usual.mean), 0.0);
        assert_eq!(shares(1.0, 0.75).beyond(&usual.mean), 0.75);
        assert_eq!(shares(0.0, 0.0).beyond(&usual.mean), 0.0);
    }

    #[test]
    fn usual_shares_have_no_bias_from_their_beginning() {
        let mut usual = UsualShares::default();
        usual.learn(&shares(0.5, 0.0));
        assert_eq!(usual.mean, shares(0.5, 0.0));
        (0..2_000).for_each(|_| usual.learn(&shares(1.0, 0.0)));
        assert!(usual.mean.of(ThrottleReason::SwPowerCap) > 0.99);
    }

    #[test]
    fn a_share_is_never_more_than_all() {
        let mut all = shares(0.9, 0.0);
        all.add(ThrottleReason::SwPowerCap, 0.9);
        assert_eq!(all, shares(1.0, 0.0));
    }
}
