//! Integers from decimal text without floating point: a double cannot represent a profiler's microseconds.

/// Digits that are read; further ones cannot change a nanosecond of a plausible time.
const DIGITS: usize = 30;

/// Parses an integer in decimal, or in hexadecimal after `0x`.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(|v| v as i64),
        None => text.parse().ok().or_else(|| scaled(text.as_bytes(), 0)),
    }
}

/// Parses an integer as [`integer`] does; `None` if it is negative.
pub(super) fn unsigned(text: &[u8]) -> Option<u64> {
    match text.starts_with(b"0x") {
        true => integer(text).map(|v| v as u64),
        false => integer(text).and_then(|v| u64::try_from(v).ok()),
    }
}

/// Parses microseconds to nanoseconds, rounded half away from zero.
pub(super) fn nanoseconds(text: &[u8]) -> Option<i64> {
    scaled(text, 3)
}

/// Parses a decimal number times ten to the `power`, rounded half away from zero.
fn scaled(text: &[u8], power: i32) -> Option<i64> {
    let (negative, text) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    let (digits, power) = mantissa(text, power)?;
    let magnitude = shift(digits, power)?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// Returns the digits of `text` as an integer, and the power of ten to multiply it with.
fn mantissa(text: &[u8], mut power: i32) -> Option<(i128, i32)> {
    let (mut value, mut kept, mut any, mut in_fraction) = (0i128, 0, false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                any = true;
                let keep = kept < DIGITS;
                if keep {
                    value = value * 10 + i128::from(byte - b'0');
                    kept += usize::from(value > 0);
                }
                power = power.checked_add(i32::from(!keep) - i32::from(in_fraction))?;
            }
            b'.' if !in_fraction => in_fraction = true,
            b'e' | b'E' if any => {
                let exponent = std::str::from_utf8(&text[at + 1..]).ok()?.parse::<i32>().ok()?;
                return Some((value, power.checked_add(exponent)?));
            }
            _ => return None,
        }
    }
    any.then_some((value, power))
}

fn shift(mut value: i128, power: i32) -> Option<i128> {
    if value == 0 {
        return Some(0);
    }
    for _ in 0..power.max(0) {
        value = value.checked_mul(10)?;
    }
    let down = power.min(0).unsigned_abs();
    match 10i128.checked_pow(down) {
        Some(divisor) => Some((value + divisor / 2) / divisor),
        None => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn microseconds_are_converted_exactly() {
        for (text, expected) in [
            ("4458676981028.392", Some(4_458_676_981_028_392)),
            ("1683564901951734", Some(1_683_564_901_951_734_000)),
            ("9007199254740993.001", Some(9_007_199_254_740_993_001)),
            ("0.0004", Some(0)),
            ("0.0005", Some(1)),
            ("-1.5", Some(-1500)),
            ("1.5e3", Some(1_500_000)),
            ("2.190", Some(2190)),
            ("1e-400", Some(0)),
            ("0e999999", Some(0)),
            ("1e999999999999", None),
            ("99999999999999999999", None),
            ("nan", None),
            ("", None),
            ("-", None),
            (".", None),
            ("1.2.3", None),
        ] {
            assert_eq!(nanoseconds(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn integers_are_read_in_all_notations() {
        assert_eq!(integer(b"-549452224"), Some(-549_452_224));
        assert_eq!(unsigned(b"0x7f1818900000"), Some(0x7f18_1890_0000));
        assert_eq!(unsigned(b"0xffffffffffffffff"), Some(u64::MAX));
        assert_eq!(unsigned(b"9216"), Some(9216));
        assert_eq!(unsigned(b"2.048e3"), Some(2048));
        assert_eq!(unsigned(b"-1"), None);
        assert_eq!(integer(b"Spans"), None);
    }

    proptest! {
        #[test]
        fn three_decimals_are_exact(ns in 0i64..i64::MAX / 2) {
            let text = format!("{}.{:03}", ns / 1000, ns % 1000);
            prop_assert_eq!(nanoseconds(text.as_bytes()), Some(ns));
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(prop::sample::select(b"0123456789+-.eEx".to_vec()), 0..64)) {
            let _ = (nanoseconds(&bytes), integer(&bytes), unsigned(&bytes));
        }
    }
}
