//! Metrics of the process and its log, under the Collector's names. The metrics of the Go runtime have no
//! counterpart.

use std::sync::Arc;

use component::metrics;
use component::status::State;
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;
use semconv::own_metric;

use crate::logging;

/// Registers observable instruments that measure the process at each collection.
pub(super) fn measure(meter: &Meter, state: &Arc<State>) {
    let state = state.clone();
    metrics::f64_observable_counter(meter, own_metric::OTELCOL_PROCESS_UPTIME)
        .with_callback(move |observer| observer.observe(state.uptime().as_secs_f64(), &[]))
        .build();
    metrics::f64_observable_counter(meter, own_metric::OTELCOL_PROCESS_CPU_SECONDS)
        .with_callback(|observer| {
            if let Some(seconds) = read("/proc/self/stat").as_deref().and_then(cpu_seconds) {
                observer.observe(seconds, &[]);
            }
        })
        .build();
    metrics::i64_observable_gauge(meter, own_metric::OTELCOL_PROCESS_MEMORY_RSS)
        .with_callback(|observer| {
            if let Some(bytes) = read("/proc/self/statm").as_deref().and_then(rss_bytes) {
                observer.observe(bytes, &[]);
            }
        })
        .build();
    metrics::u64_observable_counter(meter, own_metric::WARPTAP_LOG_LINES_DROPPED)
        .with_callback(|observer| {
            for (reason, lines) in logging::dropped() {
                observer.observe(lines, &[KeyValue::new("reason", reason)]);
            }
        })
        .build();
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Parses user plus system time from `/proc/PID/stat`: fields 14 and 15, in clock ticks. The second field is the
/// process name in parentheses, which may contain any character.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    let total = ticks.next()? + ticks.next()?;
    Some(total as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Parses resident memory from `/proc/PID/statm`: the second field, in pages.
fn rss_bytes(statm: &str) -> Option<i64> {
    let pages: i64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    i64::try_from(rustix::param::page_size()).ok()?.checked_mul(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_and_memory_are_parsed() {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let stat = "12 (a) b) S 1 12 12 0 -1 4194304 100 0 0 0 150 50 7 8 20 0 1 0 100 1000 10";
        assert_eq!(cpu_seconds(stat), Some(200.0 / ticks));
        assert_eq!(cpu_seconds("12 (a) S 1"), None);
        assert_eq!(rss_bytes("100 3 2 1 0 9 0"), Some(3 * rustix::param::page_size() as i64));
        assert!(rss_bytes(&read("/proc/self/statm").unwrap()).unwrap() > 1 << 20);
        assert!(cpu_seconds(&read("/proc/self/stat").unwrap()).is_some());
    }
}
