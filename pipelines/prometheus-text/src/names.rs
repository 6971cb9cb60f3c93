//! Names of metrics and labels: suffixes by unit and kind, and the escaping of characters.
//!
//! The words for units are those of <https://github.com/prometheus/otlptranslator>.

use crate::Kind;

/// Units and the words for them in metric names, sorted by unit.
const UNITS: [(&str, &str); 22] = [
    ("%", "percent"),
    ("1", "ratio"),
    ("A", "amperes"),
    ("By", "bytes"),
    ("C", "coulombs"),
    ("Cel", "celsius"),
    ("GBy", "gigabytes"),
    ("GiBy", "gibibytes"),
    ("Hz", "hertz"),
    ("J", "joules"),
    ("KBy", "kilobytes"),
    ("KiBy", "kibibytes"),
    ("MBy", "megabytes"),
    ("MiBy", "mebibytes"),
    ("V", "volts"),
    ("W", "watts"),
    ("d", "days"),
    ("h", "hours"),
    ("min", "minutes"),
    ("ms", "milliseconds"),
    ("s", "seconds"),
    ("us", "microseconds"),
];

/// Appends the unit to a name, and `total` for a counter, unless the name contains them.
pub(crate) fn with_suffixes(name: &str, unit: &str, kind: Kind) -> String {
    let has = |name: &str, word: &str| name.split(['_', '.']).any(|token| token == word);
    let mut name = name.to_owned();
    let (main, per) = unit.split_once('/').unwrap_or((unit, ""));
    let word = match word(main) {
        // Unit 1 is a ratio only for a gauge; a counter counts items.
        "ratio" if kind != Kind::Gauge => "",
        word => word,
    };
    if !word.is_empty() && !has(&name, word) {
        name = format!("{name}_{word}");
    }
    let per = word_of_one(per);
    if !per.is_empty() && !has(&name, per) {
        name = format!("{name}_per_{per}");
    }
    if kind == Kind::Counter {
        let bare = name.strip_suffix("_total").unwrap_or(&name);
        name = format!("{bare}_total");
    }
    name
}

/// Returns the word for a unit; empty for an annotation in braces. A unit without a word is used unchanged.
fn word(unit: &str) -> &str {
    if unit.contains('{') {
        return "";
    }
    UNITS.iter().find(|(short, _)| *short == unit).map_or(unit, |(_, word)| word)
}

/// Returns the singular word for a unit, for use after `per`.
fn word_of_one(unit: &str) -> &str {
    match word(unit) {
        "1" | "ratio" => "",
        "hertz" => "hertz",
        word => word.trim_end_matches('s'),
    }
}

/// Returns a metric name with all characters but letters, digits, underscores and colons replaced by underscores.
pub(crate) fn escaped_metric(name: &str) -> String {
    escaped(name, |c| c == ':')
}

/// Returns a label name with all characters but letters, digits and underscores replaced by underscores.
pub(crate) fn escaped_label(name: &str) -> String {
    escaped(name, |_| false)
}

fn escaped(name: &str, is_also_valid: impl Fn(char) -> bool) -> String {
    let is_valid = |index, c: char| {
        c.is_ascii_alphabetic() || c == '_' || is_also_valid(c) || (index > 0 && c.is_ascii_digit())
    };
    name.chars().enumerate().map(|(index, c)| if is_valid(index, c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_in_their_unit_and_counters_in_total() {
        for (name, unit, kind, want) in [
            ("otelcol_process_cpu_seconds", "s", Kind::Counter, "otelcol_process_cpu_seconds_total"),
            ("otelcol_process_memory_rss", "By", Kind::Gauge, "otelcol_process_memory_rss_bytes"),
            ("otelcol_process_uptime", "s", Kind::Counter, "otelcol_process_uptime_seconds_total"),
            (
                "otelcol_receiver_accepted_spans",
                "{spans}",
                Kind::Counter,
                "otelcol_receiver_accepted_spans_total",
            ),
            ("already_total", "1", Kind::Counter, "already_total"),
            ("used", "1", Kind::Gauge, "used_ratio"),
            ("speed", "By/s", Kind::Gauge, "speed_bytes_per_second"),
            ("odd", "furlong", Kind::Gauge, "odd_furlong"),
            ("http.server.request.duration", "s", Kind::Histogram, "http.server.request.duration_seconds"),
        ] {
            assert_eq!(with_suffixes(name, unit, kind), want);
        }
    }

    #[test]
    fn units_are_sorted() {
        assert!(UNITS.is_sorted_by(|a, b| a.0 < b.0));
    }
}
