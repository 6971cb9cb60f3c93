//! The nesting of OTLP's messages, declared once for all signals: data contains resources, a resource contains scopes, a
//! scope contains items, and a metric contains points.
//!
//! Code that is generic over [`Telemetry`] works for every signal; [`with_payload!`](crate::with_payload) selects the
//! signal.

use std::fmt;

use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, LogsData, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data as MetricData;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric,
    MetricsData, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint,
};
use opentelemetry_proto::tonic::profiles::v1development::{
    Profile, ProfilesData, ResourceProfiles, ScopeProfiles,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::Event;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};
use prost::Message;

use crate::{ItemMut, ItemRef};

/// A message that contains a list of other messages.
pub trait Group: Message + Default + Clone {
    /// The type of the messages in the list.
    type Part;

    /// Returns the list.
    fn parts(&self) -> &[Self::Part];

    /// Returns the list for changes.
    fn parts_mut(&mut self) -> &mut Vec<Self::Part>;

    /// Returns a copy of this message with an empty list.
    fn without_parts(&self) -> Self;
}

/// The data of one signal: a list of resources.
pub trait Telemetry: Group<Part: ResourceGroup> {}

/// All telemetry of one resource: a list of scopes.
pub trait ResourceGroup: Group<Part: ScopeGroup> {
    /// Returns the resource.
    fn resource(&self) -> Option<&Resource>;

    /// Returns the resource, and the URL of the schema that it follows, for changes.
    fn resource_mut(&mut self) -> (&mut Option<Resource>, &mut String);

    /// Returns the URL of the schema that the resource follows.
    fn schema_url(&self) -> &str;

    /// Returns the resource and, for changes, its scopes.
    fn scopes_mut(&mut self) -> (Option<&Resource>, &mut Vec<Self::Part>);
}

/// All telemetry of one scope within a resource: a list of items.
pub trait ScopeGroup: Group<Part: Record> {
    /// Returns the scope.
    fn scope(&self) -> Option<&InstrumentationScope>;

    /// Returns the URL of the schema that the items follow.
    fn schema_url(&self) -> &str;

    /// Returns the scope and, for changes, its items.
    fn items_mut(&mut self) -> (Option<&InstrumentationScope>, &mut Vec<Self::Part>);
}

/// An element of a scope's list: a log record, a metric, a profile or a span.
pub trait Record: Message + Default + Clone {
    /// Returns a reference to this item.
    fn as_item(&self) -> ItemRef<'_>;

    /// Returns a reference to this item for changes.
    fn as_item_mut(&mut self) -> ItemMut<'_>;
}

/// A message that has attributes.
pub trait Attributes: fmt::Debug {
    /// Returns the attributes.
    fn attributes(&self) -> &[KeyValue];

    /// Returns the attributes for changes.
    fn attributes_mut(&mut self) -> &mut Vec<KeyValue>;
}

/// A data point of a metric.
pub trait Point: Attributes {
    /// Returns the time that the value refers to, in ns since 1970; 0 if unknown.
    fn time_unix_nano(&self) -> u64;
}

/// The points of a metric of one kind.
pub trait Points: Group<Part: Point> {
    /// Returns the points of `data` if they are of this kind.
    fn of(data: &mut MetricData) -> Option<&mut Self>;

    /// Converts the points to the data of a metric.
    fn into_data(self) -> MetricData;
}

/// Evaluates an expression with the [`Payload`](crate::Payload) of a [`Data`](crate::Data), whatever its signal.
#[macro_export]
macro_rules! with_payload {
    ($data:expr, $payload:ident => $result:expr) => {
        match $data {
            $crate::Data::Logs($payload) => $result,
            $crate::Data::Metrics($payload) => $result,
            $crate::Data::Traces($payload) => $result,
            $crate::Data::Profiles($payload) => $result,
        }
    };
}

/// Evaluates an expression with the points of a metric ([`Points`]), of whatever kind.
#[macro_export]
macro_rules! with_points {
    ($data:expr, $points:ident => $result:expr) => {{
        use ::opentelemetry_proto::tonic::metrics::v1::metric::Data;
        match $data {
            Data::Gauge($points) => $result,
            Data::Sum($points) => $result,
            Data::Histogram($points) => $result,
            Data::ExponentialHistogram($points) => $result,
            Data::Summary($points) => $result,
        }
    }};
}

macro_rules! group {
    ($group:ident . $list:ident : $part:ident, $($field:ident)*) => {
        impl Group for $group {
            type Part = $part;

            fn parts(&self) -> &[$part] {
                &self.$list
            }

            fn parts_mut(&mut self) -> &mut Vec<$part> {
                &mut self.$list
            }

            fn without_parts(&self) -> Self {
                $group { $list: Vec::new(), $($field: self.$field.clone(),)* }
            }
        }
    };
}

/// Declares the nesting of a signal.
macro_rules! signal {
    (
        $data:ident { $resources:ident $(, $field:ident)* },
        $resource:ident { $scopes:ident },
        $scope:ident { $items:ident: $variant:ident($item:ident) }
    ) => {
        group!($data.$resources: $resource, $($field)*);
        group!($resource.$scopes: $scope, resource schema_url);
        group!($scope.$items: $item, scope schema_url);

        impl Telemetry for $data {}

        impl ResourceGroup for $resource {
            fn resource(&self) -> Option<&Resource> {
                self.resource.as_ref()
            }

            fn resource_mut(&mut self) -> (&mut Option<Resource>, &mut String) {
                (&mut self.resource, &mut self.schema_url)
            }

            fn schema_url(&self) -> &str {
                &self.schema_url
            }

            fn scopes_mut(&mut self) -> (Option<&Resource>, &mut Vec<$scope>) {
                (self.resource.as_ref(), &mut self.$scopes)
            }
        }

        impl ScopeGroup for $scope {
            fn scope(&self) -> Option<&InstrumentationScope> {
                self.scope.as_ref()
            }

            fn schema_url(&self) -> &str {
                &self.schema_url
            }

            fn items_mut(&mut self) -> (Option<&InstrumentationScope>, &mut Vec<$item>) {
                (self.scope.as_ref(), &mut self.$items)
            }
        }

        impl Record for $item {
            fn as_item(&self) -> ItemRef<'_> {
                ItemRef::$variant(self)
            }

            fn as_item_mut(&mut self) -> ItemMut<'_> {
                ItemMut::$variant(self)
            }
        }
    };
}

signal!(
    LogsData { resource_logs },
    ResourceLogs { scope_logs },
    ScopeLogs { log_records: LogRecord(LogRecord) }
);
signal!(
    MetricsData { resource_metrics },
    ResourceMetrics { scope_metrics },
    ScopeMetrics { metrics: Metric(Metric) }
);
signal!(TracesData { resource_spans }, ResourceSpans { scope_spans }, ScopeSpans { spans: Span(Span) });
signal!(
    ProfilesData { resource_profiles, dictionary },
    ResourceProfiles { scope_profiles },
    ScopeProfiles { profiles: Profile(Profile) }
);

macro_rules! attributes {
    ($($type:ident)*) => {$(
        impl Attributes for $type {
            fn attributes(&self) -> &[KeyValue] {
                &self.attributes
            }

            fn attributes_mut(&mut self) -> &mut Vec<KeyValue> {
                &mut self.attributes
            }
        }
    )*};
}

/// Declares the point types.
macro_rules! points {
    ($($point:ident)*) => {
        attributes!($($point)*);
        $(impl Point for $point {
            fn time_unix_nano(&self) -> u64 {
                self.time_unix_nano
            }
        })*
    };
}

/// Declares the kinds of metrics: the type of their points, and the fields that are not points.
macro_rules! kinds {
    ($($kind:ident { $point:ident, $($field:ident)* })*) => {$(
        group!($kind.data_points: $point, $($field)*);

        impl Points for $kind {
            fn of(data: &mut MetricData) -> Option<&mut Self> {
                if let MetricData::$kind(points) = data { Some(points) } else { None }
            }

            fn into_data(self) -> MetricData {
                MetricData::$kind(self)
            }
        }
    )*};
}

attributes!(LogRecord Span Event);
points!(NumberDataPoint HistogramDataPoint ExponentialHistogramDataPoint SummaryDataPoint);
kinds! {
    Gauge { NumberDataPoint, }
    Sum { NumberDataPoint, aggregation_temporality is_monotonic }
    Histogram { HistogramDataPoint, aggregation_temporality }
    ExponentialHistogram { ExponentialHistogramDataPoint, aggregation_temporality }
    Summary { SummaryDataPoint, }
}
