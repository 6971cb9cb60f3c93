//! Telemetry that is ready, under this receiver's scope.

pub(crate) use instrumentation::{Sink, hand_over, metrics};
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;

use crate::instruments::scope;

/// Metrics of one resource.
pub(crate) fn of_resource(resource: Resource, metrics: Vec<Metric>) -> ResourceMetrics {
    instrumentation::of_resource(&scope(), resource, metrics)
}
