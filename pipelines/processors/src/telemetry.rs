//! The collector's own metrics, as far as processors count them: names and attributes that several share.

use component::{ComponentId, Signal};
use opentelemetry::KeyValue;

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
