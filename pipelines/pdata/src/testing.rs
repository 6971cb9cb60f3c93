//! Arbitrary OTLP data for tests, generated from a byte sequence.
//!
//! Every byte decides one field. After the last byte every field is absent, so that a shorter sequence generates
//! smaller data.

mod profiles;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, EntityRef, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, LogsData, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
    Metric, MetricsData, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint,
    exemplar, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, TracesData};

use crate::{Data, Payload, Signal};

/// Returns the data of `signal` that `entropy` generates.
pub fn data(signal: Signal, entropy: &[u8]) -> Data {
    let e = &mut Entropy(entropy);
    match signal {
        Signal::Logs => Data::Logs(Payload::new(LogsData { resource_logs: e.list(resource_logs) })),
        Signal::Metrics => {
            Data::Metrics(Payload::new(MetricsData { resource_metrics: e.list(resource_metrics) }))
        }
        Signal::Traces => Data::Traces(Payload::new(TracesData { resource_spans: e.list(resource_spans) })),
        Signal::Profiles => profiles::data(e),
    }
}

struct Entropy<'a>(&'a [u8]);

impl Entropy<'_> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            None => 0,
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
        }
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    fn u64(&mut self) -> u64 {
        match self.byte() % 4 {
            0 => 0,
            1 => u64::from(self.byte()),
            2 => u64::MAX,
            _ => u64::from_le_bytes(self.bytes()),
        }
    }

    fn u32(&mut self) -> u32 {
        (self.u64() >> 32) as u32
    }

    fn i32(&mut self) -> i32 {
        self.u32() as i32
    }

    fn double(&mut self) -> f64 {
        match self.byte() % 6 {
            0 => 0.0,
            1 => f64::NAN,
            2 => f64::INFINITY,
            3 => f64::NEG_INFINITY,
            4 => f64::from(self.byte()) / 8.0,
            _ => Some(f64::from_le_bytes(self.bytes())).filter(|v| v.is_normal()).unwrap_or(0.1),
        }
    }

    fn text(&mut self) -> String {
        const ALPHABET: [char; 16] = [
            'a',
            'b',
            '.',
            ' ',
            '"',
            '\\',
            '/',
            '\n',
            '\t',
            '\r',
            '\0',
            '\u{1f}',
            '\u{7f}',
            '\u{e9}',
            '\u{2028}',
            '\u{1f600}',
        ];
        let len = self.byte() % 12;
        (0..len).map(|_| ALPHABET[usize::from(self.byte() % 16)]).collect()
    }

    fn id<const N: usize>(&mut self) -> Vec<u8> {
        if self.flag() { self.bytes::<N>().to_vec() } else { Vec::new() }
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| make(self))
    }

    fn list<T>(&mut self, make: impl Fn(&mut Self) -> T) -> Vec<T> {
        let len = self.byte() % 4;
        (0..len).map(|_| make(self)).collect()
    }
}

fn any_value(e: &mut Entropy<'_>) -> AnyValue {
    let value = match e.byte() % 9 {
        0 => None,
        1 => Some(Value::StringValue(e.text())),
        2 => Some(Value::BoolValue(e.flag())),
        3 => Some(Value::IntValue(e.u64() as i64)),
        4 => Some(Value::DoubleValue(e.double())),
        5 => Some(Value::ArrayValue(ArrayValue { values: e.list(any_value) })),
        6 => Some(Value::KvlistValue(KeyValueList { values: e.list(key_value) })),
        7 => Some(Value::BytesValue(e.text().into_bytes())),
        _ => Some(Value::StringValueStrindex(e.i32())),
    };
    AnyValue { value }
}

fn key_value(e: &mut Entropy<'_>) -> KeyValue {
    KeyValue { key: e.text(), value: e.maybe(any_value), key_strindex: e.i32() }
}

fn resource(e: &mut Entropy<'_>) -> Resource {
    let entity_refs = e.list(|e| EntityRef {
        schema_url: e.text(),
        r#type: e.text(),
        id_keys: e.list(Entropy::text),
        description_keys: e.list(Entropy::text),
    });
    Resource { attributes: e.list(key_value), dropped_attributes_count: e.u32(), entity_refs }
}

fn scope(e: &mut Entropy<'_>) -> InstrumentationScope {
    InstrumentationScope {
        name: e.text(),
        version: e.text(),
        attributes: e.list(key_value),
        dropped_attributes_count: e.u32(),
    }
}

fn resource_logs(e: &mut Entropy<'_>) -> ResourceLogs {
    ResourceLogs { resource: e.maybe(resource), scope_logs: e.list(scope_logs), schema_url: e.text() }
}

fn scope_logs(e: &mut Entropy<'_>) -> ScopeLogs {
    ScopeLogs { scope: e.maybe(scope), log_records: e.list(log_record), schema_url: e.text() }
}

fn log_record(e: &mut Entropy<'_>) -> LogRecord {
    LogRecord {
        time_unix_nano: e.u64(),
        observed_time_unix_nano: e.u64(),
        severity_number: e.i32(),
        severity_text: e.text(),
        body: e.maybe(any_value),
        attributes: e.list(key_value),
        dropped_attributes_count: e.u32(),
        flags: e.u32(),
        trace_id: e.id::<16>(),
        span_id: e.id::<8>(),
        event_name: e.text(),
    }
}

fn resource_spans(e: &mut Entropy<'_>) -> ResourceSpans {
    ResourceSpans { resource: e.maybe(resource), scope_spans: e.list(scope_spans), schema_url: e.text() }
}

fn scope_spans(e: &mut Entropy<'_>) -> ScopeSpans {
    ScopeSpans { scope: e.maybe(scope), spans: e.list(span), schema_url: e.text() }
}

fn span(e: &mut Entropy<'_>) -> Span {
    Span {
        trace_id: e.id::<16>(),
        span_id: e.id::<8>(),
        trace_state: e.text(),
        parent_span_id: e.id::<8>(),
        flags: e.u32(),
        name: e.text(),
        kind: e.i32(),
        start_time_unix_nano: e.u64(),
        end_time_unix_nano: e.u64(),
        attributes: e.list(key_value),
        dropped_attributes_count: e.u32(),
        events: e.list(event),
        dropped_events_count: e.u32(),
        links: e.list(link),
        dropped_links_count: e.u32(),
        status: e.maybe(|e| Status { message: e.text(), code: e.i32() }),
    }
}

fn event(e: &mut Entropy<'_>) -> Event {
    Event {
        time_unix_nano: e.u64(),
        name: e.text(),
        attributes: e.list(key_value),
        dropped_attributes_count: e.u32(),
    }
}

fn link(e: &mut Entropy<'_>) -> Link {
    Link {
        trace_id: e.id::<16>(),
        span_id: e.id::<8>(),
        trace_state: e.text(),
        attributes: e.list(key_value),
        dropped_attributes_count: e.u32(),
        flags: e.u32(),
    }
}

fn resource_metrics(e: &mut Entropy<'_>) -> ResourceMetrics {
    ResourceMetrics {
        resource: e.maybe(resource),
        scope_metrics: e.list(scope_metrics),
        schema_url: e.text(),
    }
}

fn scope_metrics(e: &mut Entropy<'_>) -> ScopeMetrics {
    ScopeMetrics { scope: e.maybe(scope), metrics: e.list(metric), schema_url: e.text() }
}

fn metric(e: &mut Entropy<'_>) -> Metric {
    let (temporality, is_monotonic) = (e.i32(), e.flag());
    let data = match e.byte() % 6 {
        0 => None,
        1 => Some(metric::Data::Gauge(Gauge { data_points: e.list(number_point) })),
        2 => Some(metric::Data::Sum(Sum {
            data_points: e.list(number_point),
            aggregation_temporality: temporality,
            is_monotonic,
        })),
        3 => Some(metric::Data::Histogram(Histogram {
            data_points: e.list(histogram_point),
            aggregation_temporality: temporality,
        })),
        4 => Some(metric::Data::ExponentialHistogram(ExponentialHistogram {
            data_points: e.list(exponential_point),
            aggregation_temporality: temporality,
        })),
        _ => Some(metric::Data::Summary(Summary { data_points: e.list(summary_point) })),
    };
    Metric { name: e.text(), description: e.text(), unit: e.text(), metadata: e.list(key_value), data }
}

fn number_point(e: &mut Entropy<'_>) -> NumberDataPoint {
    NumberDataPoint {
        attributes: e.list(key_value),
        start_time_unix_nano: e.u64(),
        time_unix_nano: e.u64(),
        exemplars: e.list(exemplar),
        flags: e.u32(),
        value: match e.byte() % 3 {
            0 => None,
            1 => Some(number_data_point::Value::AsInt(e.u64() as i64)),
            _ => Some(number_data_point::Value::AsDouble(e.double())),
        },
    }
}

fn exemplar(e: &mut Entropy<'_>) -> Exemplar {
    Exemplar {
        filtered_attributes: e.list(key_value),
        time_unix_nano: e.u64(),
        span_id: e.id::<8>(),
        trace_id: e.id::<16>(),
        value: match e.byte() % 3 {
            0 => None,
            1 => Some(exemplar::Value::AsInt(e.u64() as i64)),
            _ => Some(exemplar::Value::AsDouble(e.double())),
        },
    }
}

fn histogram_point(e: &mut Entropy<'_>) -> HistogramDataPoint {
    HistogramDataPoint {
        attributes: e.list(key_value),
        start_time_unix_nano: e.u64(),
        time_unix_nano: e.u64(),
        count: e.u64(),
        sum: e.maybe(Entropy::double),
        bucket_counts: e.list(Entropy::u64),
        explicit_bounds: e.list(Entropy::double),
        exemplars: e.list(exemplar),
        flags: e.u32(),
        min: e.maybe(Entropy::double),
        max: e.maybe(Entropy::double),
    }
}

fn exponential_point(e: &mut Entropy<'_>) -> ExponentialHistogramDataPoint {
    let buckets = |e: &mut Entropy<'_>| Buckets { offset: e.i32(), bucket_counts: e.list(Entropy::u64) };
    ExponentialHistogramDataPoint {
        attributes: e.list(key_value),
        start_time_unix_nano: e.u64(),
        time_unix_nano: e.u64(),
        count: e.u64(),
        sum: e.maybe(Entropy::double),
        scale: e.i32(),
        zero_count: e.u64(),
        positive: e.maybe(buckets),
        negative: e.maybe(buckets),
        flags: e.u32(),
        exemplars: e.list(exemplar),
        min: e.maybe(Entropy::double),
        max: e.maybe(Entropy::double),
        zero_threshold: e.double(),
    }
}

fn summary_point(e: &mut Entropy<'_>) -> SummaryDataPoint {
    SummaryDataPoint {
        attributes: e.list(key_value),
        start_time_unix_nano: e.u64(),
        time_unix_nano: e.u64(),
        count: e.u64(),
        sum: e.double(),
        quantile_values: e.list(|e| ValueAtQuantile { quantile: e.double(), value: e.double() }),
        flags: e.u32(),
    }
}
