//! Moments as text: RFC 3339 in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_SECS: u64 = 86_400;

/// As Go prints a time in JSON: `2026-01-02T03:04:05.000000006Z`, without the zeros at the end.
pub(crate) fn rfc3339(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, secs) = (since.as_secs() / DAY_SECS, since.as_secs() % DAY_SECS);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (secs / 3600, secs / 60 % 60, secs % 60);
    let nanos = format!(".{:09}", since.subsec_nanos());
    let nanos = nanos.trim_end_matches('0').trim_end_matches('.');
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{nanos}Z")
}

/// The same for a reader: to the millisecond.
pub(crate) fn readable(at: SystemTime) -> String {
    let millis = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let text = rfc3339(UNIX_EPOCH + std::time::Duration::from_millis(millis));
    text.replace('T', " ").replace('Z', " UTC")
}

/// The date that many days after 1970-01-01. Counts in cycles of 400 years whose years begin in March, so that
/// the day that leap years add is the last one.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (cycle, of_cycle) = (days / 146_097, days % 146_097);
    let year = (of_cycle - of_cycle / 1_460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + carry, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_are_written_as_go_writes_them() {
        for (secs, nanos, want) in [
            (0, 0, "1970-01-01T00:00:00Z"),
            (951_782_400, 0, "2000-02-29T00:00:00Z"),
            (1_709_251_199, 120_000_000, "2024-02-29T23:59:59.12Z"),
            (4_107_542_400, 1, "2100-03-01T00:00:00.000000001Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::new(secs, nanos)), want);
        }
        let at = UNIX_EPOCH + Duration::new(1, 234_567_890);
        assert_eq!(readable(at), "1970-01-01 00:00:01.234 UTC");
    }
}
