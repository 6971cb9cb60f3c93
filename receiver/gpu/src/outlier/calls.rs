//! The calls inside an outlier: a child span for each, and sentences about those that were a large part of it.
//!
//! A call is compared with the usual duration of its function, which comes from the folds.

use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;
use semconv::{attribute, span};

use super::{Outlier, child, integer};
use crate::detail::Call;

/// The maximum number of sentences about calls.
const DESCRIBED_MAX: usize = 5;
/// Minimum share of the step of a call that is mentioned.
const SHARE_MIN: f64 = 0.05;

/// A call inside a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inside {
    pub(crate) call: Call,
    /// Usual duration of calls of the function in s, if enough were counted.
    pub(crate) usual_s: Option<f64>,
}

impl Inside {
    fn duration_s(&self) -> f64 {
        self.call.duration_ns() as f64 / 1e9
    }

    fn excess_s(&self) -> f64 {
        self.duration_s() - self.usual_s.unwrap_or(0.0)
    }

    fn describe(&self) -> Option<String> {
        let symbol = probe_abi::row(self.call.row)?.symbol;
        let took = format!("{symbol} took {}", ms(self.duration_s()));
        Some(match self.usual_s {
            Some(usual_s) => format!("{took}, usually {}", ms(usual_s)),
            None => took,
        })
    }
}

impl Outlier<'_> {
    /// Describes the call with the largest excess over its usual duration, if it is a large part of the step.
    pub(super) fn slowest_call(&self) -> Option<String> {
        let slowest = self.calls.iter().max_by(|a, b| a.excess_s().total_cmp(&b.excess_s()))?;
        self.is_part(slowest.excess_s()).then(|| slowest.describe()).flatten()
    }

    /// Describes the longest calls, longest first.
    pub(super) fn longest_calls(&self) -> Option<Vec<String>> {
        let mut long: Vec<&Inside> = self.calls.iter().filter(|c| self.is_part(c.duration_s())).collect();
        long.sort_by(|a, b| b.duration_s().total_cmp(&a.duration_s()));
        let described: Vec<String> =
            long.into_iter().take(DESCRIBED_MAX).filter_map(Inside::describe).collect();
        (!described.is_empty()).then_some(described)
    }

    fn is_part(&self, seconds: f64) -> bool {
        seconds * 1e9 >= SHARE_MIN * self.step.duration_ns as f64
    }

    /// Emits the span of a call.
    pub(super) fn call(&self, tracer: &SdkTracer, parent: &Context, inside: &Inside) {
        let Inside { call, usual_s } = inside;
        let Some(row) = probe_abi::row(call.row) else { return };
        let unix = |ns: u64| self.unix.first.saturating_add(ns.saturating_sub(self.step.start_ns));
        let usual = usual_s.map(|usual_s| KeyValue::new(attribute::GPU_CALL_BASELINE_MEDIAN, usual_s));
        let own = [
            KeyValue::new(attribute::GPU_CALL_WEIGHT, integer(call.weight.into())),
            KeyValue::new(attribute::GPU_CUDA_OPERATION_NAME, row.symbol),
        ];
        let attributes = usual.into_iter().chain(own).chain(self.of_child(call.tid)).collect();
        child(tracer, parent, span::GPU_STEP_CALL, attributes, unix(call.entry_ns), unix(call.exit_ns));
    }
}

/// Returns a duration in milliseconds, with more decimal places if it is short.
fn ms(seconds: f64) -> String {
    let ms = seconds * 1e3;
    if ms < 0.01 { format!("{ms:.4} ms") } else { format!("{ms:.2} ms") }
}
