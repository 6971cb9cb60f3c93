//! Values of a script: durations, sizes, factors, and ranges of them.
//!
//! A range is sampled at every use, from the thread's own generator: one seed, one run.

/// A value, or all values from `low` to `high`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Span {
    /// Smallest.
    pub low: u64,
    /// Largest.
    pub high: u64,
}

impl Span {
    /// One value.
    pub const fn just(value: u64) -> Span {
        Span { low: value, high: value }
    }

    /// A value of it.
    pub fn sample(&self, random: &mut Random) -> u64 {
        match self.high > self.low {
            true => self.low + random.draw() % (self.high - self.low + 1),
            false => self.low,
        }
    }
}

/// SplitMix64: small, fast, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator whose numbers follow from `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Units of time, in nanoseconds.
const TIMES: &[(&str, f64)] = &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
/// Units of size, in bytes.
const SIZES: &[(&str, f64)] =
    &[("", 1.0), ("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0)];
/// Factors are kept as thousandths.
const FACTORS: &[(&str, f64)] = &[("x", 1e3)];
/// Plain numbers.
const COUNTS: &[(&str, f64)] = &[("", 1.0)];

/// What a value must be. Its words for an error, and its units.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sort {
    /// A plain number.
    Count,
    /// Nanoseconds.
    Time,
    /// Bytes.
    Size,
    /// Thousandths.
    Factor,
}

impl Sort {
    fn units(self) -> &'static [(&'static str, f64)] {
        match self {
            Sort::Count => COUNTS,
            Sort::Time => TIMES,
            Sort::Size => SIZES,
            Sort::Factor => FACTORS,
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Sort::Count => "a number such as 300",
            Sort::Time => "a time such as 300us, 1.5ms or 2s",
            Sort::Size => "a size such as 4096, 32KiB or 1GiB",
            Sort::Factor => "a factor such as 2.5x",
        }
    }

    /// Reads a value of this sort, or `low..high`.
    pub fn span(self, text: &str) -> Result<Span, String> {
        let wrong = || format!("'{text}' is not {} (or two of them with .. between)", self.expected());
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        let span = Span { low: self.one(low).ok_or_else(wrong)?, high: self.one(high).ok_or_else(wrong)? };
        if span.low <= span.high { Ok(span) } else { Err(format!("'{text}' ends before it begins")) }
    }

    /// Reads one value of this sort.
    pub fn value(self, text: &str) -> Result<u64, String> {
        self.one(text).ok_or_else(|| format!("'{text}' is not {}", self.expected()))
    }

    fn one(self, text: &str) -> Option<u64> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let scale = self.units().iter().find(|(name, _)| *name == unit)?.1;
        let value = number.parse::<f64>().ok()? * scale;
        (value.is_finite() && value < 1e18).then_some(value.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units_and_ranges() {
        let check = |sort: Sort, text: &str, low, high| assert_eq!(sort.span(text), Ok(Span { low, high }));
        check(Sort::Time, "300us", 300_000, 300_000);
        check(Sort::Time, "1.5ms..2ms", 1_500_000, 2_000_000);
        check(Sort::Size, "32KiB", 32_768, 32_768);
        check(Sort::Size, "9", 9, 9);
        check(Sort::Factor, "0.5x..2x", 500, 2_000);
        check(Sort::Count, "3..7", 3, 7);
    }

    #[test]
    fn a_wrong_value_is_named_with_what_was_expected() {
        for (sort, text) in [
            (Sort::Time, "300"),
            (Sort::Size, "3us"),
            (Sort::Count, "-1"),
            (Sort::Factor, "2"),
            (Sort::Count, "9..3"),
        ] {
            let error = sort.span(text).unwrap_err();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }

    #[test]
    fn samples_stay_within_their_span_and_follow_from_the_seed() {
        let span = Span { low: 3, high: 5 };
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..50).map(|_| span.sample(&mut random)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!((3..=5).all(|v| draw(1).contains(&v)) && draw(1).iter().all(|v| (3..=5).contains(v)));
    }
}
