//! Families as text, in the Prometheus format or as OpenMetrics.

use std::fmt::Write as _;

use crate::names::escaped_label;
use crate::{Families, Family, Kind, Labels, Measured};

/// A text format of metrics.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TextFormat {
    /// The format `text/plain; version=0.0.4`.
    Text,
    /// `application/openmetrics-text; version=1.0.0`, in which counters are called `_total`.
    OpenMetrics,
}

impl TextFormat {
    /// Returns the format for a value of the header `Accept`: OpenMetrics if it is accepted and offered.
    pub fn negotiate(accept: &str, offers_open_metrics: bool) -> Self {
        let asks = accept.split(',').any(|part| part.trim().starts_with("application/openmetrics-text"));
        if asks && offers_open_metrics { TextFormat::OpenMetrics } else { TextFormat::Text }
    }

    /// Returns the value of the header `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            TextFormat::Text => "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
            TextFormat::OpenMetrics => {
                "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores"
            }
        }
    }
}

impl Families {
    /// Writes the families, sorted by name, with samples sorted by labels.
    pub fn write(self, format: TextFormat) -> String {
        let mut out = String::new();
        self.into_sorted().for_each(|family| write_family(&mut out, family, format));
        if format == TextFormat::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }
}

fn write_family(out: &mut String, family: Family, format: TextFormat) {
    let Family { name, help, kind, samples } = family;
    // In OpenMetrics the suffix belongs to the sample, not to the family.
    let suffix = match (format, kind) {
        (TextFormat::OpenMetrics, Kind::Counter) => "_total",
        (TextFormat::OpenMetrics, Kind::Info) => "_info",
        _ => "",
    };
    let shown = name.strip_suffix(suffix).unwrap_or(&name);
    let sampled = format!("{shown}{suffix}");
    if !help.is_empty() {
        let _ = writeln!(out, "# HELP {shown} {}", escaped_help(&help, format));
    }
    let _ = writeln!(out, "# TYPE {shown} {}", type_of(kind, format));
    let mut samples: Vec<(Labels, Measured)> =
        samples.into_iter().map(|sample| (labels(sample.labels), sample.value)).collect();
    samples.sort_by(|a, b| a.0.cmp(&b.0));
    for (labels, value) in &samples {
        write_sample(out, &sampled, labels, value, format);
    }
}

fn type_of(kind: Kind, format: TextFormat) -> &'static str {
    match (kind, format) {
        (Kind::Counter, _) => "counter",
        (Kind::Histogram, _) => "histogram",
        (Kind::Info, TextFormat::OpenMetrics) => "info",
        (Kind::Gauge | Kind::Info, _) => "gauge",
    }
}

fn write_sample(
    out: &mut String,
    name: &str,
    labels: &[(String, String)],
    value: &Measured,
    format: TextFormat,
) {
    let mut line = |suffix: &str, bound: Option<&str>, value: String| {
        let _ = writeln!(out, "{name}{suffix}{} {value}", in_braces(labels, bound));
    };
    match value {
        Measured::Number(number) => line("", None, float(*number, format)),
        Measured::Counts { bounds, counts, sum } => {
            let mut below: u64 = 0;
            for (bound, count) in bounds.iter().zip(counts) {
                below += count;
                line("_bucket", Some(&float(*bound, format)), below.to_string());
            }
            let all: u64 = counts.iter().sum();
            line("_bucket", Some("+Inf"), all.to_string());
            line("_sum", None, float(*sum, format));
            line("_count", None, all.to_string());
        }
    }
}

/// Formats labels in braces, followed by the bound of a bucket.
fn in_braces(labels: &[(String, String)], bound: Option<&str>) -> String {
    let labels = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let all = labels.chain(bound.map(|bound| ("le", bound)));
    let pairs: Vec<String> =
        all.map(|(name, value)| format!("{name}=\"{}\"", escaped_value(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

/// Escapes and sorts label names, and joins the values of equal names.
fn labels(mut written: Labels) -> Labels {
    // The values of equal names are joined in the order of the original names.
    written.sort();
    let mut found = Labels::new();
    for (name, value) in written {
        let name = escaped_label(&name);
        match found.iter_mut().find(|(earlier, _)| *earlier == name) {
            Some((_, joined)) => {
                joined.push(';');
                joined.push_str(&value);
            }
            None => found.push((name, value)),
        }
    }
    found.sort();
    found
}

fn escaped_value(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

fn escaped_help(text: &str, format: TextFormat) -> String {
    match format {
        TextFormat::Text => text.replace('\\', r"\\").replace('\n', r"\n"),
        TextFormat::OpenMetrics => escaped_value(text),
    }
}

/// Formats a number in Go's shortest form; OpenMetrics appends `.0` to integers.
fn float(number: f64, format: TextFormat) -> String {
    let text = go_format::general(number);
    let looks_whole = text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    if format == TextFormat::OpenMetrics && looks_whole { format!("{text}.0") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;

    fn family(name: &str, kind: Kind, samples: Vec<Sample>) -> Family {
        Family { name: name.to_owned(), help: "What\\it\n\"is\"".to_owned(), kind, samples }
    }

    fn sample(labels: &[(&str, &str)], value: Measured) -> Sample {
        Sample { labels: labels.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(), value }
    }

    fn families() -> Families {
        let counts = Measured::Counts { bounds: vec![10.0, 100_000.0], counts: vec![1, 2, 3], sum: 1e6 };
        let all = [
            family(
                "z.total",
                Kind::Counter,
                vec![
                    sample(&[("otel.signal", "b\\\"\n")], Measured::Number(2.0)),
                    sample(
                        &[("otel.signal", "a"), ("otel_signal", "c"), ("9x", "")],
                        Measured::Number(3.720_806_4e7),
                    ),
                ],
            ),
            family("a:b-c", Kind::Histogram, vec![sample(&[("processor", "x")], counts)]),
            family("target_info", Kind::Info, vec![sample(&[("service.name", "x")], Measured::Number(1.0))]),
            Family {
                help: String::new(),
                ..family("g", Kind::Gauge, vec![sample(&[], Measured::Number(0.5))])
            },
        ];
        let mut families = Families::new(false);
        all.into_iter().for_each(|family| families.add(family, ""));
        families
    }

    #[test]
    fn families_are_written_as_prometheus_does() {
        assert_eq!(
            families().write(TextFormat::Text),
            r#"# HELP a:b_c What\\it\n"is"
# TYPE a:b_c histogram
a:b_c_bucket{processor="x",le="10"} 1
a:b_c_bucket{processor="x",le="100000"} 3
a:b_c_bucket{processor="x",le="+Inf"} 6
a:b_c_sum{processor="x"} 1e+06
a:b_c_count{processor="x"} 6
# TYPE g gauge
g 0.5
# HELP target_info What\\it\n"is"
# TYPE target_info gauge
target_info{service_name="x"} 1
# HELP z_total What\\it\n"is"
# TYPE z_total counter
z_total{_x="",otel_signal="a;c"} 3.7208064e+07
z_total{otel_signal="b\\\"\n"} 2
"#
        );
    }

    #[test]
    fn open_metrics_strips_suffixes_and_has_an_end_marker() {
        let text = families().write(TextFormat::OpenMetrics);
        for line in [
            "# TYPE z counter",
            "z_total{otel_signal=\"b\\\\\\\"\\n\"} 2.0",
            "# TYPE target info",
            "target_info{service_name=\"x\"} 1.0",
            "a:b_c_bucket{processor=\"x\",le=\"10.0\"} 1",
            "a:b_c_count{processor=\"x\"} 6",
            "# HELP z What\\\\it\\n\\\"is\\\"",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn open_metrics_is_negotiated() {
        for (accept, offers, want) in [
            ("", true, TextFormat::Text),
            ("*/*", true, TextFormat::Text),
            ("text/plain;q=0.5, application/openmetrics-text;version=1.0.0", true, TextFormat::OpenMetrics),
            ("application/openmetrics-text", false, TextFormat::Text),
        ] {
            assert_eq!(TextFormat::negotiate(accept, offers), want, "{accept}");
        }
    }
}
