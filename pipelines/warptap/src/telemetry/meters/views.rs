//! Selection of internal metrics, by the level or by the configured views.

use opentelemetry::Key;
use opentelemetry_sdk::metrics::{
    Aggregation as SdkAggregation, Instrument, InstrumentKind, MeterProviderBuilder, Stream as SdkStream,
};

use crate::config::telemetry::{
    Aggregation, InstrumentType, Metrics, MetricsLevel, Selector, StreamConfig, View,
};

/// Instruments that are measured only from a level on, by name pattern, as in the Collector. All others are measured
/// at every level except `none`.
const FROM: [(MetricsLevel, &str); 9] = [
    (MetricsLevel::Detailed, "http.*"),
    (MetricsLevel::Detailed, "otelcol.*.consumed.size"),
    (MetricsLevel::Detailed, "otelcol.*.produced.size"),
    (MetricsLevel::Detailed, "otelcol_exporter_enqueue_size*"),
    (MetricsLevel::Detailed, "otelcol_exporter_queue_batch_send_size*"),
    (MetricsLevel::Normal, "otelcol_processor_batch_*"),
    (MetricsLevel::Detailed, "otelcol_processor_batch_batch_send_size_bytes"),
    (MetricsLevel::Detailed, "otelcol_processor_internal_duration"),
    (MetricsLevel::Detailed, "rpc.*"),
];

/// Instruments and the attributes they have below level `detailed`.
const ATTRIBUTES: (&str, [&str; 5]) = (
    "otelcol_exporter_send_failed_*",
    ["data_type", "exporter", "server.address", "server.port", "url.path"],
);

/// Adds the configured views to the builder, or the views of the level if none are configured.
pub(super) fn with_views(mut builder: MeterProviderBuilder, metrics: &Metrics) -> MeterProviderBuilder {
    let Some(views) = &metrics.views else {
        let level = metrics.level;
        return builder.with_view(move |instrument| by_level(level, instrument.name()));
    };
    for view in views.clone() {
        builder = builder.with_view(move |instrument| by_view(&view, instrument));
    }
    builder
}

fn by_level(level: MetricsLevel, name: &str) -> Option<SdkStream> {
    if FROM.iter().any(|(from, pattern)| level < *from && matches(pattern, name)) {
        return SdkStream::builder().with_aggregation(SdkAggregation::Drop).build().ok();
    }
    if level < MetricsLevel::Detailed && matches(ATTRIBUTES.0, name) {
        let keys = ATTRIBUTES.1.map(Key::from_static_str);
        return SdkStream::builder().with_allowed_attribute_keys(keys).build().ok();
    }
    None
}

fn by_view(view: &View, instrument: &Instrument) -> Option<SdkStream> {
    if !selects(&view.selector, instrument) {
        return None;
    }
    let StreamConfig { name, description, aggregation, attribute_keys } = view.stream.clone();
    let mut stream = SdkStream::builder();
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        stream = stream.with_name(name);
    }
    if let Some(description) = description {
        stream = stream.with_description(description);
    }
    if let Some(aggregation) = aggregation {
        stream = stream.with_aggregation(sdk(aggregation));
    }
    if let Some(keys) = attribute_keys {
        stream = stream.with_allowed_attribute_keys(keys.into_iter().map(Key::from));
    }
    stream
        .build()
        .inspect_err(|error| tracing::warn!(instrument = instrument.name(), %error, "view not applied"))
        .ok()
}

fn selects(selector: &Selector, instrument: &Instrument) -> bool {
    let is = |wanted: &str, actual: &str| wanted.is_empty() || wanted == actual;
    let scope = instrument.scope();
    (selector.instrument_name.is_empty() || matches(&selector.instrument_name, instrument.name()))
        && selector.instrument_type.is_none_or(|wanted| Some(wanted) == kind(instrument.kind()))
        && is(&selector.meter_name, scope.name())
        && is(&selector.meter_version, scope.version().unwrap_or_default())
        && is(&selector.unit, instrument.unit())
}

/// Returns the configured type of an instrument; there is none for synchronous gauges.
fn kind(kind: InstrumentKind) -> Option<InstrumentType> {
    Some(match kind {
        InstrumentKind::Counter => InstrumentType::Counter,
        InstrumentKind::UpDownCounter => InstrumentType::UpDownCounter,
        InstrumentKind::Histogram => InstrumentType::Histogram,
        InstrumentKind::Gauge => return None,
        InstrumentKind::ObservableCounter => InstrumentType::ObservableCounter,
        InstrumentKind::ObservableUpDownCounter => InstrumentType::ObservableUpDownCounter,
        InstrumentKind::ObservableGauge => InstrumentType::ObservableGauge,
    })
}

fn sdk(aggregation: Aggregation) -> SdkAggregation {
    match aggregation {
        Aggregation::Drop => SdkAggregation::Drop,
        Aggregation::LastValue => SdkAggregation::LastValue,
        Aggregation::Sum => SdkAggregation::Sum,
        Aggregation::Buckets(boundaries) => {
            SdkAggregation::ExplicitBucketHistogram { boundaries, record_min_max: true }
        }
        Aggregation::Exponential { size_max, scale_max } => SdkAggregation::Base2ExponentialHistogram {
            max_size: size_max,
            max_scale: scale_max,
            record_min_max: true,
        },
    }
}

/// Returns whether a pattern matches a name, ignoring ASCII case; `*` matches any text and `?` one character.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_ascii_lowercase(), name.to_ascii_lowercase());
    matches_bytes(pattern.as_bytes(), name.as_bytes())
}

fn matches_bytes(pattern: &[u8], name: &[u8]) -> bool {
    // The position after the last `*`, and the end of the text it matches.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((after, end)) = star else { return false };
                star = Some((after, end + 1));
                (p, n) = (after, end + 1);
            }
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        for (pattern, name, want) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "aab", true),
            ("a?c", "ABC", true),
            ("a?c", "ac", false),
            ("otelcol.*.consumed.size", "otelcol.processor.consumed.size", true),
            ("*a*b", "xaxaxb", true),
            ("*a*b", "xaxaxbx", false),
            ("**", "", true),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
    }

    #[test]
    fn levels_add_instruments() {
        for (name, from) in [
            ("otelcol_process_uptime", MetricsLevel::Basic),
            ("otelcol_processor_batch_timeout_trigger_send", MetricsLevel::Normal),
            ("otelcol_processor_batch_batch_send_size_bytes", MetricsLevel::Detailed),
            ("otelcol_exporter_enqueue_size", MetricsLevel::Detailed),
            ("http.server.request.duration", MetricsLevel::Detailed),
        ] {
            for level in [MetricsLevel::Basic, MetricsLevel::Normal, MetricsLevel::Detailed] {
                assert_eq!(by_level(level, name).is_none(), level >= from, "{name} {level:?}");
            }
        }
        let failed = by_level(MetricsLevel::Normal, "otelcol_exporter_send_failed_spans");
        assert!(
            failed.is_some()
                && by_level(MetricsLevel::Detailed, "otelcol_exporter_send_failed_spans").is_none()
        );
    }
}
