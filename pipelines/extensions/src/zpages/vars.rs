//! Variables of the process as JSON. Arguments are left out: they may hold secrets.

use serde_json::{Value, json};

use super::Shown;

pub(super) fn json(shown: &Shown) -> String {
    let (state, spans) = (shown.host.state(), shown.host.spans());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let number = |name: &str| number(&status, name).map_or(Value::Null, Value::from);
    let vars = json!({
        "cmdline": std::env::args().take(1).collect::<Vec<_>>(),
        "process": {
            "pid": std::process::id(),
            "uptime_seconds": state.uptime().as_secs_f64(),
            "memory_rss_kib": number("VmRSS"),
            "memory_rss_max_kib": number("VmHWM"),
            "threads": number("Threads"),
        },
        "spans": {"dropped": spans.dropped(), "left_out": spans.left_out()},
        "version": shown.version,
    });
    format!("{vars:#}\n")
}

/// Parses the number in a line such as `VmRSS:   1234 kB`.
fn number(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_name() {
        let status = "VmRSSx:\t1 kB\nVmRSS:\t  1234 kB\nThreads:\t5\n";
        assert_eq!(number(status, "VmRSS"), Some(1234));
        assert_eq!(number(status, "Threads"), Some(5));
        assert_eq!(number(status, "VmHWM"), None);
    }
}
