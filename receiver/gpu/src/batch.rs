//! Telemetry that is ready, under this receiver's scope.

use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
pub(crate) use sdk::{Sink, hand_over, metrics};

use crate::instruments::scope;

/// Metrics of one resource.
pub(crate) fn of_resource(resource: Resource, metrics: Vec<Metric>) -> ResourceMetrics {
    sdk::of_resource(&scope(), resource, metrics)
}
