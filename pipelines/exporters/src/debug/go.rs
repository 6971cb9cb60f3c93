//! Numbers, moments and ids as Go's `fmt` and `time` write them, which is how the Collector shows them.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

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

/// The natural logarithm of the base of an exponential histogram: index times this is that of a bound.
pub(super) fn bucket_factor(scale: i32) -> f64 {
    std::f64::consts::LN_2 * 2f64.powi(scale.saturating_neg())
}

/// The buckets of one side of an exponential histogram, each with its index.
pub(super) fn buckets(side: &Buckets) -> impl DoubleEndedIterator<Item = (f64, u64)> {
    let offset = f64::from(side.offset);
    side.bucket_counts.iter().enumerate().map(move |(i, count)| (offset + i as f64, *count))
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

    /// Each line was printed by Go: `%v`, `%f`.
    #[test]
    fn numbers_look_as_in_go() {
        for (v, v_text, f_text) in [
            (0.0, "0", "0.000000"),
            (-0.0, "-0", "-0.000000"),
            (1.0, "1", "1.000000"),
            (-1.5, "-1.5", "-1.500000"),
            (0.1, "0.1", "0.100000"),
            (100_000.0, "100000", "100000.000000"),
            (999_999.5, "999999.5", "999999.500000"),
            (1e6, "1e+06", "1000000.000000"),
            (123_456_789.0, "1.23456789e+08", "123456789.000000"),
            (1e20, "1e+20", "100000000000000000000.000000"),
            (1e21, "1e+21", "1000000000000000000000.000000"),
            (0.0001, "0.0001", "0.000100"),
            (0.000_012_34, "1.234e-05", "0.000012"),
            (1e-7, "1e-07", "0.000000"),
            (f64::INFINITY, "+Inf", "+Inf"),
            (f64::NEG_INFINITY, "-Inf", "-Inf"),
            (f64::NAN, "NaN", "NaN"),
        ] {
            assert_eq!((general(v).as_str(), fixed(v).as_str()), (v_text, f_text), "{v:?}");
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
}
