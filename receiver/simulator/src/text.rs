//! What the script languages share: lines, words with arguments and keys, values with units, and parse errors.
//!
//! The languages are those of programs ([`crate::script`]), of ranks ([`crate::ranks`]) and of drivers
//! ([`crate::smi::script`]). `#` begins a comment. One file without dependencies, since the stub libraries of the
//! drivers are built from it too.

use std::fmt;

/// Characters of a line.
const LENGTH_MAX: usize = 400;

/// A problem in a line.
pub type Result<T> = std::result::Result<T, String>;

/// An error in a script, with the line that it is in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParseError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The offending text and what was expected.
    pub problem: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for ParseError {}

/// Returns the lines that are not empty, without their comments, each with its number from 1.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bare = |line: &'_ str| line.find('#').unwrap_or(line.len());
    let lines = text.lines().enumerate().map(move |(at, line)| (at + 1, line[..bare(line)].trim()));
    lines.filter(|(_, line)| !line.is_empty())
}

/// Returns the lines that are not empty, split into words; the first line that cannot be split is an error.
pub fn split(text: &str) -> std::result::Result<Vec<ScriptLine<'_>>, ParseError> {
    let one = |(line, text)| ScriptLine::split(line, text).map_err(|problem| ParseError { line, problem });
    lines(text).map(one).collect()
}

/// A line: `word argument argument key=value`.
#[derive(Debug, PartialEq)]
pub struct ScriptLine<'a> {
    /// Number of the line, from 1.
    pub number: usize,
    /// The first word.
    pub word: &'a str,
    /// The words after it.
    pub arguments: Vec<&'a str>,
    /// The keys and their values.
    pub keys: Vec<(&'a str, &'a str)>,
}

impl<'a> ScriptLine<'a> {
    fn split(number: usize, text: &'a str) -> Result<ScriptLine<'a>> {
        if text.len() > LENGTH_MAX {
            return Err(format!("the line has {} characters; expected at most {LENGTH_MAX}", text.len()));
        }
        let mut parts = text.split_whitespace();
        let word = parts.next().unwrap_or_default();
        let mut line = ScriptLine { number, word, arguments: Vec::new(), keys: Vec::new() };
        parts.try_for_each(|part| line.push(part))?;
        Ok(line)
    }

    fn push(&mut self, part: &'a str) -> Result<()> {
        match part.split_once('=') {
            Some((_, "")) => return Err(format!("'{part}' lacks its value")),
            Some((key, _)) if self.key(key).is_some() => return Err(format!("key '{key}' is given twice")),
            Some((key, value)) => self.keys.push((key, value)),
            None if !self.keys.is_empty() => {
                return Err(format!("argument '{part}' follows a key; expected arguments first"));
            }
            None => self.arguments.push(part),
        }
        Ok(())
    }

    /// Returns the value of a key.
    pub fn key(&self, name: &str) -> Option<&'a str> {
        self.keys.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// Parses the value of a key, or returns `default` without it.
    pub fn value(&self, name: &str, unit: Unit, default: u64) -> Result<u64> {
        self.key(name).map_or(Ok(default), |text| unit.value(text))
    }

    /// Parses the value of a key as a span, or returns `default` without it.
    pub fn span(&self, name: &str, unit: Unit, default: u64) -> Result<ValueRange> {
        self.key(name).map_or(Ok(ValueRange::just(default)), |text| unit.span(text))
    }

    /// Returns the argument of a word that takes one argument and no keys.
    pub fn only_argument(&self) -> Result<&'a str> {
        self.check((1, 1), &[])?;
        Ok(self.arguments[0])
    }

    /// Fails on a wrong number of arguments or an unknown key.
    pub fn check(&self, (least, most): (usize, usize), keys: &[&[&str]]) -> Result<()> {
        let (count, word) = (self.arguments.len(), self.word);
        if count < least || count > most {
            let expected = if least == most { least.to_string() } else { format!("{least} to {most}") };
            return Err(format!("{word} has {count} arguments; expected {expected}"));
        }
        let mut known: Vec<&str> = keys.concat();
        known.sort_unstable();
        match self.keys.iter().find(|(key, _)| !known.contains(key)) {
            Some((key, _)) if known.is_empty() => Err(format!("{word} takes no key '{key}'")),
            Some((key, _)) => Err(format!("{word} has no key '{key}'; expected one of {}", known.join(", "))),
            None => Ok(()),
        }
    }
}

/// A word that begins a line of a language.
pub struct Word<Build: 'static> {
    /// The word.
    pub name: &'static str,
    /// The smallest and the largest number of arguments.
    pub arguments: (usize, usize),
    /// Lists of the keys it takes.
    pub keys: &'static [&'static [&'static str]],
    /// Makes the line's action; called after the line was checked.
    pub build: Build,
}

/// Returns the row of a word. The error names all words, with those of `others` that have no row.
pub fn find<B>(words: &'static [Word<B>], name: &str, others: &[&'static str]) -> Result<&'static Word<B>> {
    words.iter().find(|w| w.name == name).ok_or_else(|| {
        let mut names: Vec<_> = words.iter().map(|w| w.name).chain(others.iter().copied()).collect();
        names.sort_unstable();
        format!("'{name}' is not a word of this language; expected one of {}", names.join(", "))
    })
}

/// A value, or all values from `low` to `high`; sampled at every use.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ValueRange {
    /// Smallest value.
    pub low: u64,
    /// Largest value.
    pub high: u64,
}

impl ValueRange {
    /// Returns a span of one value.
    pub const fn just(value: u64) -> ValueRange {
        ValueRange { low: value, high: value }
    }

    /// Returns a value of the span.
    pub fn sample(&self, random: &mut Random) -> u64 {
        match self.high > self.low {
            true => self.low + random.draw() % (self.high - self.low + 1),
            false => self.low,
        }
    }
}

/// A SplitMix64 generator: small, fast, and the same on every platform.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Returns a generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Unit names and their factors.
type Units = &'static [(&'static str, f64)];

const TIMES: Units =
    &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60.0 * 1e9), ("h", 3_600.0 * 1e9)];
const SIZES: Units =
    &[("", 1.0), ("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0)];

/// The kind of a value, which determines its units.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// A plain number.
    Count,
    /// A time, parsed to nanoseconds.
    Time,
    /// A size, parsed to bytes.
    Size,
    /// A factor, parsed to thousandths.
    Factor,
}

impl Unit {
    /// Returns the units and the words that describe the kind in errors.
    fn row(self) -> (Units, &'static str) {
        match self {
            Unit::Count => (&[("", 1.0)], "a number such as 300"),
            Unit::Time => (TIMES, "a time such as 300us, 1.5ms or 2s"),
            Unit::Size => (SIZES, "a size such as 4096, 32KiB or 1GiB"),
            Unit::Factor => (&[("x", 1e3)], "a factor such as 2.5x"),
        }
    }

    /// Parses a value, or a range `low..high`.
    pub fn span(self, text: &str) -> Result<ValueRange> {
        let wrong = || format!("'{text}' is not {} (or a range such as low..high)", self.row().1);
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        let span =
            ValueRange { low: self.one(low).ok_or_else(wrong)?, high: self.one(high).ok_or_else(wrong)? };
        if span.low <= span.high { Ok(span) } else { Err(format!("range '{text}' ends before it begins")) }
    }

    /// Parses a value.
    pub fn value(self, text: &str) -> Result<u64> {
        self.one(text).ok_or_else(|| format!("'{text}' is not {}", self.row().1))
    }

    fn one(self, text: &str) -> Option<u64> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let scale = self.row().0.iter().find(|(name, _)| *name == unit)?.1;
        let value = number.parse::<f64>().ok()? * scale;
        (value.is_finite() && value < 1e18).then_some(value.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units_and_ranges() {
        let check =
            |unit: Unit, text: &str, low, high| assert_eq!(unit.span(text), Ok(ValueRange { low, high }));
        check(Unit::Time, "300us", 300_000, 300_000);
        check(Unit::Time, "1.5ms..2ms", 1_500_000, 2_000_000);
        check(Unit::Time, "2m", 120_000_000_000, 120_000_000_000);
        check(Unit::Size, "32KiB", 32_768, 32_768);
        check(Unit::Size, "9", 9, 9);
        check(Unit::Factor, "0.5x..2x", 500, 2_000);
        check(Unit::Count, "3..7", 3, 7);
    }

    #[test]
    fn errors_name_the_wrong_value() {
        for (unit, text) in [
            (Unit::Time, "300"),
            (Unit::Size, "3us"),
            (Unit::Count, "-1"),
            (Unit::Factor, "2"),
            (Unit::Count, "9..3"),
        ] {
            let error = unit.span(text).unwrap_err();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }

    #[test]
    fn samples_stay_in_their_span_and_follow_from_the_seed() {
        let span = ValueRange { low: 3, high: 5 };
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..50).map(|_| span.sample(&mut random)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!((3..=5).all(|v| draw(1).contains(&v)) && draw(1).iter().all(|v| (3..=5).contains(v)));
    }
}
