//! The reference of components is fresh, and every example in it is taken by its component.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use component::Factory;
use config::{Node, Section};
use warptap::components::FACTORIES;
use warptap::config::{Kind, Process};
use warptap::docs;
use warptap::prepare::prepare;

/// A configuration in which a component is configured, and something runs.
fn configuration(kind: Kind, name: &str, example: &str) -> String {
    let body: String = example.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "{}:\n  {name}:\n{body}receivers::otlp/base::protocols::grpc:\nexporters::nop/base:\nservice::pipelines:\n  logs: {{receivers: [otlp/base], exporters: [nop/base]}}\n",
        kind.section()
    )
}

fn check<T: ?Sized>(kind: Kind, rows: &[Factory<T>]) {
    for row in rows {
        assert!(
            row.about.ends_with('.') && !row.about.contains('\n'),
            "{row:?}: a sentence: {:?}",
            row.about
        );
        let yaml = configuration(kind, row.kind, row.example);
        let location = [format!("yaml:{yaml}")];
        if let Err(error) = prepare(&location, &Process, FACTORIES) {
            panic!("{yaml}\n{error}");
        }
    }
}

#[test]
fn every_example_of_a_component_is_taken_by_it() {
    check(Kind::Connector, FACTORIES.connectors);
    check(Kind::Exporter, FACTORIES.exporters);
    check(Kind::Extension, FACTORIES.extensions);
    check(Kind::Processor, FACTORIES.processors);
    check(Kind::Receiver, FACTORIES.receivers);
}

/// The example of `gpu` is where its keys are found.
#[test]
fn the_example_of_gpu_shows_its_defaults() {
    let row = FACTORIES.receivers.iter().find(|row| row.kind == "gpu").unwrap();
    let written: serde_json::Value = serde_yaml::from_str(row.example).unwrap();
    let node: Node = serde_json::from_value(written).unwrap();
    let shown = gpu::Config::read(Section::new("receivers::gpu", &node)).unwrap();
    assert_eq!(gpu::Config { storage: None, ..shown }, gpu::Config::default());
}

#[test]
fn the_reference_is_what_the_tables_give() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/components.md");
    if std::env::var_os("WARPTAP_WRITE_DOCS").is_some() {
        std::fs::write(&path, docs::components()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == docs::components(), "docs/components.md is stale: run cargo xtask docs");
}
