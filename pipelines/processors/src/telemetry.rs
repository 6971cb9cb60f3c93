//! The collector's own metrics, as far as processors count them: how an instrument is made, and attributes
//! that several share.

use component::{ComponentId, Host, Signal};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, UpDownCounter};

/// A counter of this name.
#[expect(clippy::disallowed_methods, reason = "the Collector's names: our registry does not define them")]
pub(crate) fn counter(host: &Host, name: impl Into<String>) -> Counter<u64> {
    host.meter().u64_counter(name.into()).build()
}

/// A histogram of this name with these bounds.
#[expect(clippy::disallowed_methods, reason = "the Collector's names: our registry does not define them")]
pub(crate) fn histogram(host: &Host, name: &'static str, bounds: &[f64]) -> Histogram<u64> {
    host.meter().u64_histogram(name).with_boundaries(bounds.to_vec()).build()
}

/// A counter of this name that goes both ways.
#[expect(clippy::disallowed_methods, reason = "the Collector's names: our registry does not define them")]
pub(crate) fn up_down_counter(host: &Host, name: &'static str) -> UpDownCounter<i64> {
    host.meter().i64_up_down_counter(name).build()
}

/// The attribute that says whose metric it is.
pub(crate) fn whose(id: &ComponentId) -> KeyValue {
    KeyValue::new("processor", id.to_string())
}

/// What the items of a signal are called in the names of metrics.
pub(crate) fn items_of(signal: Signal) -> &'static str {
    match signal {
        Signal::Logs => "log_records",
        Signal::Metrics => "metric_points",
        Signal::Traces => "spans",
        Signal::Profiles => "profile_samples",
    }
}
