//! A configuration with every component built: looked up by type, decoded, validated, and opened by none.

use std::collections::BTreeMap;

use component::status::PipelineInfo;
use component::{
    BuildContext, ComponentId, Connector, ConnectorFactory, Exporter, ExporterFactory, Extension,
    ExtensionFactory, Factory, Processor, ProcessorFactory, Receiver, ReceiverFactory, find,
};
use config::{ConfigError, Node, Problem, nearest};
use pdata::Signal;

use super::key::Key;
use super::known;
use super::order;
use super::wiring::{self, Way, Wiring};
use crate::config::{Configured, Kind, Pipeline, Reference, Sections};

/// The tables that components are looked up in.
#[derive(Clone, Copy, Debug)]
pub struct Factories<'a> {
    /// Rows of connectors.
    pub connectors: &'a [ConnectorFactory],
    /// Rows of exporters.
    pub exporters: &'a [ExporterFactory],
    /// Rows of extensions.
    pub extensions: &'a [ExtensionFactory],
    /// Rows of processors.
    pub processors: &'a [ProcessorFactory],
    /// Rows of receivers.
    pub receivers: &'a [ReceiverFactory],
}

/// What is about to run.
pub struct Plan {
    /// All nodes, the lowest level first.
    pub(super) nodes: Vec<Planned>,
    /// Where the pipelines begin.
    pub(super) heads: Vec<Way>,
    pub(super) pipelines: Vec<PipelineInfo>,
    /// What is odd but no error, such as a deprecated name.
    pub warnings: Vec<Problem>,
}

/// A node that was built and not started.
pub(super) struct Planned {
    pub(super) key: Key,
    pub(super) level: u32,
    /// What it was built from: a node whose configuration did not change need not be started anew.
    pub(super) config: Node,
    pub(super) part: Part,
    /// Where its data goes.
    pub(super) ways: Vec<Way>,
}

/// A component that was built and not started.
pub(super) enum Part {
    Connector(Box<dyn Connector>, (Signal, Signal)),
    Exporter(Box<dyn Exporter>),
    Extension(Box<dyn Extension>),
    Processor(Box<dyn Processor>, Signal),
    Receiver(Box<dyn Receiver>),
}

impl Plan {
    /// Builds every component that is configured, those that no pipeline uses too: their sections must be
    /// right all the same. Tells all that is wrong with any of them, and with the sections themselves.
    pub fn build(
        sections: &Sections<'_>,
        factories: Factories<'_>,
        version: &'static str,
    ) -> Result<Self, ConfigError> {
        let (problems, warnings) = (sections.problems.clone(), sections.warnings.clone());
        let mut builder = Builder { sections, factories, version, problems, warnings };
        builder.validate();
        let wiring = builder.wire();
        ConfigError::unless_empty(std::mem::take(&mut builder.problems))?;
        let mut nodes = builder.nodes(&wiring)?;
        nodes.sort_by(|a, b| (a.level, rank(&a.key)).cmp(&(b.level, rank(&b.key))));
        let pipelines = wiring::describe(&sections.service.pipelines);
        Ok(Plan { nodes, heads: wiring.heads, pipelines, warnings: builder.warnings })
    }

    /// The same plan without its receivers, for a caller that feeds the pipelines itself.
    pub fn without_receivers(mut self) -> Self {
        self.nodes.retain(|node| node.key.kind() != Kind::Receiver);
        self
    }
}

/// Extensions start in the order they were put in, everything else by name.
fn rank(key: &Key) -> Option<&Key> {
    (key.kind() != Kind::Extension).then_some(key)
}

struct Builder<'a> {
    sections: &'a Sections<'a>,
    factories: Factories<'a>,
    version: &'static str,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Builder<'_> {
    /// Notes all that is wrong with components on their own, and with the signals that they are used for.
    fn validate(&mut self) {
        let rows = self.factories;
        self.validate_all(Kind::Extension, rows.extensions);
        self.validate_all(Kind::Connector, rows.connectors);
        self.validate_all(Kind::Exporter, rows.exporters);
        self.validate_all(Kind::Processor, rows.processors);
        self.validate_all(Kind::Receiver, rows.receivers);
        for pipeline in &self.sections.service.pipelines {
            self.check_signal(pipeline, Kind::Receiver, rows.receivers);
            self.check_signal(pipeline, Kind::Processor, rows.processors);
            self.check_signal(pipeline, Kind::Exporter, rows.exporters);
        }
    }

    fn validate_all<T: ?Sized>(&mut self, kind: Kind, rows: &[Factory<T>]) {
        for configured in self.sections.of(kind) {
            let Some(row) = find(rows, configured.id.kind()) else {
                self.problems.push(unknown_type(configured, rows));
                continue;
            };
            if row.kind != configured.id.kind() {
                let message = format!("{:?} is a deprecated name of {:?}", configured.id.kind(), row.kind);
                self.warnings.push(configured.problem(message));
            }
            if let Err(error) = (row.build)(&self.context(&configured.id), configured.section()) {
                self.problems.extend(error.into_problems());
            }
        }
    }

    fn context(&self, id: &ComponentId) -> BuildContext {
        BuildContext { id: id.clone(), version: self.version }
    }

    /// Notes every component that does not handle the signal of its pipeline.
    fn check_signal<T: ?Sized>(&mut self, pipeline: &Pipeline, kind: Kind, rows: &[Factory<T>]) {
        for Reference { id, position } in pipeline.references(kind) {
            let Some(row) = find(rows, id.kind()).filter(|_| !self.sections.has(Kind::Connector, id)) else {
                continue;
            };
            if !row.signals.contains(&pipeline.id.signal) {
                let (noun, signal) = (kind.noun(), pipeline.id.signal.name());
                let handled: Vec<&str> = row.signals.iter().map(|s| s.name()).collect();
                let handled = handled.join(", ");
                let message =
                    format!("{noun} \"{id}\" does not support {signal}: expected a pipeline of {handled}");
                self.problems.push(Problem::new(position.clone(), pipeline.path.clone(), message));
            }
        }
    }

    /// Connects the pipelines, or adds the problems of their connections. Connectors that could not be built have
    /// problems of their own, so that what depends on their outputs is not reported.
    fn wire(&mut self) -> Wiring {
        let rows = self.factories.connectors;
        let all: Vec<&Configured<'_>> = self.sections.of(Kind::Connector).collect();
        let built: BTreeMap<&ComponentId, Box<dyn Connector>> = all
            .iter()
            .filter_map(|c| {
                Some((&c.id, (find(rows, c.id.kind())?.build)(&self.context(&c.id), c.section()).ok()?))
            })
            .collect();
        if built.len() < all.len() {
            return Wiring::default();
        }
        let outputs = |id: &ComponentId, from| built.get(id).map(|connector| connector.outputs(from));
        let miswired = match wiring::wire(&self.sections.service.pipelines, &outputs) {
            Ok(wiring) => return wiring,
            Err(miswired) => miswired,
        };
        let problems = miswired.into_iter().filter_map(|(id, message)| {
            Some(all.iter().find(|configured| configured.id == id)?.problem(message))
        });
        self.problems.extend(problems.collect::<Vec<_>>());
        Wiring::default()
    }

    fn nodes(&self, wiring: &Wiring) -> Result<Vec<Planned>, ConfigError> {
        let mut nodes = Vec::new();
        for id in self.extensions() {
            nodes.push(self.node(Key::Extension(id), 0, Vec::new())?);
        }
        for (key, ways) in &wiring.edges {
            nodes.push(self.node(key.clone(), wiring.levels[key], ways.clone())?);
        }
        Ok(nodes)
    }

    /// The extensions of the service in the order of their list, but each after those that its section names.
    fn extensions(&self) -> Vec<ComponentId> {
        let ids = self.sections.service.extensions.iter().map(|reference| reference.id.clone()).collect();
        let needs = |id: &ComponentId, other: &ComponentId| {
            let mut own = self.sections.of(Kind::Extension).filter(|c| c.id == *id);
            own.any(|configured| configured.node.mentions(&other.to_string()))
        };
        order::by_need(ids, needs)
    }

    fn node(&self, key: Key, level: u32, ways: Vec<Way>) -> Result<Planned, ConfigError> {
        let (rows, id, kind) = (self.factories, key.id(), key.kind());
        let (part, config) = match &key {
            Key::Extension(_) => with(Part::Extension, self.build(kind, id, rows.extensions)?),
            Key::Exporter(_) => with(Part::Exporter, self.build(kind, id, rows.exporters)?),
            Key::Receiver(_) => with(Part::Receiver, self.build(kind, id, rows.receivers)?),
            Key::Connector { from, to, .. } => {
                with(|c| Part::Connector(c, (*from, *to)), self.build(kind, id, rows.connectors)?)
            }
            Key::Processor { pipeline, .. } => {
                with(|p| Part::Processor(p, pipeline.signal), self.build(kind, id, rows.processors)?)
            }
        };
        Ok(Planned { key, level, config, part, ways })
    }

    /// Builds a component whose section was validated, and says from what.
    fn build<T: ?Sized>(
        &self,
        kind: Kind,
        id: &ComponentId,
        rows: &[Factory<T>],
    ) -> Result<(Box<T>, Node), ConfigError> {
        let configured = self.sections.of(kind).find(|c| c.id == *id).expect("references were checked");
        let row = find(rows, id.kind()).expect("types were checked");
        let component = (row.build)(&self.context(id), configured.section())?;
        Ok((component, configured.node.clone()))
    }
}

fn with<T: ?Sized>(part: impl FnOnce(Box<T>) -> Part, built: (Box<T>, Node)) -> (Part, Node) {
    (part(built.0), built.1)
}

fn unknown_type<T: ?Sized>(configured: &Configured<'_>, rows: &[Factory<T>]) -> Problem {
    let kind = configured.id.kind();
    if configured.kind == Kind::Exporter && kind == "logging" {
        return configured
            .problem("the logging exporter has been deprecated, use the debug exporter instead");
    }
    let id = configured.id.to_string();
    if let Some(distribution) = known::distribution(configured.kind, kind) {
        let message =
            format!("unknown type: {kind:?} for id: {id:?}: exists in {distribution}, not in warptap");
        return configured.problem(message);
    }
    let kinds: Vec<&str> = rows.iter().map(|row| row.kind).collect();
    let values = kinds.join(" ");
    let mut problem =
        configured.problem(format!("unknown type: {kind:?} for id: {id:?} (valid values: [{values}])"));
    // A slip in the name of a component of another distribution is not one of ours.
    let candidates = kinds.into_iter().chain(known::types(configured.kind));
    let meant = nearest(kind, candidates).filter(|meant| find(rows, meant).is_some());
    problem.nearest.extend(meant.map(str::to_owned));
    problem
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
