//! The output of an agent, received by our own OTLP receiver, with queries of log records, spans and points.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use component::testing::Sink;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use otel_conformance_tests::Receiving;
use pdata::Data;
use tokio::runtime::Runtime;

use super::agent::PATIENCE;

/// How often the received data is polled; continuous polling would use a CPU of the traced processes.
pub const POLL_EVERY: Duration = Duration::from_millis(20);

/// A receiver that stores everything.
pub struct Inbox {
    sink: Arc<Sink>,
    /// The settings of an exporter that sends here.
    pub exporter: String,
    _receiving: Receiving,
    _runtime: Runtime,
}

/// A log record or a span, with the process of its resource.
#[derive(Clone, Debug)]
pub struct ReportedItem {
    /// Name of the event or span.
    pub name: String,
    /// The process of the resource.
    pub pid: u32,
    /// Time in ns since 1970; the start of a span.
    pub at_ns: u64,
    /// The end of a span in ns since 1970.
    pub end_ns: u64,
    /// The body of a log record.
    pub body: String,
    /// Trace, span and parent.
    pub ids: (Vec<u8>, Vec<u8>, Vec<u8>),
    /// Attributes as text; a list's items by lines.
    pub attributes: BTreeMap<String, String>,
}

impl ReportedItem {
    /// Returns an attribute as text; empty if it is missing.
    pub fn text(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }

    /// Returns an attribute as a number.
    #[track_caller]
    pub fn number<N: std::str::FromStr>(&self, key: &str) -> N {
        self.text(key).parse().ok().unwrap_or_else(|| panic!("{key} is not a number: {self:?}"))
    }
}

impl Inbox {
    /// Starts the receiver.
    pub fn open() -> Inbox {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let sink = Sink::new();
        let receiving = runtime.block_on(Receiving::before(&sink));
        let exporter = format!("endpoint: '{}', tls: {{insecure: true}}", receiving.grpc);
        Inbox { sink, exporter, _receiving: receiving, _runtime: runtime }
    }

    /// Returns the log records received so far, in order.
    pub fn logs(&self) -> Vec<ReportedItem> {
        self.sink.got().iter().flat_map(logs).collect()
    }

    /// Returns the spans received so far.
    pub fn spans(&self) -> Vec<ReportedItem> {
        self.sink.got().iter().flat_map(spans).collect()
    }

    /// Returns the last value of every point of a sum by process and attributes.
    pub fn sums(&self, name: &str) -> BTreeMap<(u32, String), f64> {
        self.sink.got().iter().flat_map(|data| sums(data, name)).collect()
    }

    /// Returns the sum of the last values of all points of a sum by process: pid and instance, since pids are used again.
    pub fn process_sums(&self, name: &str) -> BTreeMap<(u32, String), f64> {
        let got = self.sink.got();
        let points = got.iter().flat_map(|data| all_points(data, name));
        let last: BTreeMap<_, _> = points.map(|p| ((p.pid, p.instance, p.key), p.value)).collect();
        let mut sums = BTreeMap::new();
        for ((pid, instance, _), value) in last {
            *sums.entry((pid, instance)).or_default() += value;
        }
        sums
    }

    /// Returns every value of the points of a sum or gauge whose attributes contain `part`, with its time, ns since 1970.
    pub fn history(&self, name: &str, part: &str) -> Vec<(u64, f64)> {
        let got = self.sink.got();
        let points = got.iter().flat_map(|data| all_points(data, name));
        points.filter(|point| point.key.contains(part)).map(|point| (point.at_ns, point.value)).collect()
    }

    /// Waits until the last values of a sum add up to `total`.
    #[track_caller]
    pub fn until_sum(&self, name: &str, total: f64) {
        let began = Instant::now();
        while self.sums(name).values().sum::<f64>() < total {
            assert!(
                began.elapsed() < PATIENCE,
                "timeout while waiting for {total} {name}: {:?}",
                self.sums(name)
            );
            std::thread::sleep(POLL_EVERY);
        }
    }

    /// Waits until `processes` reported a point of a sum whose attributes contain `part`; returns the largest number of
    /// points in a batch.
    #[track_caller]
    pub fn until_point(&self, name: &str, part: &str, processes: usize) -> usize {
        let (began, mut seen, mut most, mut reported) = (Instant::now(), 0, 0, BTreeSet::new());
        while reported.len() < processes {
            assert!(began.elapsed() < 5 * PATIENCE, "timeout while waiting for {part} of {name}");
            std::thread::sleep(10 * POLL_EVERY);
            let got = self.sink.got();
            for data in &got[seen..] {
                let points = sums(data, name);
                most = most.max(points.len());
                reported.extend(
                    points.iter().filter(|((_, key), _)| key.contains(part)).map(|((pid, _), _)| *pid),
                );
            }
            seen = got.len();
        }
        most
    }

    /// Waits for a number of spans; returns all.
    #[track_caller]
    pub fn until_spans(&self, enough: impl Fn(&[ReportedItem]) -> bool) -> Vec<ReportedItem> {
        let began = Instant::now();
        loop {
            let spans = self.spans();
            if enough(&spans) {
                return spans;
            }
            let mut names = BTreeMap::<String, usize>::new();
            spans.into_iter().for_each(|span| *names.entry(span.name).or_default() += 1);
            assert!(began.elapsed() < PATIENCE, "timeout while waiting for more spans: {names:#?}");
            std::thread::sleep(POLL_EVERY);
        }
    }

    /// Waits for a number of log records of an event; returns them.
    #[track_caller]
    pub fn until(&self, event: &str, enough: impl Fn(&[ReportedItem]) -> bool) -> Vec<ReportedItem> {
        let began = Instant::now();
        loop {
            let found: Vec<ReportedItem> =
                self.logs().into_iter().filter(|said| said.name == event).collect();
            if enough(&found) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "timeout while waiting for {event}: {found:#?}");
            std::thread::sleep(POLL_EVERY);
        }
    }
}

fn attribute(resource: &Option<Resource>, key: &str) -> Option<String> {
    let mut attributes = resource.iter().flat_map(|r| &r.attributes);
    attributes.find(|a| a.key == key).map(|a| text(a.value.as_ref()))
}

fn pid(resource: &Option<Resource>) -> u32 {
    attribute(resource, "process.pid").and_then(|pid| pid.parse().ok()).unwrap_or(0)
}

fn logs(data: &Data) -> Vec<ReportedItem> {
    let Data::Logs(logs) = data else { return Vec::new() };
    let mut all = Vec::new();
    for of in &logs.resource_logs {
        for record in of.scope_logs.iter().flat_map(|s| &s.log_records) {
            all.push(ReportedItem {
                name: record.event_name.clone(),
                pid: pid(&of.resource),
                at_ns: record.time_unix_nano,
                end_ns: record.time_unix_nano,
                body: text(record.body.as_ref()),
                ids: (record.trace_id.clone(), record.span_id.clone(), Vec::new()),
                attributes: texts(&record.attributes),
            });
        }
    }
    all
}

/// Returns the spans of a batch.
pub fn spans(data: &Data) -> Vec<ReportedItem> {
    let Data::Traces(traces) = data else { return Vec::new() };
    let said = |pid: u32, span: &Span| ReportedItem {
        name: span.name.clone(),
        pid,
        at_ns: span.start_time_unix_nano,
        end_ns: span.end_time_unix_nano,
        body: String::new(),
        ids: (span.trace_id.clone(), span.span_id.clone(), span.parent_span_id.clone()),
        attributes: texts(&span.attributes),
    };
    let mut all = Vec::new();
    for of in &traces.resource_spans {
        all.extend(of.scope_spans.iter().flat_map(|s| &s.spans).map(|span| said(pid(&of.resource), span)));
    }
    all
}

/// A point of a metric; the value of a histogram is its count.
struct Point {
    pid: u32,
    /// The instance of the process, which no later process with its pid has.
    instance: String,
    key: String,
    at_ns: u64,
    value: f64,
}

fn sums(data: &Data, name: &str) -> Vec<((u32, String), f64)> {
    all_points(data, name).into_iter().map(|point| ((point.pid, point.key), point.value)).collect()
}

fn all_points(data: &Data, name: &str) -> Vec<Point> {
    let Data::Metrics(metrics) = data else { return Vec::new() };
    let mut all = Vec::new();
    for of in &metrics.resource_metrics {
        for metric in of.scope_metrics.iter().flat_map(|s| &s.metrics).filter(|m| m.name == name) {
            let instance = attribute(&of.resource, "service.instance.id").unwrap_or_default();
            points(metric, (pid(&of.resource), &instance), &mut all);
        }
    }
    all
}

fn points(metric: &Metric, (pid, instance): (u32, &str), into: &mut Vec<Point>) {
    let mut add = |attributes: &[KeyValue], at_ns, value| {
        let key: Vec<String> = texts(attributes).into_iter().map(|(k, v)| format!("{k}={v}")).collect();
        into.push(Point { pid, instance: instance.to_owned(), key: key.join(" "), at_ns, value });
    };
    match &metric.data {
        Some(metric::Data::Sum(Sum { data_points, .. }) | metric::Data::Gauge(Gauge { data_points })) => {
            data_points.iter().for_each(|p| add(&p.attributes, p.time_unix_nano, number(p)));
        }
        Some(metric::Data::ExponentialHistogram(all)) => {
            all.data_points.iter().for_each(|p| add(&p.attributes, p.time_unix_nano, p.count as f64));
        }
        _ => {}
    }
}

fn number(point: &NumberDataPoint) -> f64 {
    match point.value {
        Some(number_data_point::Value::AsInt(number)) => number as f64,
        Some(number_data_point::Value::AsDouble(number)) => number,
        None => 0.0,
    }
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    attributes.iter().map(|a| (a.key.clone(), text(a.value.as_ref()))).collect()
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|v| v.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::ArrayValue(list)) => {
            list.values.iter().map(|v| text(Some(v))).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
