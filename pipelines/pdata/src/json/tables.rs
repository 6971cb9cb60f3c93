//! The messages, row by row: `"jsonName": Kind = field`, in the order of the protobuf field numbers.

use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsPartialSuccess, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyOf;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, EntityRef, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, LogsData, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::exemplar::Value as ExemplarValue;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data as MetricData;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as NumberValue;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
    Metric, MetricsData, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span, Status as SpanStatus, TracesData,
};

use crate::json::Message;
use crate::json::kinds::{Base64, Double, Flag, Hex, Int, Kind, List, Long, Maybe, Nested, Text};
use crate::json::reader::{JsonError, JsonReader};
use crate::json::writer;

macro_rules! messages {
    ($($message:ident {
        $($name:literal: $kind:ty = $field:ident,)*
        $(oneof $one:ident: $choice:ident { $($one_name:literal: $one_kind:ty = $variant:ident,)* })?
    })*) => {$(
        impl Message for $message {
            fn write_fields(&self, out: &mut Vec<u8>) {
                $(if !<$kind as Kind<_>>::is_unset(&self.$field) {
                    writer::key($name, out);
                    <$kind as Kind<_>>::write(&self.$field, out);
                })*
                $(match &self.$one {
                    None => {}
                    $(Some($choice::$variant(value)) => {
                        writer::key($one_name, out);
                        <$one_kind as Kind<_>>::write(value, out);
                    })*
                })?
            }

            fn read_field(&mut self, name: &str, reader: &mut JsonReader<'_>) -> Result<bool, JsonError> {
                match name {
                    $($name => self.$field = <$kind as Kind<_>>::read(reader)?,)*
                    $($($one_name => {
                        self.$one = Some($choice::$variant(<$one_kind as Kind<_>>::read(reader)?));
                    })*)?
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }
    )*};
}

pub(crate) use messages;

/// The body of an HTTP response with an error: `google.rpc.Status` without its details.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Status {
    /// The gRPC status code.
    pub code: i32,
    /// The reason in words.
    pub message: String,
}

// Common messages.
messages! {
    AnyValue {
        oneof value: AnyOf {
            "stringValue": Text = StringValue,
            "boolValue": Flag = BoolValue,
            "intValue": Long = IntValue,
            "doubleValue": Double = DoubleValue,
            "arrayValue": Nested = ArrayValue,
            "kvlistValue": Nested = KvlistValue,
            "bytesValue": Base64 = BytesValue,
            "stringValueStrindex": Int = StringValueStrindex,
        }
    }
    ArrayValue {
        "values": List<Nested> = values,
    }
    EntityRef {
        "schemaUrl": Text = schema_url,
        "type": Text = r#type,
        "idKeys": List<Text> = id_keys,
        "descriptionKeys": List<Text> = description_keys,
    }
    InstrumentationScope {
        "name": Text = name,
        "version": Text = version,
        "attributes": List<Nested> = attributes,
        "droppedAttributesCount": Int = dropped_attributes_count,
    }
    KeyValue {
        "key": Text = key,
        "value": Maybe<Nested> = value,
        "keyStrindex": Int = key_strindex,
    }
    KeyValueList {
        "values": List<Nested> = values,
    }
    Resource {
        "attributes": List<Nested> = attributes,
        "droppedAttributesCount": Int = dropped_attributes_count,
        "entityRefs": List<Nested> = entity_refs,
    }
}

// Messages of logs.
messages! {
    LogsData {
        "resourceLogs": List<Nested> = resource_logs,
    }
    ResourceLogs {
        "resource": Maybe<Nested> = resource,
        "scopeLogs": List<Nested> = scope_logs,
        "schemaUrl": Text = schema_url,
    }
    ScopeLogs {
        "scope": Maybe<Nested> = scope,
        "logRecords": List<Nested> = log_records,
        "schemaUrl": Text = schema_url,
    }
    LogRecord {
        "timeUnixNano": Long = time_unix_nano,
        "severityNumber": Int = severity_number,
        "severityText": Text = severity_text,
        "body": Maybe<Nested> = body,
        "attributes": List<Nested> = attributes,
        "droppedAttributesCount": Int = dropped_attributes_count,
        "flags": Int = flags,
        "traceId": Hex<16> = trace_id,
        "spanId": Hex<8> = span_id,
        "observedTimeUnixNano": Long = observed_time_unix_nano,
        "eventName": Text = event_name,
    }
}

// Messages of metrics.
messages! {
    MetricsData {
        "resourceMetrics": List<Nested> = resource_metrics,
    }
    ResourceMetrics {
        "resource": Maybe<Nested> = resource,
        "scopeMetrics": List<Nested> = scope_metrics,
        "schemaUrl": Text = schema_url,
    }
    ScopeMetrics {
        "scope": Maybe<Nested> = scope,
        "metrics": List<Nested> = metrics,
        "schemaUrl": Text = schema_url,
    }
    Metric {
        "name": Text = name,
        "description": Text = description,
        "unit": Text = unit,
        "metadata": List<Nested> = metadata,
        oneof data: MetricData {
            "gauge": Nested = Gauge,
            "sum": Nested = Sum,
            "histogram": Nested = Histogram,
            "exponentialHistogram": Nested = ExponentialHistogram,
            "summary": Nested = Summary,
        }
    }
    Gauge {
        "dataPoints": List<Nested> = data_points,
    }
    Sum {
        "dataPoints": List<Nested> = data_points,
        "aggregationTemporality": Int = aggregation_temporality,
        "isMonotonic": Flag = is_monotonic,
    }
    Histogram {
        "dataPoints": List<Nested> = data_points,
        "aggregationTemporality": Int = aggregation_temporality,
    }
    ExponentialHistogram {
        "dataPoints": List<Nested> = data_points,
        "aggregationTemporality": Int = aggregation_temporality,
    }
    Summary {
        "dataPoints": List<Nested> = data_points,
    }
    NumberDataPoint {
        "startTimeUnixNano": Long = start_time_unix_nano,
        "timeUnixNano": Long = time_unix_nano,
        "exemplars": List<Nested> = exemplars,
        "attributes": List<Nested> = attributes,
        "flags": Int = flags,
        oneof value: NumberValue {
            "asDouble": Double = AsDouble,
            "asInt": Long = AsInt,
        }
    }
    HistogramDataPoint {
        "startTimeUnixNano": Long = start_time_unix_nano,
        "timeUnixNano": Long = time_unix_nano,
        "count": Long = count,
        "sum": Maybe<Double> = sum,
        "bucketCounts": List<Long> = bucket_counts,
        "explicitBounds": List<Double> = explicit_bounds,
        "exemplars": List<Nested> = exemplars,
        "attributes": List<Nested> = attributes,
        "flags": Int = flags,
        "min": Maybe<Double> = min,
        "max": Maybe<Double> = max,
    }
    ExponentialHistogramDataPoint {
        "attributes": List<Nested> = attributes,
        "startTimeUnixNano": Long = start_time_unix_nano,
        "timeUnixNano": Long = time_unix_nano,
        "count": Long = count,
        "sum": Maybe<Double> = sum,
        "scale": Int = scale,
        "zeroCount": Long = zero_count,
        "positive": Maybe<Nested> = positive,
        "negative": Maybe<Nested> = negative,
        "flags": Int = flags,
        "exemplars": List<Nested> = exemplars,
        "min": Maybe<Double> = min,
        "max": Maybe<Double> = max,
        "zeroThreshold": Double = zero_threshold,
    }
    Buckets {
        "offset": Int = offset,
        "bucketCounts": List<Long> = bucket_counts,
    }
    SummaryDataPoint {
        "startTimeUnixNano": Long = start_time_unix_nano,
        "timeUnixNano": Long = time_unix_nano,
        "count": Long = count,
        "sum": Double = sum,
        "quantileValues": List<Nested> = quantile_values,
        "attributes": List<Nested> = attributes,
        "flags": Int = flags,
    }
    ValueAtQuantile {
        "quantile": Double = quantile,
        "value": Double = value,
    }
    Exemplar {
        "timeUnixNano": Long = time_unix_nano,
        "spanId": Hex<8> = span_id,
        "traceId": Hex<16> = trace_id,
        "filteredAttributes": List<Nested> = filtered_attributes,
        oneof value: ExemplarValue {
            "asDouble": Double = AsDouble,
            "asInt": Long = AsInt,
        }
    }
}

// Messages of traces.
messages! {
    TracesData {
        "resourceSpans": List<Nested> = resource_spans,
    }
    ResourceSpans {
        "resource": Maybe<Nested> = resource,
        "scopeSpans": List<Nested> = scope_spans,
        "schemaUrl": Text = schema_url,
    }
    ScopeSpans {
        "scope": Maybe<Nested> = scope,
        "spans": List<Nested> = spans,
        "schemaUrl": Text = schema_url,
    }
    Span {
        "traceId": Hex<16> = trace_id,
        "spanId": Hex<8> = span_id,
        "traceState": Text = trace_state,
        "parentSpanId": Hex<8> = parent_span_id,
        "name": Text = name,
        "kind": Int = kind,
        "startTimeUnixNano": Long = start_time_unix_nano,
        "endTimeUnixNano": Long = end_time_unix_nano,
        "attributes": List<Nested> = attributes,
        "droppedAttributesCount": Int = dropped_attributes_count,
        "events": List<Nested> = events,
        "droppedEventsCount": Int = dropped_events_count,
        "links": List<Nested> = links,
        "droppedLinksCount": Int = dropped_links_count,
        "status": Maybe<Nested> = status,
        "flags": Int = flags,
    }
    Event {
        "timeUnixNano": Long = time_unix_nano,
        "name": Text = name,
        "attributes": List<Nested> = attributes,
        "droppedAttributesCount": Int = dropped_attributes_count,
    }
    Link {
        "traceId": Hex<16> = trace_id,
        "spanId": Hex<8> = span_id,
        "traceState": Text = trace_state,
        "attributes": List<Nested> = attributes,
        "droppedAttributesCount": Int = dropped_attributes_count,
        "flags": Int = flags,
    }
    SpanStatus {
        "message": Text = message,
        "code": Int = code,
    }
}

// Messages of responses.
messages! {
    ExportLogsServiceResponse {
        "partialSuccess": Maybe<Nested> = partial_success,
    }
    ExportLogsPartialSuccess {
        "rejectedLogRecords": Long = rejected_log_records,
        "errorMessage": Text = error_message,
    }
    ExportMetricsServiceResponse {
        "partialSuccess": Maybe<Nested> = partial_success,
    }
    ExportMetricsPartialSuccess {
        "rejectedDataPoints": Long = rejected_data_points,
        "errorMessage": Text = error_message,
    }
    ExportTraceServiceResponse {
        "partialSuccess": Maybe<Nested> = partial_success,
    }
    ExportTracePartialSuccess {
        "rejectedSpans": Long = rejected_spans,
        "errorMessage": Text = error_message,
    }
    Status {
        "code": Int = code,
        "message": Text = message,
    }
}
