//! The reference of components is current, and every component accepts its example.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use component::Factory;
use config::{Node, Section};
use warptap::components::FACTORIES;
use warptap::config::{ComponentKind, Process};
use warptap::docs;
use warptap::prepare::prepare;

/// Returns a runnable configuration that configures a component with its example.
fn configuration(kind: ComponentKind, name: &str, example: &str) -> String {
    let body: String = example.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "{}:\n  {name}:\n{body}receivers::otlp/base::protocols::grpc:\nexporters::nop/base:\nservice::pipelines:\n  logs: {{receivers: [otlp/base], exporters: [nop/base]}}\n",
        kind.section()
    )
}

fn check<T: ?Sized>(kind: ComponentKind, rows: &[Factory<T>]) {
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
fn every_component_accepts_its_example() {
    check(ComponentKind::Connector, FACTORIES.connectors);
    check(ComponentKind::Exporter, FACTORIES.exporters);
    check(ComponentKind::Extension, FACTORIES.extensions);
    check(ComponentKind::Processor, FACTORIES.processors);
    check(ComponentKind::Receiver, FACTORIES.receivers);
}

/// Users find the keys of `gpu` in its example.
#[test]
fn the_example_of_gpu_shows_its_defaults() {
    let row = FACTORIES.receivers.iter().find(|row| row.kind == "gpu").unwrap();
    let written: serde_json::Value = serde_yaml::from_str(row.example).unwrap();
    let node: Node = serde_json::from_value(written).unwrap();
    let shown = gpu::Config::read(Section::new("receivers::gpu", &node)).unwrap();
    assert_eq!(gpu::Config { storage: None, ..shown }, gpu::Config::default());
}

#[test]
fn the_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/components.md");
    if std::env::var_os("WARPTAP_WRITE_DOCS").is_some() {
        std::fs::write(&path, docs::components()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == docs::components(), "docs/components.md is stale: run cargo xtask docs");
}

/// Returns the text of the code block after a line of a page.
fn block<'a>(page: &'a str, line: &str) -> &'a str {
    let rest = page.split_once(line).unwrap_or_else(|| panic!("{line}")).1;
    let rest = rest.split_once("```").unwrap().1.split_once('\n').unwrap().1;
    rest.split_once("```").unwrap().0
}

#[test]
fn the_worked_example_of_a_migration_is_what_the_command_prints() {
    let page = include_str!("../../../docs/migration.md");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("node.yaml"), block(page, "The node's configuration, `node.yaml`:"))
        .unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_warptap"));
    let output =
        command.args(["migrate", "node.yaml"]).env("TOKEN", "x").current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), block(page, "`warptap migrate node.yaml` prints:"));
}
