//! Times in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use tz::UtcDateTime;

/// Formats as Go encodes a `time.Time` in JSON: `2026-01-02T03:04:05.000000006Z`, without trailing zeros.
pub fn rfc3339(at: SystemTime) -> String {
    let at = date_time(at);
    format!("{}T{}{}Z", date(&at), clock(&at), fraction(&at))
}

/// Formats with milliseconds, as the Collector starts a line of its log: `2023-11-14T22:13:20.042Z`.
pub fn iso8601_millis(at: SystemTime) -> String {
    let at = date_time(at);
    format!("{}T{}.{:03}Z", date(&at), clock(&at), at.nanoseconds() / 1_000_000)
}

/// Formats Unix nanoseconds as `time.Time` prints itself: `2023-11-14 22:13:20.123 +0000 UTC`. Like the
/// Collector, it reads the number as signed.
pub fn timestamp(unix_nanos: u64) -> String {
    let at = UtcDateTime::from_total_nanoseconds(unix_nanos.cast_signed().into()).unwrap_or(EPOCH);
    format!("{} {}{} +0000 UTC", date(&at), clock(&at), fraction(&at))
}

const EPOCH: UtcDateTime = match UtcDateTime::from_timespec(0, 0) {
    Ok(epoch) => epoch,
    Err(_) => panic!("the epoch is a valid time"),
};

/// Converts a time. Times before 1970, and after the calendar of `tz` ends, become 1970.
fn date_time(at: SystemTime) -> UtcDateTime {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let secs = i64::try_from(since.as_secs()).unwrap_or_default();
    UtcDateTime::from_timespec(secs, since.subsec_nanos()).unwrap_or(EPOCH)
}

fn date(at: &UtcDateTime) -> String {
    format!("{:04}-{:02}-{:02}", at.year(), at.month(), at.month_day())
}

fn clock(at: &UtcDateTime) -> String {
    format!("{:02}:{:02}:{:02}", at.hour(), at.minute(), at.second())
}

/// Formats the fraction of a second with its point, or an empty text for a whole second.
fn fraction(at: &UtcDateTime) -> String {
    format!(".{:09}", at.nanoseconds()).trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn json_times_are_formatted_as_by_go() {
        for (secs, nanos, want) in [
            (0, 0, "1970-01-01T00:00:00Z"),
            (951_782_400, 0, "2000-02-29T00:00:00Z"),
            (1_709_251_199, 120_000_000, "2024-02-29T23:59:59.12Z"),
            (4_107_542_400, 1, "2100-03-01T00:00:00.000000001Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::new(secs, nanos)), want);
        }
    }

    #[test]
    fn timestamps_are_formatted_as_by_go() {
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
    }

    #[test]
    fn log_times_have_milliseconds() {
        let at = UNIX_EPOCH + Duration::from_millis(1_700_000_000_042);
        assert_eq!(iso8601_millis(at), "2023-11-14T22:13:20.042Z");
        assert_eq!(iso8601_millis(UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
    }
}
