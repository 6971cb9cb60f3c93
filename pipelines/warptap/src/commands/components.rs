//! `warptap components`: the available components, as the YAML of the Collector's command of that name.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Context as _;
use component::{Factory, Stability};
use serde::Serialize;

use crate::cli::ComponentsArgs;
use crate::components::FACTORIES;
use crate::config::{ComponentKind, schemes, to_yaml};
use crate::delegation::{self, Program, Row};
use crate::prepare::VERSION;

/// Prints the components as YAML, and those that a Collector has in addition.
pub fn run(args: &ComponentsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut output = Output::new();
    if let Some(path) = &args.collector {
        let path = if path.is_empty() { delegation::find() } else { Ok(path.into()) };
        let program = path.and_then(|path| Program::open(&path)).map_err(anyhow::Error::msg)?;
        output.add(&program);
    }
    out.write_all(to_yaml(&output)?.as_bytes()).context("cannot print the components")
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

impl Output {
    /// Adds the components that only a Collector has.
    fn add(&mut self, program: &Program) {
        for (rows, kind) in [
            (&mut self.receivers, ComponentKind::Receiver),
            (&mut self.processors, ComponentKind::Processor),
            (&mut self.exporters, ComponentKind::Exporter),
            (&mut self.connectors, ComponentKind::Connector),
            (&mut self.extensions, ComponentKind::Extension),
        ] {
            let is_new = |row: &&Row| !FACTORIES.has(kind, &row.name);
            rows.extend(program.rows(kind).iter().filter(is_new).cloned());
            rows.sort_by(|a, b| a.name.cmp(&b.name));
        }
    }
}

/// Returns the module of every component: the binary and its version.
fn module() -> String {
    format!("warptap v{VERSION}")
}

fn rows<T: ?Sized>(factories: &[Factory<T>]) -> Vec<Row> {
    let row = |f: &Factory<T>| Row { name: f.kind.to_owned(), module: module(), stability: stability(f) };
    factories.iter().map(row).collect()
}

/// Returns the stability by signal; an extension has one entry `extension`.
fn stability<T: ?Sized>(factory: &Factory<T>) -> BTreeMap<String, String> {
    let name = stability_name(factory.stability);
    let signals = factory.signals.iter().map(|signal| signal.name());
    let keys = if factory.signals.is_empty() { vec!["extension"] } else { signals.collect() };
    keys.into_iter().map(|key| (key.to_owned(), name.to_owned())).collect()
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
        run(&ComponentsArgs::default(), &mut out).unwrap();
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
