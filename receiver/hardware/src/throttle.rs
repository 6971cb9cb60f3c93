//! Why clocks are held down: all that holds at once, as one number.

use semconv::value::GpuHardwareThrottleReason as Reason;

/// Reasons that hold clocks down at once: a bit each, at its place among the registry's values.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Reasons(u64);

const _: () = assert!(Reason::ALL.len() <= 64, "a bit each");

impl Reasons {
    /// As [`crate::Question::Throttle`] is answered.
    pub const fn from_answer(answer: u64) -> Reasons {
        Reasons(answer)
    }

    /// The answer to [`crate::Question::Throttle`].
    pub const fn answer(self) -> u64 {
        self.0
    }

    /// Whether this one is among them.
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
    fn what_was_put_in_is_there_and_nothing_else() {
        for reason in Reason::ALL {
            let alone = Reasons::from_answer(Reasons::from_iter([reason]).answer());
            let found: Vec<Reason> = Reason::ALL.into_iter().filter(|other| alone.has(*other)).collect();
            assert_eq!(found, [reason]);
        }
        assert_eq!(Reasons::from_iter(Reason::ALL).answer().count_ones() as usize, Reason::ALL.len());
    }
}
