//! The text formats of Prometheus: metric families, their names, and the text that a scrape returns.
//!
//! Two formats are written, the Prometheus [text format 0.0.4][text] and [OpenMetrics 1.0][om]. Names, suffixes and
//! labels follow OpenTelemetry's [Prometheus compatibility][otel], and numbers are written as Go writes them, so that
//! the text equals the Collector's. The functions are pure: this crate knows points and text, and neither the SDK nor
//! HTTP.
//!
//! ```
//! use prometheus_text::{Families, Family, Kind, Measured, Sample, TextFormat};
//!
//! let mut families = Families::new(true);
//! let sample = Sample { labels: vec![("disk.name".into(), "a".into())], value: Measured::Number(2.0) };
//! let family = Family { name: "io".into(), help: String::new(), kind: Kind::Counter, samples: vec![sample] };
//! families.add(family, "By");
//! let text = families.write(TextFormat::Text);
//! assert_eq!(text, "# TYPE io_bytes_total counter\nio_bytes_total{disk_name=\"a\"} 2\n");
//! ```
//!
//! [text]: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
//! [om]: https://prometheus.io/docs/specs/om/open_metrics_spec/
//! [otel]: https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/

mod family;
mod names;
mod text;

pub use family::{Families, Family, Kind, Labels, Measured, Sample, scope_labels};
pub use text::TextFormat;
