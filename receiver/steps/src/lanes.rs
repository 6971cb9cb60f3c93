//! The lanes that the steps of a phase usually launch.

use probe_abi::function::{LANES, OVERFLOW_LANE, Signature};

/// Steps after which the usual lanes are known.
const KNOWN: u8 = 16;
/// Steps that a share is averaged over, as a power of two.
const MEMORY: u32 = 5;
/// The share of steps, in 255ths, below which a lane is not usual.
const USUAL_MIN: u8 = 16;

/// The share of steps that launched each lane, in 255ths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UsualLanes {
    steps: u8,
    shares: [u8; LANES as usize],
}

impl Default for UsualLanes {
    fn default() -> UsualLanes {
        UsualLanes { steps: 0, shares: [0; LANES as usize] }
    }
}

impl UsualLanes {
    /// Learns from a step.
    pub(crate) fn learn(&mut self, step: &Signature) {
        self.steps = self.steps.saturating_add(1);
        for (lane, share) in (0..LANES).zip(&mut self.shares) {
            let change = match step.launches(lane) > 0 {
                true => i32::from(u8::MAX) - i32::from(*share),
                false => -i32::from(*share),
            };
            // Rounded away from 0, so that a share reaches both ends.
            let divisor = 1 << MEMORY.min(u32::from(self.steps).ilog2());
            *share = share.saturating_add_signed((change / divisor + change.signum()).clamp(-128, 127) as i8);
        }
    }

    /// Returns the lanes, one bit each, that a step launched and earlier ones usually did not; 0 before those are known.
    pub(crate) fn unusual(&self, step: &Signature) -> u64 {
        if self.steps < KNOWN {
            return 0;
        }
        let is_unusual = |lane: &u32| step.launches(*lane) > 0 && self.shares[*lane as usize] < USUAL_MIN;
        (0..OVERFLOW_LANE).filter(is_unusual).fold(0, |lanes, lane| lanes | 1 << lane)
    }
}

#[cfg(test)]
mod tests {
    use probe_abi::function::{one, word};

    use super::*;

    fn signature(lanes: &[u32]) -> Signature {
        let mut signature = Signature::default();
        lanes.iter().for_each(|lane| signature.0[word(*lane)] += one(*lane));
        signature
    }

    #[test]
    fn lanes_that_earlier_steps_did_not_launch_are_unusual() {
        let mut lanes = UsualLanes::default();
        assert_eq!(lanes.unusual(&signature(&[3])), 0);
        (0..100).for_each(|step| lanes.learn(&signature(if step % 4 == 0 { &[0, 5, 62] } else { &[0, 5] })));
        assert_eq!(lanes.unusual(&signature(&[0, 5, 62])), 0);
        assert_eq!(lanes.unusual(&signature(&[0, 7, 61])), 1 << 7 | 1 << 61);
        (0..100).for_each(|_| lanes.learn(&signature(&[0])));
        assert_eq!(lanes.unusual(&signature(&[0, 5])), 1 << 5);
    }
}
