//! Floating-point numbers.

use std::ops::Range;

/// Formats as `%f`: six digits after the point.
pub fn fixed(v: f64) -> String {
    infinite(v).map_or_else(|| format!("{v:.6}"), str::to_owned)
}

/// Formats as `%v`: the shortest digits that read back as `v`, with an exponent below 1e-4 and from 1e6 on.
pub fn general(v: f64) -> String {
    infinite(v).map_or_else(|| shortest(v, -4..6, 2), str::to_owned)
}

/// Formats as `encoding/json`: the shortest digits, with an exponent below 1e-6 and from 1e21 on. The values
/// that JSON has no numbers for become `NaN`, `Infinity` and `-Infinity`, as in protobuf's JSON.
pub fn json(v: f64) -> String {
    match infinite(v) {
        Some("+Inf") => "Infinity".to_owned(),
        Some("-Inf") => "-Infinity".to_owned(),
        Some(text) => text.to_owned(),
        None => shortest(v, -6..21, 1),
    }
}

/// Returns the text of a value that is not finite.
fn infinite(v: f64) -> Option<&'static str> {
    match v {
        v if v.is_nan() => Some("NaN"),
        f64::INFINITY => Some("+Inf"),
        f64::NEG_INFINITY => Some("-Inf"),
        _ => None,
    }
}

/// Formats the shortest digits, without an exponent if it is in `plain`, else with at least this many digits.
fn shortest(v: f64, plain: Range<i32>, exponent_digits: usize) -> String {
    let scientific = format!("{v:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !plain.contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:0exponent_digits$}", exponent.unsigned_abs())
        }
        _ => format!("{v}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line was printed by Go: `%v`, `%f`, `json.Marshal` (except for the three values that it refuses).
    #[test]
    fn numbers_are_formatted_as_by_go() {
        for (v, v_text, f_text, json_text) in [
            (0.0, "0", "0.000000", "0"),
            (-0.0, "-0", "-0.000000", "-0"),
            (1.0, "1", "1.000000", "1"),
            (-1.5, "-1.5", "-1.500000", "-1.5"),
            (0.1, "0.1", "0.100000", "0.1"),
            (100_000.0, "100000", "100000.000000", "100000"),
            (999_999.5, "999999.5", "999999.500000", "999999.5"),
            (1e6, "1e+06", "1000000.000000", "1000000"),
            (123_456_789.0, "1.23456789e+08", "123456789.000000", "123456789"),
            (1e20, "1e+20", "100000000000000000000.000000", "100000000000000000000"),
            (1e21, "1e+21", "1000000000000000000000.000000", "1e+21"),
            (0.0001, "0.0001", "0.000100", "0.0001"),
            (0.000_034_691, "3.4691e-05", "0.000035", "0.000034691"),
            (3.720_806_4e7, "3.7208064e+07", "37208064.000000", "37208064"),
            (0.000_012_34, "1.234e-05", "0.000012", "0.00001234"),
            (1e-7, "1e-07", "0.000000", "1e-7"),
            (f64::INFINITY, "+Inf", "+Inf", "Infinity"),
            (f64::NEG_INFINITY, "-Inf", "-Inf", "-Infinity"),
            (f64::NAN, "NaN", "NaN", "NaN"),
        ] {
            let texts = [general(v), fixed(v), json(v)];
            assert_eq!(texts, [v_text, f_text, json_text], "{v:?}");
        }
    }
}
