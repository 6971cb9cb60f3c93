//! `warptap components`: the available components, as the YAML of the Collector's command of that name.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Context as _;
use component::{Factory, Stability};
use serde::Serialize;

use crate::components::FACTORIES;
use crate::config::{schemes, to_yaml};
use crate::prepare::VERSION;

/// Prints the components as YAML.
pub fn run(out: &mut dyn Write) -> anyhow::Result<()> {
    out.write_all(to_yaml(&Output::new())?.as_bytes()).context("cannot print the components")
}

#[derive(Serialize)]
struct Output {
    buildinfo: BuildInfo,
    receivers: Vec<Row>,
    processors: Vec<Row>,
    exporters: Vec<Row>,
    connectors: Vec<Row>,
    extensions: Vec<Row>,
    providers: Vec<Provider>,
    /// Steps between expansion and decoding of a configuration; always empty.
    converters: Vec<Provider>,
}

#[derive(Serialize)]
struct BuildInfo {
    command: &'static str,
    description: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    module: String,
    stability: BTreeMap<&'static str, &'static str>,
}

#[derive(Serialize)]
struct Provider {
    scheme: &'static str,
    module: String,
}

impl Output {
    fn new() -> Self {
        Output {
            buildinfo: BuildInfo {
                command: "warptap",
                description: "an OpenTelemetry collector for GPU nodes",
                version: VERSION,
            },
            receivers: rows(FACTORIES.receivers),
            processors: rows(FACTORIES.processors),
            exporters: rows(FACTORIES.exporters),
            connectors: rows(FACTORIES.connectors),
            extensions: rows(FACTORIES.extensions),
            providers: schemes().map(|scheme| Provider { scheme, module: module() }).collect(),
            converters: Vec::new(),
        }
    }
}

/// Returns the module of every component: the binary and its version.
fn module() -> String {
    format!("warptap v{VERSION}")
}

fn rows<T: ?Sized>(factories: &[Factory<T>]) -> Vec<Row> {
    factories.iter().map(|f| Row { name: f.kind, module: module(), stability: stability(f) }).collect()
}

/// Returns the stability by signal; an extension has one entry `extension`.
fn stability<T: ?Sized>(factory: &Factory<T>) -> BTreeMap<&'static str, &'static str> {
    let name = stability_name(factory.stability);
    match factory.signals {
        [] => [("extension", name)].into(),
        signals => signals.iter().map(|signal| (signal.name(), name)).collect(),
    }
}

fn stability_name(stability: Stability) -> &'static str {
    match stability {
        Stability::Alpha => "Alpha",
        Stability::Beta => "Beta",
        Stability::Stable => "Stable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_is_yaml_that_names_every_component() {
        let mut out = Vec::new();
        run(&mut out).unwrap();
        let yaml: serde_yaml::Value = serde_yaml::from_slice(&out).unwrap();
        for (section, kinds) in [
            ("receivers", FACTORIES.receivers.iter().map(|f| f.kind).collect::<Vec<_>>()),
            ("processors", FACTORIES.processors.iter().map(|f| f.kind).collect()),
            ("exporters", FACTORIES.exporters.iter().map(|f| f.kind).collect()),
            ("connectors", FACTORIES.connectors.iter().map(|f| f.kind).collect()),
            ("extensions", FACTORIES.extensions.iter().map(|f| f.kind).collect()),
        ] {
            let rows = yaml[section].as_sequence().unwrap();
            let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
            assert_eq!(names, kinds, "{section}");
        }
        assert_eq!(yaml["buildinfo"]["version"], VERSION);
        let mut receivers = yaml["receivers"].as_sequence().unwrap().iter();
        let otlp = receivers.find(|row| row["name"] == "otlp").unwrap();
        assert_eq!(otlp["stability"]["traces"], "Stable");
        let schemes: Vec<&str> =
            yaml["providers"].as_sequence().unwrap().iter().map(|p| p["scheme"].as_str().unwrap()).collect();
        assert_eq!(schemes, ["env", "file", "http", "https", "yaml"]);
    }
}
