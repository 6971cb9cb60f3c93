//! Builders of the instruments of the collector's own metrics.
//!
//! Name, unit and description are those of the registry entry (`semconv::own_metric`), so a metric without an entry does
//! not compile.

#![expect(clippy::disallowed_methods, reason = "the names are those of the registry")]

use opentelemetry::metrics::{
    AsyncInstrumentBuilder, Counter, Histogram, HistogramBuilder, InstrumentBuilder, Meter,
    ObservableCounter, ObservableGauge, UpDownCounter,
};

/// The bucket bounds of histograms of the number of items, as in the Collector.
pub const ITEM_COUNT_BOUNDS: [f64; 22] = [
    10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0,
    7000.0, 8000.0, 9000.0, 10_000.0, 20_000.0, 30_000.0, 50_000.0, 100_000.0,
];

macro_rules! builders {
    ($($(#[$doc:meta])* $name:ident($metric:ident) -> $builder:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(meter: &Meter, metric: semconv::$metric) -> $builder {
            meter.$name(metric.name()).with_unit(metric.unit()).with_description(metric.description())
        }
    )*};
}

builders! {
    /// Returns the builder of a counter observed at each collection.
    f64_observable_counter(Counter) -> AsyncInstrumentBuilder<'_, ObservableCounter<f64>, f64>;
    /// Returns the builder of a signed integer gauge observed at each collection.
    i64_observable_gauge(Gauge) -> AsyncInstrumentBuilder<'_, ObservableGauge<i64>, i64>;
    /// Returns the builder of an integer up-down counter.
    i64_up_down_counter(UpDownCounter) -> InstrumentBuilder<'_, UpDownCounter<i64>>;
    /// Returns the builder of an integer counter.
    u64_counter(Counter) -> InstrumentBuilder<'_, Counter<u64>>;
    /// Returns the builder of an integer histogram.
    u64_histogram(Histogram) -> HistogramBuilder<'_, Histogram<u64>>;
    /// Returns the builder of an integer counter observed at each collection.
    u64_observable_counter(Counter) -> AsyncInstrumentBuilder<'_, ObservableCounter<u64>, u64>;
    /// Returns the builder of an integer gauge observed at each collection.
    u64_observable_gauge(Gauge) -> AsyncInstrumentBuilder<'_, ObservableGauge<u64>, u64>;
}
