//! Sets of throttle reasons.

use semconv::value::GpuHardwareThrottleReason as Reason;

/// The throttle reasons that are active at one time: one bit each, in the order of the registry's values.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Reasons(u64);

const _: () = assert!(Reason::ALL.len() <= 64, "one bit per reason");

impl Reasons {
    /// Returns the set of a value of [`crate::DriverQuery::Throttle`].
    pub const fn from_bits(bits: u64) -> Reasons {
        Reasons(bits)
    }

    /// Returns the value of [`crate::DriverQuery::Throttle`].
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns true if the set contains `reason`.
    pub const fn has(self, reason: Reason) -> bool {
        self.0 & 1 << reason as u64 != 0
    }
}

impl FromIterator<Reason> for Reasons {
    fn from_iter<I: IntoIterator<Item = Reason>>(reasons: I) -> Reasons {
        Reasons(reasons.into_iter().fold(0, |all, reason| all | 1 << reason as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_contains_exactly_its_reasons() {
        for reason in Reason::ALL {
            let alone = Reasons::from_bits(Reasons::from_iter([reason]).bits());
            let found: Vec<Reason> = Reason::ALL.into_iter().filter(|other| alone.has(*other)).collect();
            assert_eq!(found, [reason]);
        }
        assert_eq!(Reasons::from_iter(Reason::ALL).bits().count_ones() as usize, Reason::ALL.len());
    }
}
