//! Percentages, such as `1%` and `0.5%`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A share, written in percent.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Percent(f64);

impl Percent {
    /// The type in words.
    pub(crate) const KIND: &'static str = "percentage";

    /// Returns this many percent.
    pub const fn of(percent: f64) -> Percent {
        Percent(percent)
    }

    /// Returns the share: 0.01 for 1%.
    pub fn share(self) -> f64 {
        self.0 / 100.0
    }

    fn parse(text: &str) -> Option<Percent> {
        let number: f64 = text.strip_suffix('%')?.trim_end().parse().ok()?;
        number.is_finite().then_some(Percent(number))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(PercentVisitor)
    }
}

struct PercentVisitor;

impl Visitor<'_> for PercentVisitor {
    type Value = Percent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a percentage such as 1%")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Percent, E> {
        Percent::parse(text).ok_or_else(|| E::custom(format!("{text:?}: expected a percentage such as 1%")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_need_their_sign() {
        for (text, share) in [("1%", 0.01), ("0.5 %", 0.005), ("100%", 1.0)] {
            assert_eq!(Percent::parse(text).map(Percent::share), Some(share), "{text}");
        }
        for text in ["1", "0.01", "%", "one%", "NaN%", "inf%", ""] {
            assert_eq!(Percent::parse(text), None, "{text}");
        }
        assert_eq!([Percent::of(1.0), Percent::of(0.1)].map(|p| p.to_string()), ["1%", "0.1%"]);
    }
}
