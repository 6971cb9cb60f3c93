//! The components of this binary. Each component crate lists its own components; a crate of one component is listed here.

use component::{
    ConnectorFactory, ExporterFactory, ExtensionFactory, Factory, ProcessorFactory, ReceiverFactory,
};

use crate::graph::Factories;
use crate::nop;

/// The connectors of this binary.
pub const CONNECTORS: &[ConnectorFactory] = connectors::CONNECTORS;

/// The extensions, sorted by type.
pub const EXTENSIONS: &[ExtensionFactory] =
    &insert::<_, { extensions::EXTENSIONS.len() + 1 }>(extensions::EXTENSIONS, storage::FACTORY);

/// The drivers whose GPU clocks are polled: the first that opens.
pub const DRIVERS: [hardware::DriverFactory; 2] = [nvml::driver, amdsmi::driver];

/// The `gpu` receiver, with these drivers and the command that guards its pins.
const GPU: ReceiverFactory =
    gpu::factory(|context, section| gpu::build(context, section, &DRIVERS, &[crate::cli::GUARD]));

/// The receivers, sorted by type.
pub const RECEIVERS: &[ReceiverFactory] =
    &[amdsmi::FACTORY, GPU, nop::FACTORY, nvml::FACTORY, otlp_receiver::FACTORY];

/// The processors of this binary.
pub const PROCESSORS: &[ProcessorFactory] = processors::PROCESSORS;

/// The exporters of this binary.
pub const EXPORTERS: &[ExporterFactory] = exporters::EXPORTERS;

/// Returns sorted `rows` with one more row.
const fn insert<T: ?Sized, const N: usize>(rows: &[Factory<T>], row: Factory<T>) -> [Factory<T>; N] {
    let mut all = [row; N];
    let mut index = 0;
    while index < rows.len() {
        all[if is_before(rows[index].kind, row.kind) { index } else { index + 1 }] = rows[index];
        index += 1;
    }
    all
}

const fn is_before(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index < b.len() && (index == a.len() || a[index] < b[index])
}

/// The tables of all components.
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
        assert!(kinds.is_sorted_by(|a, b| a < b), "sorted and unique: {kinds:?}");
        for row in rows {
            for name in row.aliases.iter().chain([&row.kind]) {
                assert!(ComponentId::parse(name).is_ok_and(|id| id.name().is_empty()), "{name} is a type");
                let matching = rows.iter().filter(|r| r.answers_to(name)).count();
                assert_eq!(matching, 1, "{name} names one row");
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
