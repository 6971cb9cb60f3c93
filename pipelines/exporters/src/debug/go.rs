//! Values as Go's `fmt`, `time` and `encoding/json` write them, which is how the Collector shows them.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;

/// `%f`: six digits after the point.
pub(super) fn fixed(v: f64) -> String {
    special(v).unwrap_or_else(|| format!("{v:.6}"))
}

/// `%v`: the shortest digits, with an exponent for very large and very small numbers.
pub(super) fn general(v: f64) -> String {
    special(v).unwrap_or_else(|| {
        let scientific = format!("{v:e}");
        match scientific.split_once('e') {
            Some((digits, exponent)) => match exponent.parse::<i32>() {
                Ok(e) if !(-4..6).contains(&e) => {
                    let sign = if e < 0 { '-' } else { '+' };
                    format!("{digits}e{sign}{:02}", e.abs())
                }
                _ => format!("{v}"),
            },
            None => scientific,
        }
    })
}

fn special(v: f64) -> Option<String> {
    let text = match v {
        v if v.is_nan() => "NaN",
        f64::INFINITY => "+Inf",
        f64::NEG_INFINITY => "-Inf",
        _ => return None,
    };
    Some(text.to_owned())
}

/// As `encoding/json` writes a number.
fn json_number(v: f64) -> String {
    if let Some(text) = special(v) {
        return format!("json: unsupported value: {text}");
    }
    if v == 0.0 || (1e-6..1e21).contains(&v.abs()) {
        return format!("{v}");
    }
    let scientific = format!("{v:e}");
    match scientific.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => scientific,
    }
}

/// The natural logarithm of the base of an exponential histogram: index times this is that of a bound.
pub(super) fn bucket_factor(scale: i32) -> f64 {
    std::f64::consts::LN_2 * 2f64.powi(scale.saturating_neg())
}

/// The buckets of one side of an exponential histogram, each with its index.
pub(super) fn buckets(side: &Buckets) -> impl DoubleEndedIterator<Item = (f64, u64)> {
    let offset = f64::from(side.offset);
    side.bucket_counts.iter().enumerate().map(move |(i, count)| (offset + i as f64, *count))
}

/// The name of a value's type.
pub(super) fn type_name(value: Option<&AnyValue>) -> &'static str {
    match value.and_then(|v| v.value.as_ref()) {
        None | Some(Value::StringValueStrindex(_)) => "Empty",
        Some(Value::StringValue(_)) => "Str",
        Some(Value::BoolValue(_)) => "Bool",
        Some(Value::IntValue(_)) => "Int",
        Some(Value::DoubleValue(_)) => "Double",
        Some(Value::ArrayValue(_)) => "Slice",
        Some(Value::KvlistValue(_)) => "Map",
        Some(Value::BytesValue(_)) => "Bytes",
    }
}

/// A value on its own: text is bare, lists and maps are JSON.
pub(super) fn value(value: Option<&AnyValue>) -> String {
    match value.and_then(|v| v.value.as_ref()) {
        None | Some(Value::StringValueStrindex(_)) => String::new(),
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::BytesValue(bytes)) => STANDARD.encode(bytes),
        Some(other) => {
            let mut out = String::new();
            json(Some(other), &mut out);
            out
        }
    }
}

fn json(value: Option<&Value>, out: &mut String) {
    match value {
        None | Some(Value::StringValueStrindex(_)) => out.push_str("null"),
        Some(Value::StringValue(text)) => quoted(text, out),
        Some(Value::BoolValue(flag)) => out.push_str(if *flag { "true" } else { "false" }),
        Some(Value::IntValue(n)) => out.push_str(&n.to_string()),
        Some(Value::DoubleValue(v)) => out.push_str(&json_number(*v)),
        Some(Value::BytesValue(bytes)) => quoted(&STANDARD.encode(bytes), out),
        Some(Value::ArrayValue(list)) => {
            out.push('[');
            separated(list.values.iter(), out, |item, out| json(item.value.as_ref(), out));
            out.push(']');
        }
        Some(Value::KvlistValue(map)) => {
            out.push('{');
            separated(sorted(&map.values).into_iter(), out, |pair, out| {
                quoted(&pair.key, out);
                out.push(':');
                json(pair.value.as_ref().and_then(|v| v.value.as_ref()), out);
            });
            out.push('}');
        }
    }
}

/// A map's pairs by key, of a repeated key the last.
fn sorted(pairs: &[KeyValue]) -> Vec<&KeyValue> {
    let by_key: std::collections::BTreeMap<&str, &KeyValue> =
        pairs.iter().map(|pair| (pair.key.as_str(), pair)).collect();
    by_key.into_values().collect()
}

fn separated<T>(items: impl Iterator<Item = T>, out: &mut String, write: impl Fn(T, &mut String)) {
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(item, out);
    }
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// An id in hex digits.
pub(super) fn hex(id: &[u8]) -> String {
    id.iter().fold(String::with_capacity(2 * id.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A moment as `time.Time` prints itself: the fraction without trailing zeros, and UTC.
pub(super) fn timestamp(unix_nano: u64) -> String {
    // The Collector reads the number as signed.
    let nanos = unix_nano.cast_signed();
    let (date, time) = date_and_time(nanos.div_euclid(1_000_000_000));
    let fraction = match nanos.rem_euclid(1_000_000_000) {
        0 => String::new(),
        nanos => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
    };
    format!("{date} {time}{fraction} +0000 UTC")
}

/// A moment as the Collector's log begins a line with it.
pub(super) fn iso8601(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (date, time) = date_and_time(i64::try_from(since.as_secs()).unwrap_or(0));
    format!("{date}T{time}.{:03}Z", since.subsec_millis())
}

fn date_and_time(unix_secs: i64) -> (String, String) {
    let (days, second) = (unix_secs.div_euclid(86_400), unix_secs.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let time = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    (format!("{year:04}-{month:02}-{day:02}"), time)
}

/// The Gregorian date so many days after 1970-01-01. Years are counted from March, so that the leap day ends
/// one; an era is the 400 years after which the calendar repeats.
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA_DAYS: i64 = 146_097;
    let since_march_0 = days + 719_468;
    let (era, day) = (since_march_0.div_euclid(ERA_DAYS), since_march_0.rem_euclid(ERA_DAYS));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (400 * era + year + i64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line was printed by Go: `%v`, `%f`, `json.Marshal`.
    #[test]
    fn numbers_look_as_in_go() {
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
            (0.000_012_34, "1.234e-05", "0.000012", "0.00001234"),
            (1e-7, "1e-07", "0.000000", "1e-7"),
            (f64::INFINITY, "+Inf", "+Inf", "json: unsupported value: +Inf"),
            (f64::NEG_INFINITY, "-Inf", "-Inf", "json: unsupported value: -Inf"),
            (f64::NAN, "NaN", "NaN", "json: unsupported value: NaN"),
        ] {
            assert_eq!((general(v).as_str(), fixed(v).as_str()), (v_text, f_text), "{v:?}");
            assert_eq!(json_number(v), json_text, "{v:?}");
        }
    }

    #[test]
    fn moments_look_as_in_go() {
        for (nanos, text) in [
            (0, "1970-01-01 00:00:00 +0000 UTC"),
            (1, "1970-01-01 00:00:00.000000001 +0000 UTC"),
            (1_700_000_000_000_000_000, "2023-11-14 22:13:20 +0000 UTC"),
            (1_700_000_000_123_000_000, "2023-11-14 22:13:20.123 +0000 UTC"),
            (1_700_000_000_123_456_789, "2023-11-14 22:13:20.123456789 +0000 UTC"),
            (951_782_400_000_000_000, "2000-02-29 00:00:00 +0000 UTC"),
            (i64::MAX as u64, "2262-04-11 23:47:16.854775807 +0000 UTC"),
            (u64::MAX, "1969-12-31 23:59:59.999999999 +0000 UTC"),
        ] {
            assert_eq!(timestamp(nanos), text);
        }
        let at = UNIX_EPOCH + std::time::Duration::from_millis(1_700_000_000_042);
        assert_eq!(iso8601(at), "2023-11-14T22:13:20.042Z");
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let mut previous = civil(-150_000);
        for days in -149_999..150_000 {
            let (year, month, day) = civil(days);
            let (y, m, d) = previous;
            let is_leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
            let last = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            let want = match (m, d) {
                (12, 31) => (y + 1, 1, 1),
                (m, d) if d == last[m as usize - 1] => (y, m + 1, 1),
                (m, d) => (y, m, d + 1),
            };
            assert_eq!((year, month, day), want, "day {days}");
            previous = (year, month, day);
        }
    }

    #[test]
    fn values_look_as_the_collector_shows_them() {
        let json = br#"{"attributes":[
            {"key":"a","value":{"stringValue":"<x> \"q\""}},
            {"key":"b","value":{"kvlistValue":{"values":[
                {"key":"z","value":{"stringValue":"<\n\u0001>"}},
                {"key":"d","value":{"doubleValue":34.22}},
                {"key":"n","value":{}},
                {"key":"l","value":{"arrayValue":{"values":[{"intValue":"1"},{"boolValue":true},{"bytesValue":"AQI="}]}}},
                {"key":"z","value":{"stringValue":"last"}}]}}},
            {"key":"c","value":{"bytesValue":"AQI="}},
            {"key":"d","value":{}},
            {"key":"e","value":{"doubleValue":1e6}}]}"#;
        let span: opentelemetry_proto::tonic::trace::v1::Span = otlp_json::from_slice(json).unwrap();
        let shown: Vec<String> = span
            .attributes
            .iter()
            .map(|a| format!("{}({})", type_name(a.value.as_ref()), value(a.value.as_ref())))
            .collect();
        let want = [
            r#"Str(<x> "q")"#,
            r#"Map({"d":34.22,"l":[1,true,"AQI="],"n":null,"z":"last"})"#,
            "Bytes(AQI=)",
            "Empty()",
            "Double(1000000)",
        ];
        assert_eq!(shown, want);
    }
}
