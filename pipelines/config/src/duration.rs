//! Durations in Go's format, such as `1h30m`, `200ms`, `0`; an integer without a unit is in nanoseconds.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// A duration of a configuration, zero or more.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct GoDuration(pub Duration);

/// The reason why a text is not a duration, in Go's words if Go has the case.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DurationError {
    /// The text is not a sequence of numbers with units.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number other than 0 has no unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// The unit does not exist.
    #[error("time: unknown unit {1:?} in duration {0:?}")]
    UnknownUnit(String, String),
    /// The duration is negative, which is not valid for any key.
    #[error("duration {0:?} is negative: expected zero or more")]
    Negative(String),
}

/// Units and their nanoseconds. There are two code points for the micro sign.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The longest duration of Go, about 292 years.
const NANOS_MAX: u128 = i64::MAX as u128;

impl GoDuration {
    /// The name of the type in the documentation of keys.
    pub(crate) const KIND: &'static str = "duration";

    /// Parses a duration.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let nanos = if unsigned == "0" { 0 } else { sum_of_parts(text, unsigned)? };
        if text.starts_with('-') && nanos > 0 {
            return Err(DurationError::Negative(text.to_owned()));
        }
        Self::from_nanos(nanos).ok_or_else(|| DurationError::Invalid(text.to_owned()))
    }

    /// Returns a duration of seconds.
    pub const fn from_secs(secs: u64) -> Self {
        GoDuration(Duration::from_secs(secs))
    }

    /// Returns a duration of milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        GoDuration(Duration::from_millis(millis))
    }

    fn from_nanos(nanos: u128) -> Option<Self> {
        (nanos <= NANOS_MAX).then(|| GoDuration(Duration::from_nanos(nanos as u64)))
    }
}

/// Returns the sum of parts such as `1h`, `30m` and `1.5s`, in nanoseconds.
fn sum_of_parts(whole: &str, unsigned: &str) -> Result<u128, DurationError> {
    let mut rest = unsigned;
    let mut nanos = 0;
    while !rest.is_empty() || rest.len() == unsigned.len() {
        let (part, after) = next_part(whole, rest)?;
        nanos += part;
        rest = after;
        if nanos > NANOS_MAX {
            return Err(DurationError::Invalid(whole.to_owned()));
        }
    }
    Ok(nanos)
}

/// Returns the nanoseconds of the first number and unit of `rest`, and the text after them.
fn next_part<'a>(whole: &str, rest: &'a str) -> Result<(u128, &'a str), DurationError> {
    let invalid = || DurationError::Invalid(whole.to_owned());
    let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, rest) = rest.split_at(number_end);
    let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let (int, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (int.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(invalid());
    }
    if unit.is_empty() {
        return Err(DurationError::MissingUnit(whole.to_owned()));
    }
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(DurationError::UnknownUnit(whole.to_owned(), unit.to_owned()));
    };
    let int: u64 = if int.is_empty() { 0 } else { int.parse().map_err(|_| invalid())? };
    Ok((u128::from(int) * u128::from(*scale) + fraction_nanos(fraction, *scale), rest))
}

/// Returns the nanoseconds of the digits after a point; digits after the eighteenth have no effect.
fn fraction_nanos(digits: &str, scale: u64) -> u128 {
    let digits = &digits[..digits.len().min(18)];
    let value: u128 = digits.parse().unwrap_or(0);
    value * u128::from(scale) / 10u128.pow(digits.len() as u32)
}

impl GoDuration {
    /// Returns nanoseconds, limited to the range of `u64` (584 years).
    pub fn nanoseconds(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Writes the duration as Go does: `1h30m0s`, `1.5s`, `200ms`, `0s`.
impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        match nanos {
            0 => return f.write_str("0s"),
            1..1_000 => return write!(f, "{nanos}ns"),
            1_000..1_000_000 => return write!(f, "{}\u{b5}s", decimal(nanos, 1_000)),
            1_000_000..1_000_000_000 => return write!(f, "{}ms", decimal(nanos, 1_000_000)),
            _ => {}
        }
        let minutes = nanos / 60_000_000_000;
        if minutes >= 60 {
            write!(f, "{}h", minutes / 60)?;
        }
        if minutes > 0 {
            write!(f, "{}m", minutes % 60)?;
        }
        write!(f, "{}s", decimal(nanos % 60_000_000_000, 1_000_000_000))
    }
}

/// Returns `value / unit` in decimal notation; `unit` is a power of ten.
fn decimal(value: u128, unit: u128) -> String {
    let width = unit.ilog10() as usize;
    let text = format!("{}.{:0width$}", value / unit, value % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Deref for GoDuration {
    type Target = Duration;

    fn deref(&self) -> &Duration {
        &self.0
    }
}

impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        GoDuration(duration)
    }
}

impl From<GoDuration> for Duration {
    fn from(duration: GoDuration) -> Self {
        duration.0
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(MARK, DurationVisitor)
    }
}

/// The newtype name by which this crate's decoder recognizes a duration.
pub(super) const MARK: &str = "$duration";

struct DurationVisitor;

impl<'de> Visitor<'de> for DurationVisitor {
    type Value = GoDuration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as 200ms or 1h30m")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<GoDuration, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<GoDuration, E> {
        GoDuration::parse(text).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, nanos: u64) -> Result<GoDuration, E> {
        GoDuration::from_nanos(nanos.into())
            .ok_or_else(|| E::custom(DurationError::Invalid(nanos.to_string())))
    }

    fn visit_i64<E: Error>(self, nanos: i64) -> Result<GoDuration, E> {
        match u64::try_from(nanos) {
            Ok(nanos) => self.visit_u64(nanos),
            Err(_) => Err(E::custom(DurationError::Negative(nanos.to_string()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_as_in_go() {
        for (text, nanos) in [
            ("0", 0),
            ("+0", 0),
            ("-0s", 0),
            ("5s", 5_000_000_000),
            ("+5s", 5_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("3us", 3_000),
            ("3\u{b5}s", 3_000),
            ("3\u{3bc}s", 3_000),
            ("7ns", 7),
            ("1m0.5s", 60_500_000_000),
            ("0.3333333333333333333h", 1_200_000_000_000 - 1),
            ("9223372036854775807ns", i64::MAX as u64),
        ] {
            assert_eq!(GoDuration::parse(text), Ok(GoDuration(Duration::from_nanos(nanos))), "{text}");
        }
    }

    #[test]
    fn durations_are_printed_as_in_go() {
        for (nanos, want) in [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5\u{b5}s"),
            (200_000_000, "200ms"),
            (1_000_000_000, "1s"),
            (1_500_000_000, "1.5s"),
            (60_000_000_000, "1m0s"),
            (5_400_000_000_000, "1h30m0s"),
            (3_600_000_000_001, "1h0m0.000000001s"),
            (i64::MAX as u64, "2562047h47m16.854775807s"),
        ] {
            let duration = GoDuration(Duration::from_nanos(nanos));
            assert_eq!(duration.to_string(), want);
            assert_eq!(GoDuration::parse(want), Ok(duration), "and reads back");
        }
    }

    #[test]
    fn invalid_durations_are_errors() {
        for (text, want) in [
            ("", r#"time: invalid duration """#),
            ("s", r#"time: invalid duration "s""#),
            (".s", r#"time: invalid duration ".s""#),
            ("1.2.3s", r#"time: invalid duration "1.2.3s""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("1m5", r#"time: missing unit in duration "1m5""#),
            ("5d", r#"time: unknown unit "d" in duration "5d""#),
            ("5 s", r#"time: unknown unit " s" in duration "5 s""#),
            ("-5s", r#"duration "-5s" is negative: expected zero or more"#),
            ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
            ("99999999999999999999h", r#"time: invalid duration "99999999999999999999h""#),
        ] {
            assert_eq!(GoDuration::parse(text).unwrap_err().to_string(), want);
        }
    }
}
