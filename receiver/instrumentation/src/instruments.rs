//! Instruments of one source: a meter of the OpenTelemetry SDK that creates instruments of the registry only.
//!
//! Every function that creates an instrument takes a value of [`semconv`], and no other code may create one
//! (`clippy.toml`). A provider has no thread: it is read when the analysis collects. [`crate::normalize`] replaces the
//! wall-clock times of the SDK by event time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter, MeterProvider, UpDownCounter};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{
    Aggregation, Instrument, InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, Stream, Temporality,
};

/// Maximum number of buckets of a histogram: the default of OpenTelemetry.
const BUCKETS_MAX: u32 = 160;
/// Finest scale of a histogram: 256 buckets per doubling, the maximum of Prometheus' native histograms.
const SCALE_MAX: i8 = 8;

/// The meter of one source and the reader of its instruments. The resource is added on export.
#[derive(Debug)]
pub struct Instruments {
    meter: Meter,
    reader: Arc<ManualReader>,
    read: ResourceMetrics,
    _provider: SdkMeterProvider,
}

impl Instruments {
    /// Returns a provider without instruments. `expected` returns the number of values that an attribute without a fixed
    /// set is expected to have; further values share the overflow series.
    pub fn new(
        scope: InstrumentationScope,
        expected: impl Fn(&str) -> usize + Send + Sync + 'static,
    ) -> Instruments {
        let reader = Arc::new(ManualReader::builder().build());
        let empty = Resource::builder_empty().build();
        let builder = SdkMeterProvider::builder()
            .with_resource(empty)
            .with_view(move |instrument: &Instrument| view(instrument, &expected));
        let provider = builder.with_reader(Shared(Arc::clone(&reader))).build();
        let meter = provider.meter_with_scope(scope);
        Instruments { meter, reader, read: ResourceMetrics::default(), _provider: provider }
    }

    /// Creates an integer counter.
    #[expect(clippy::disallowed_methods, reason = "the name comes from the registry")]
    pub fn u64_counter(&self, metric: semconv::Counter) -> Counter<u64> {
        let builder = self.meter.u64_counter(metric.name());
        builder.with_unit(metric.unit()).with_description(metric.description()).build()
    }

    /// Creates an integer gauge.
    #[expect(clippy::disallowed_methods, reason = "the name comes from the registry")]
    pub fn u64_gauge(&self, metric: semconv::Gauge) -> Gauge<u64> {
        let builder = self.meter.u64_gauge(metric.name());
        builder.with_unit(metric.unit()).with_description(metric.description()).build()
    }

    /// Creates a floating-point counter.
    #[expect(clippy::disallowed_methods, reason = "the name comes from the registry")]
    pub fn f64_counter(&self, metric: semconv::Counter) -> Counter<f64> {
        let builder = self.meter.f64_counter(metric.name());
        builder.with_unit(metric.unit()).with_description(metric.description()).build()
    }

    /// Creates an integer up-down counter.
    #[expect(clippy::disallowed_methods, reason = "the name comes from the registry")]
    pub fn up_down_counter(&self, metric: semconv::UpDownCounter) -> UpDownCounter<i64> {
        let builder = self.meter.i64_up_down_counter(metric.name());
        builder.with_unit(metric.unit()).with_description(metric.description()).build()
    }

    /// Creates a floating-point gauge.
    #[expect(clippy::disallowed_methods, reason = "the name comes from the registry")]
    pub fn f64_gauge(&self, metric: semconv::Gauge) -> Gauge<f64> {
        let builder = self.meter.f64_gauge(metric.name());
        builder.with_unit(metric.unit()).with_description(metric.description()).build()
    }

    /// Creates an exponential histogram.
    #[expect(clippy::disallowed_methods, reason = "the name comes from the registry")]
    pub fn histogram(&self, metric: semconv::Histogram) -> Histogram<f64> {
        let builder = self.meter.f64_histogram(metric.name());
        builder.with_unit(metric.unit()).with_description(metric.description()).build()
    }

    /// Collects the recorded measurements as OTLP metrics.
    pub fn collect(&mut self) -> Vec<Metric> {
        self.reader.collect(&mut self.read).expect("the provider lives as long as its reader");
        self.read.scope_metrics().flat_map(|scope| scope.metrics()).map(Metric::from).collect()
    }
}

/// Returns the instrumentation scope of the component `name`.
pub fn scope(name: &'static str) -> InstrumentationScope {
    InstrumentationScope::builder(name).with_version(crate::resource::VERSION).build()
}

/// Returns the aggregation and the cardinality limit of an instrument. The SDK allocates for all series at once.
fn view(instrument: &Instrument, expected: &dyn Fn(&str) -> usize) -> Option<Stream> {
    let metric = semconv::metric_of(instrument.name())?;
    let mut stream = Stream::builder().with_cardinality_limit(metric.series_max(expected));
    if instrument.kind() == InstrumentKind::Histogram {
        stream = stream.with_aggregation(Aggregation::Base2ExponentialHistogram {
            max_size: BUCKETS_MAX,
            max_scale: SCALE_MAX,
            record_min_max: true,
        });
    }
    stream.build().ok()
}

/// A reader shared with the provider.
#[derive(Debug)]
struct Shared(Arc<ManualReader>);

impl MetricReader for Shared {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, into: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(into)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> Temporality {
        self.0.temporality(kind)
    }
}
