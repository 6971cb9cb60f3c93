//! Builders of the instruments of the collector's own metrics.
//!
//! Name, unit and description are those of the registry entry (`semconv::own_metric`), so a metric without an entry does
//! not compile.

#![expect(clippy::disallowed_methods, reason = "the names are those of the registry")]

use opentelemetry::metrics::{
    AsyncInstrumentBuilder, Counter, Histogram, HistogramBuilder, InstrumentBuilder, Meter,
    ObservableCounter, ObservableGauge, UpDownCounter,
};

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
