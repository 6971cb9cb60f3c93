//! The components of this binary: explicit rows, by name. Adding a component is adding its row here.

use component::{ConnectorFactory, ExporterFactory, ExtensionFactory, ProcessorFactory, ReceiverFactory};

use crate::graph::Factories;

/// What joins pipelines.
pub const CONNECTORS: &[ConnectorFactory] = &[connectors::count::FACTORY, connectors::forward::FACTORY];

/// What serves other components, and whoever looks after the collector.
pub const EXTENSIONS: &[ExtensionFactory] = &[
    extensions::basic_auth::FACTORY,
    extensions::bearer_token_auth::FACTORY,
    storage::FACTORY,
    extensions::headers_setter::FACTORY,
    extensions::health_check::FACTORY,
    extensions::zpages::FACTORY,
];

/// Sources.
pub const RECEIVERS: &[ReceiverFactory] =
    &[amdsmi::FACTORY, gpu::FACTORY, nvml::FACTORY, otlp_receiver::FACTORY];

/// What stands between.
pub const PROCESSORS: &[ProcessorFactory] = &[
    processors::attributes::FACTORY,
    processors::batch::FACTORY,
    processors::cumulative_to_delta::FACTORY,
    processors::group_by_attrs::FACTORY,
    processors::memory_limiter::FACTORY,
    processors::probabilistic_sampler::FACTORY,
    processors::resource::FACTORY,
    processors::resource_detection::FACTORY,
];

/// Sinks.
pub const EXPORTERS: &[ExporterFactory] = &[
    exporters::debug::FACTORY,
    exporters::file::FACTORY,
    exporters::nop::FACTORY,
    exporters::otlp_grpc::FACTORY,
    exporters::otlp_http::FACTORY,
];

/// All tables.
pub const FACTORIES: Factories<'static> = Factories {
    connectors: CONNECTORS,
    exporters: EXPORTERS,
    extensions: EXTENSIONS,
    processors: PROCESSORS,
    receivers: RECEIVERS,
};

#[cfg(test)]
mod tests {
    use component::{ComponentId, Factory};

    use super::*;

    fn check<T: ?Sized>(rows: &[Factory<T>]) {
        let kinds: Vec<&str> = rows.iter().map(|row| row.kind).collect();
        assert!(kinds.is_sorted_by(|a, b| a < b), "sorted, each once: {kinds:?}");
        for row in rows {
            for name in row.aliases.iter().chain([&row.kind]) {
                assert!(ComponentId::parse(name).is_ok_and(|id| id.name().is_empty()), "{name} is a type");
                let answering = rows.iter().filter(|r| r.answers_to(name)).count();
                assert_eq!(answering, 1, "{name} names one row");
            }
        }
    }

    #[test]
    fn rows_are_sorted_and_their_names_are_types() {
        check(CONNECTORS);
        check(EXPORTERS);
        check(EXTENSIONS);
        check(PROCESSORS);
        check(RECEIVERS);
    }
}
