//! The OpenTelemetry SDK behind one source: its meter, and instruments of the registry alone.
//!
//! The one idea: everything that creates an instrument takes a value of [`semconv`], and no other place may create
//! one (`clippy.toml`). A provider costs no thread: it is read when the analysis collects. Times that the SDK takes
//! from the wall are replaced by event time in [`crate::tidy`].

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

/// Buckets of a histogram: OpenTelemetry's default.
const BUCKETS_MAX: u32 = 160;
/// The finest scale: 256 buckets for each doubling, the most that Prometheus' native histograms have.
const SCALE_MAX: i8 = 8;

/// A meter of one source, and the reader of its instruments. The resource is added where points leave.
#[derive(Debug)]
pub struct Instruments {
    meter: Meter,
    reader: Arc<ManualReader>,
    read: ResourceMetrics,
    _provider: SdkMeterProvider,
}

impl Instruments {
    /// A provider without instruments. `expected` says how many values an attribute without a fixed set is expected to
    /// have here; further ones share a series.
    pub fn new(
        scope: InstrumentationScope,
        expected: impl Fn(&str) -> usize + Send + Sync + 'static,
    ) -> Instruments {
        let reader = Arc::new(ManualReader::builder().build());
        let nobody = Resource::builder_empty().build();
        let builder = SdkMeterProvider::builder()
            .with_resource(nobody)
            .with_view(move |instrument: &Instrument| view(instrument, &expected));
        let provider = builder.with_reader(Shared(Arc::clone(&reader))).build();
        let meter = provider.meter_with_scope(scope);
        Instruments { meter, reader, read: ResourceMetrics::default(), _provider: provider }
    }

    /// A counter of whole things.
    #[expect(clippy::disallowed_methods, reason = "the name is the registry's")]
    pub fn counter(&self, metric: semconv::Counter) -> Counter<u64> {
        let builder = self.meter.u64_counter(metric.name());
        builder.with_unit(metric.unit()).with_description(metric.description()).build()
    }

    /// A gauge of whole things.
    #[expect(clippy::disallowed_methods, reason = "the name is the registry's")]
    pub fn level(&self, metric: semconv::Gauge) -> Gauge<u64> {
        let builder = self.meter.u64_gauge(metric.name());
        builder.with_unit(metric.unit()).with_description(metric.description()).build()
    }

    /// A counter of a quantity.
    #[expect(clippy::disallowed_methods, reason = "the name is the registry's")]
    pub fn amount(&self, metric: semconv::Counter) -> Counter<f64> {
        let builder = self.meter.f64_counter(metric.name());
        builder.with_unit(metric.unit()).with_description(metric.description()).build()
    }

    /// A sum that goes up and down.
    #[expect(clippy::disallowed_methods, reason = "the name is the registry's")]
    pub fn balance(&self, metric: semconv::UpDownCounter) -> UpDownCounter<i64> {
        let builder = self.meter.i64_up_down_counter(metric.name());
        builder.with_unit(metric.unit()).with_description(metric.description()).build()
    }

    /// A gauge of a quantity.
    #[expect(clippy::disallowed_methods, reason = "the name is the registry's")]
    pub fn gauge(&self, metric: semconv::Gauge) -> Gauge<f64> {
        let builder = self.meter.f64_gauge(metric.name());
        builder.with_unit(metric.unit()).with_description(metric.description()).build()
    }

    /// An exponential histogram.
    #[expect(clippy::disallowed_methods, reason = "the name is the registry's")]
    pub fn histogram(&self, metric: semconv::Histogram) -> Histogram<f64> {
        let builder = self.meter.f64_histogram(metric.name());
        builder.with_unit(metric.unit()).with_description(metric.description()).build()
    }

    /// Everything recorded so far, as OTLP.
    pub fn collect(&mut self) -> Vec<Metric> {
        self.reader.collect(&mut self.read).expect("the provider lives as long as its reader");
        self.read.scope_metrics().flat_map(|scope| scope.metrics()).map(Metric::from).collect()
    }
}

/// The scope of everything that the component `name` emits.
pub fn scope(name: &'static str) -> InstrumentationScope {
    InstrumentationScope::builder(name).with_version(crate::resource::VERSION).build()
}

/// How each instrument aggregates, and how many series it may have: the SDK allocates for all of them at once.
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

/// A reader that stays in our hands after the provider took it.
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
