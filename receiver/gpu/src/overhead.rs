//! Metrics of the cost of probes to a process, and of what was given up to hold the overhead budget.

use event::{Overhead, ProbeClass};
use instrumentation::TimeRange;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use semconv::value::WarptapProbeClass;
use semconv::{attribute, metric};

use crate::points::{gauges, text};

/// The state of a process.
#[derive(Debug, Default)]
pub(crate) struct OverheadState {
    last: Option<Overhead>,
    was_thinned: bool,
}

impl OverheadState {
    /// Replaces the state.
    pub(crate) fn replace(&mut self, overhead: &Overhead) {
        self.last = Some(*overhead);
        self.was_thinned |= self.is_thinned();
    }

    /// Returns whether probes are attached for a part of the time only.
    pub(crate) fn is_thinned(&self) -> bool {
        self.last.is_some_and(|overhead| overhead.attached.iter().any(|share| *share < 1.0))
    }

    /// Returns the metrics: of most processes the overhead only.
    pub(crate) fn metrics(&self, window: TimeRange) -> Vec<Metric> {
        let Some(overhead) = &self.last else { return Vec::new() };
        let attached = ProbeClass::THINNABLE.into_iter().zip(overhead.attached);
        let attached = attached.map(|(class, share)| {
            (vec![text(attribute::WARPTAP_PROBE_CLASS, name(class).as_str())], Value::AsDouble(share))
        });
        let attached = gauges(metric::WARPTAP_PROBE_ATTACHED, window, attached.collect());
        let share = vec![(Vec::new(), Value::AsDouble(overhead.share))];
        let share = gauges(metric::WARPTAP_PROBE_OVERHEAD, window, share);
        if self.was_thinned { vec![attached, share] } else { vec![share] }
    }
}

fn name(class: ProbeClass) -> WarptapProbeClass {
    match class {
        ProbeClass::Launch => WarptapProbeClass::Launch,
        ProbeClass::Copy => WarptapProbeClass::Copy,
        ProbeClass::Call | ProbeClass::Essential => WarptapProbeClass::Call,
    }
}
