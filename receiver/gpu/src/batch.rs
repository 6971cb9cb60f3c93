//! Builds batches of telemetry with the scope of this receiver.

pub(crate) use instrumentation::{Sink, metrics, take_records};
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;

use crate::instruments::scope;

/// Returns the metrics of one resource as a message.
pub(crate) fn resource_metrics(resource: Resource, metrics: Vec<Metric>) -> ResourceMetrics {
    instrumentation::resource_metrics(&scope(), resource, metrics)
}
