//! The collector's own metrics as the OpenTelemetry SDK exports them, formatted as lines.

use std::fmt::Display;
use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};

use crate::Host;

/// The own metrics of components.
pub struct Metrics {
    exporter: InMemoryMetricExporter,
    provider: SdkMeterProvider,
}

impl Default for Metrics {
    fn default() -> Self {
        let exporter = InMemoryMetricExporter::default();
        let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
        Metrics { exporter, provider }
    }
}

impl Metrics {
    /// Returns a host whose components record here.
    pub fn host(&self) -> Host {
        Host::new(self.provider.meter("test"), Arc::default())
    }

    /// Returns all series, sorted: numbers as `name{key=value,…}=number`, histograms as `name{…}: count, sum`.
    pub fn lines(&self) -> Vec<String> {
        self.exporter.reset();
        self.provider.force_flush().expect("the exporter is in memory");
        let collected = self.exporter.get_finished_metrics().expect("the exporter is in memory");
        let scopes = collected.iter().flat_map(ResourceMetrics::scope_metrics);
        let mut lines = Vec::new();
        for metric in scopes.flat_map(|scope| scope.metrics()) {
            let series = match metric.data() {
                AggregatedMetrics::F64(data) => series(data),
                AggregatedMetrics::U64(data) => series(data),
                AggregatedMetrics::I64(data) => series(data),
            };
            lines.extend(series.into_iter().map(|series| format!("{}{series}", metric.name())));
        }
        lines.sort();
        lines
    }

    /// Returns the sum of the integers whose lines begin with a name, or with a name and the first of its attributes.
    pub fn sum(&self, begin: &str) -> u64 {
        let lines = self.lines();
        let rests = lines.iter().filter_map(|line| line.strip_prefix(begin));
        let rests = rests.filter(|rest| rest.starts_with(['{', ',', '}']));
        rests.filter_map(|rest| rest.rsplit_once("}=")?.1.parse::<u64>().ok()).sum()
    }
}

fn series<T: Copy + Display>(data: &MetricData<T>) -> Vec<String> {
    match data {
        MetricData::Sum(sum) => {
            sum.data_points().map(|p| format!("{}={}", in_braces(p.attributes()), p.value())).collect()
        }
        MetricData::Gauge(gauge) => {
            gauge.data_points().map(|p| format!("{}={}", in_braces(p.attributes()), p.value())).collect()
        }
        MetricData::Histogram(histogram) => {
            let points = histogram.data_points();
            points.map(|p| format!("{}: {}, {}", in_braces(p.attributes()), p.count(), p.sum())).collect()
        }
        MetricData::ExponentialHistogram(_) => panic!("no own metric is an exponential histogram"),
    }
}

fn in_braces<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> String {
    let mut pairs: Vec<String> = attributes.map(|a| format!("{}={}", a.key, a.value)).collect();
    pairs.sort();
    format!("{{{}}}", pairs.join(","))
}
