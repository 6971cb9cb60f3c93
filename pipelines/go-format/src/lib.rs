//! Numbers and times formatted as Go's `fmt`, `strconv`, `encoding/json` and `time` do, since the Collector's
//! users see these texts in logs, pages and metrics. All times are in UTC.

mod number;
mod time;

pub use number::{fixed, general, json};
pub use time::{iso8601_millis, rfc3339, timestamp};
