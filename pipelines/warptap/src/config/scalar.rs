//! Types of plain scalars, by the rules of the Collector's YAML library (go-yaml v3), which are neither those of
//! YAML 1.1 nor of 1.2.
//!
//! `0123` and `0o123` are octal, `1_000` is a thousand, `yes` and `on` are strings. Timestamps, for which that
//! library has a type, are strings here, because no configuration key is one.

use config::Value;

/// Returns the value of a scalar without quotes and without a tag.
pub(super) fn resolve(text: &str) -> Value {
    if let Some((_, value)) = WORDS.iter().find(|(word, _)| *word == text) {
        return value.clone();
    }
    let number = match text.as_bytes().first() {
        Some(b'0'..=b'9' | b'+' | b'-') => number(text),
        Some(b'.') => float(text),
        _ => None,
    };
    number.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// All words that are not strings. Other spellings, such as `tRue`, are strings.
static WORDS: [(&str, Value); 23] = [
    ("", Value::Null),
    ("~", Value::Null),
    ("null", Value::Null),
    ("Null", Value::Null),
    ("NULL", Value::Null),
    ("true", Value::Bool(true)),
    ("True", Value::Bool(true)),
    ("TRUE", Value::Bool(true)),
    ("false", Value::Bool(false)),
    ("False", Value::Bool(false)),
    ("FALSE", Value::Bool(false)),
    (".nan", Value::Float(f64::NAN)),
    (".NaN", Value::Float(f64::NAN)),
    (".NAN", Value::Float(f64::NAN)),
    (".inf", Value::Float(f64::INFINITY)),
    (".Inf", Value::Float(f64::INFINITY)),
    (".INF", Value::Float(f64::INFINITY)),
    ("+.inf", Value::Float(f64::INFINITY)),
    ("+.Inf", Value::Float(f64::INFINITY)),
    ("+.INF", Value::Float(f64::INFINITY)),
    ("-.inf", Value::Float(f64::NEG_INFINITY)),
    ("-.Inf", Value::Float(f64::NEG_INFINITY)),
    ("-.INF", Value::Float(f64::NEG_INFINITY)),
];

/// Parses a number, which begins with a digit or a sign; underscores may be anywhere after that.
fn number(text: &str) -> Option<Value> {
    let plain = text.replace('_', "");
    integer(&plain).map(Value::Int).or_else(|| float(&plain))
}

/// Parses an integer that fits one of Go's 64-bit types.
fn integer(plain: &str) -> Option<i128> {
    let (sign, unsigned) = match plain.strip_prefix(['+', '-']) {
        Some(rest) => (Some(plain.as_bytes()[0]), rest),
        None => (None, plain),
    };
    let magnitude = i128::try_from(magnitude(unsigned)?).ok()?;
    let (value, range) = match sign {
        Some(b'-') => (-magnitude, i128::from(i64::MIN)..=0),
        Some(_) => (magnitude, 0..=i128::from(i64::MAX)),
        None => (magnitude, 0..=i128::from(u64::MAX)),
    };
    range.contains(&value).then_some(value)
}

/// Prefixes and their bases, longest first.
const BASES: [(&str, u32); 7] =
    [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2), ("0", 8)];

fn magnitude(unsigned: &str) -> Option<u128> {
    let (digits, base) = BASES
        .iter()
        .find_map(|(prefix, base)| Some((unsigned.strip_prefix(prefix)?, *base)))
        .filter(|_| unsigned != "0")
        .unwrap_or((unsigned, 10));
    // `from_str_radix` would accept a second sign.
    digits.chars().all(|c| c.is_digit(base)).then(|| u128::from_str_radix(digits, base).ok())?
}

/// Parses a decimal number with a point or an exponent; numbers out of range are strings.
fn float(plain: &str) -> Option<Value> {
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(plain);
    let starts_well = unsigned.starts_with(|c: char| c.is_ascii_digit())
        || unsigned.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let number: f64 = plain.parse().ok().filter(|_| starts_well)?;
    number.is_finite().then_some(Value::Float(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(want: Value, texts: &[&str]) {
        for text in texts {
            assert_eq!(resolve(text), want, "{text:?}");
        }
    }

    #[test]
    fn integers_have_several_bases() {
        check(
            Value::Int(83),
            &["83", "+83", "8_3", "83_", "0123", "0_123", "0o123", "0O123", "0x53", "0X_53"],
        );
        check(Value::Int(3), &["0b11", "0B11", "+0b11", "0b_1_1"]);
        check(Value::Int(-15), &["-15", "-017", "-0o17", "-0xF", "-0b1111"]);
        check(Value::Int(0), &["0", "-0", "00", "0_0"]);
        check(Value::Int(i64::MIN.into()), &["-9223372036854775808"]);
        check(Value::Int(u64::MAX.into()), &["18446744073709551615", "0xFFFFFFFFFFFFFFFF"]);
    }

    #[test]
    fn floats_have_a_point_an_exponent_or_many_digits() {
        check(Value::Float(1.0), &["1.", "1.0", "1e0", "+1.", "0.1e1", "01.0", "1_._0"]);
        check(Value::Float(0.5), &[".5", "0.5", "+.5", "5e-1"]);
        check(Value::Float(-0.5), &["-.5"]);
        // 8 and 9 are not octal digits, so the decimal rule applies.
        check(Value::Float(89.0), &["089"]);
        check(Value::Float(18446744073709551616.0), &["18446744073709551616"]);
        check(Value::Float(f64::INFINITY), &[".inf", "+.Inf"]);
        check(Value::Float(f64::NEG_INFINITY), &["-.INF"]);
        assert!(matches!(resolve(".NaN"), Value::Float(f) if f.is_nan()));
    }

    #[test]
    fn only_listed_words_are_not_strings() {
        check(Value::Null, &["", "~", "null", "Null", "NULL"]);
        check(Value::Bool(true), &["true", "True", "TRUE"]);
        check(Value::Bool(false), &["false", "False", "FALSE"]);
    }

    #[test]
    fn other_scalars_are_strings() {
        let texts = [
            "yes",
            "no",
            "on",
            "off",
            "y",
            "n",
            "Yes",
            "tRue",
            "nULL",
            "nan",
            "inf",
            "infinity",
            "+inf",
            "-nan",
            "0x",
            "0o",
            "0b",
            "0b12",
            "0xG",
            "_1",
            "-",
            "+",
            ".",
            "..",
            "._5",
            ".5_0",
            "1e",
            "1e400",
            "++1",
            "--1",
            "+-1",
            "0x-1",
            "1,000",
            "0x1.8p3",
            "12:30:45",
            "2026-01-01",
            "2026-01-01T00:00:00Z",
            "<<",
            "=",
            "1.2.3",
            "0xFFFFFFFFFFFFFFFFF",
            "-0x8000000000000001",
            "5s",
            "localhost:4317",
        ];
        for text in texts {
            check(Value::String(text.to_owned()), &[text]);
        }
    }
}
