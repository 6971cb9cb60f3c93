//! Internal metrics of the collector: the meter provider with the configured level and views, and the metrics of the
//! process.

mod process;
mod views;

use std::sync::{Arc, Weak};
use std::time::Duration;

use component::status::State;
use opentelemetry::InstrumentationScope;
use opentelemetry::metrics::{Meter, MeterProvider as _, NoopMeterProvider};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{
    InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, Temporality as SdkTemporality,
};

use crate::config::telemetry::{ExporterConfig, Metrics, MetricsLevel, ReaderConfig, Temporality};
use crate::prepare::VERSION;

/// A reader of all metrics that collects on request. Clones share the state of delta temporality.
#[derive(Clone, Debug)]
pub(super) struct Source(Arc<ManualReader>);

impl Source {
    fn new(temporality: Temporality) -> Self {
        let temporality = match temporality {
            Temporality::Cumulative => SdkTemporality::Cumulative,
            Temporality::Delta => SdkTemporality::Delta,
            Temporality::LowMemory => SdkTemporality::LowMemory,
        };
        Source(Arc::new(ManualReader::builder().with_temporality(temporality).build()))
    }

    /// Collects the current metrics.
    pub(super) fn collect(&self) -> Result<ResourceMetrics, opentelemetry_sdk::error::OTelSdkError> {
        let mut collected = ResourceMetrics::default();
        self.0.collect(&mut collected).map(|()| collected)
    }
}

impl MetricReader for Source {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, collected: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(collected)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> SdkTemporality {
        self.0.temporality(kind)
    }
}

/// The meter provider and its readers.
#[derive(Debug)]
pub(super) struct Meters {
    provider: SdkMeterProvider,
    cumulative: Source,
    /// Sources of other temporalities, one per reader: two readers of one delta source would each get a part of the
    /// data.
    deltas: Vec<(Temporality, Source)>,
}

impl Meters {
    /// Creates the meter provider; returns none at level `none`.
    pub(super) fn new(metrics: &Metrics, resource: Resource) -> Option<Self> {
        if metrics.level == MetricsLevel::None {
            return None;
        }
        let cumulative = Source::new(Temporality::Cumulative);
        let deltas: Vec<(Temporality, Source)> =
            temporalities(metrics).map(|t| (t, Source::new(t))).collect();
        let mut builder = SdkMeterProvider::builder().with_resource(resource).with_reader(cumulative.clone());
        for (_, source) in &deltas {
            builder = builder.with_reader(source.clone());
        }
        let builder = views::with_views(builder, metrics);
        Some(Meters { provider: builder.build(), cumulative, deltas })
    }

    /// Returns the meter of all components, with the process metrics registered.
    pub(super) fn meter(&self, state: &Arc<State>) -> Meter {
        let scope = InstrumentationScope::builder("warptap").with_version(VERSION).build();
        let meter = self.provider.meter_with_scope(scope);
        process::measure(&meter, state);
        meter
    }

    /// Returns the source of a reader; none if no source of its temporality was created at the start.
    pub(super) fn source(&mut self, reader: &ReaderConfig) -> Option<Source> {
        match temporality(reader) {
            Temporality::Cumulative => Some(self.cumulative.clone()),
            wanted => {
                let index = self.deltas.iter().position(|(temporality, _)| *temporality == wanted)?;
                Some(self.deltas.swap_remove(index).1)
            }
        }
    }
}

/// Returns a meter without effect.
pub(super) fn silent() -> Meter {
    NoopMeterProvider::new().meter("none")
}

fn temporalities(metrics: &Metrics) -> impl Iterator<Item = Temporality> {
    metrics.readers.iter().map(temporality).filter(|t| *t != Temporality::Cumulative)
}

fn temporality(reader: &ReaderConfig) -> Temporality {
    match reader {
        ReaderConfig::Periodic { exporter: ExporterConfig::Otlp(otlp), .. } => otlp.temporality,
        ReaderConfig::Periodic { exporter: ExporterConfig::Console, .. } | ReaderConfig::Pull(_) => {
            Temporality::Cumulative
        }
    }
}
