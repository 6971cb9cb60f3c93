//! A configuration with every component built: looked up by type, decoded and validated, but not started.

use std::collections::{BTreeMap, BTreeSet};

use component::status::PipelineInfo;
use component::{
    BuildContext, ComponentId, Connector, ConnectorFactory, Exporter, ExporterFactory, Extension,
    ExtensionFactory, Factory, Processor, ProcessorFactory, Receiver, ReceiverFactory, find,
};
use config::{ConfigError, Node, Problem, nearest};
use pdata::Signal;

use super::key::NodeKey;
use super::known;
use super::order;
use super::wiring::{self, Bridge, Output, Wiring};
use crate::config::{ComponentKind, Configured, Pipeline, Reference, Sections};

/// The tables in which components are looked up by type.
#[derive(Clone, Copy, Debug)]
pub struct Factories<'a> {
    /// Connectors, sorted by type.
    pub connectors: &'a [ConnectorFactory],
    /// Exporters, sorted by type.
    pub exporters: &'a [ExporterFactory],
    /// Extensions, sorted by type.
    pub extensions: &'a [ExtensionFactory],
    /// Processors, sorted by type.
    pub processors: &'a [ProcessorFactory],
    /// Receivers, sorted by type.
    pub receivers: &'a [ReceiverFactory],
}

/// A graph that is built and not started.
pub struct Plan {
    /// All nodes in start order: the lowest level first.
    pub(super) nodes: Vec<Planned>,
    /// The signal and the first nodes of each pipeline.
    pub(super) heads: Vec<Output>,
    pub(super) pipelines: Vec<PipelineInfo>,
    /// Problems that do not prevent a start, such as a deprecated name.
    pub warnings: Vec<Problem>,
}

/// A node that is built and not started.
pub(super) struct Planned {
    pub(super) key: NodeKey,
    pub(super) level: u32,
    /// The configuration it was built from; a reload restarts the node only if this changed.
    pub(super) config: Node,
    pub(super) component: Component,
    /// The nodes it sends data to.
    pub(super) outputs: Vec<Output>,
}

/// A component that is built and not started.
pub(super) enum Component {
    Connector(Box<dyn Connector>, (Signal, Signal)),
    Exporter(Box<dyn Exporter>),
    Extension(Box<dyn Extension>),
    Processor(Box<dyn Processor>, Signal),
    Receiver(Box<dyn Receiver>),
}

impl Factories<'_> {
    /// Returns whether there is a component of that kind and type.
    pub fn has(&self, kind: ComponentKind, name: &str) -> bool {
        match kind {
            ComponentKind::Connector => find(self.connectors, name).is_some(),
            ComponentKind::Exporter => find(self.exporters, name).is_some(),
            ComponentKind::Extension => find(self.extensions, name).is_some(),
            ComponentKind::Processor => find(self.processors, name).is_some(),
            ComponentKind::Receiver => find(self.receivers, name).is_some(),
        }
    }

    /// Returns what a component of this binary says against its settings; none if it accepts them, or if there is no such component.
    pub fn check(&self, configured: &Configured<'_>, version: &'static str) -> Option<ConfigError> {
        match configured.kind {
            ComponentKind::Connector => refusal(self.connectors, configured, version),
            ComponentKind::Exporter => refusal(self.exporters, configured, version),
            ComponentKind::Extension => refusal(self.extensions, configured, version),
            ComponentKind::Processor => refusal(self.processors, configured, version),
            ComponentKind::Receiver => refusal(self.receivers, configured, version),
        }
    }
}

fn refusal<T: ?Sized>(
    rows: &[Factory<T>],
    configured: &Configured<'_>,
    version: &'static str,
) -> Option<ConfigError> {
    let context = BuildContext { id: configured.id.clone(), version };
    let row = find(rows, configured.id.kind())?;
    (row.build)(&context, configured.section()).err()
}

impl Plan {
    /// Builds every configured component, including those that no pipeline uses, since their sections must be valid
    /// too. Returns all problems of the sections and of the components. Data also passes through the bridge, if there is one.
    pub fn build(
        sections: &Sections<'_>,
        factories: Factories<'_>,
        version: &'static str,
        bridge: Option<&Bridge>,
    ) -> Result<Self, ConfigError> {
        let (problems, warnings) = (sections.problems.clone(), Vec::new());
        let mut builder = Builder { sections, factories, version, bridge, problems, warnings };
        builder.validate();
        let wiring = builder.wire();
        ConfigError::unless_empty(std::mem::take(&mut builder.problems))?;
        let mut nodes = builder.nodes(&wiring)?;
        nodes.sort_by(|a, b| (a.level, rank(&a.key)).cmp(&(b.level, rank(&b.key))));
        let pipelines = wiring::describe(&sections.service.pipelines);
        Ok(Plan { nodes, heads: wiring.heads, pipelines, warnings: builder.warnings })
    }

    /// Returns the plan without its receivers, for a caller that feeds the pipelines itself.
    pub fn without_receivers(mut self) -> Self {
        self.nodes.retain(|node| node.key.kind() != ComponentKind::Receiver);
        self
    }
}

/// Returns the sort key within a level: extensions keep their order, other nodes start in the order of their keys.
fn rank(key: &NodeKey) -> Option<&NodeKey> {
    (key.kind() != ComponentKind::Extension).then_some(key)
}

struct Builder<'a> {
    sections: &'a Sections<'a>,
    factories: Factories<'a>,
    version: &'static str,
    bridge: Option<&'a Bridge>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Builder<'_> {
    /// Collects the problems of each component, and of the signals it is used for.
    fn validate(&mut self) {
        let rows = self.factories;
        self.validate_all(ComponentKind::Extension, rows.extensions, |_, _| Ok(()));
        self.validate_all(ComponentKind::Connector, rows.connectors, |_, _| Ok(()));
        self.validate_all(ComponentKind::Exporter, rows.exporters, |exporter, signal| {
            exporter.accepts(signal)
        });
        self.validate_all(ComponentKind::Processor, rows.processors, |_, _| Ok(()));
        self.validate_all(ComponentKind::Receiver, rows.receivers, |_, _| Ok(()));
        for pipeline in &self.sections.service.pipelines {
            self.check_signal(pipeline, ComponentKind::Receiver, rows.receivers);
            self.check_signal(pipeline, ComponentKind::Processor, rows.processors);
            self.check_signal(pipeline, ComponentKind::Exporter, rows.exporters);
        }
    }

    /// Builds the components of a kind, and asks those that are built whether they accept the signals of their pipelines.
    fn validate_all<T: ?Sized>(
        &mut self,
        kind: ComponentKind,
        rows: &[Factory<T>],
        accepts: impl Fn(&T, Signal) -> Result<(), String>,
    ) {
        for configured in self.sections.of(kind) {
            let Some(row) = find(rows, configured.id.kind()) else {
                self.problems.push(unknown_type(configured, rows));
                continue;
            };
            if row.kind != configured.id.kind() {
                let message = format!("{:?} is a deprecated name of {:?}", configured.id.kind(), row.kind);
                self.warnings.push(configured.problem(message));
            }
            match (row.build)(&self.context(&configured.id), configured.section()) {
                Ok(component) => {
                    let refused =
                        self.signals(configured).into_iter().filter_map(|s| accepts(&component, s).err());
                    let refused: Vec<Problem> = refused.map(|reason| configured.problem(reason)).collect();
                    self.problems.extend(refused);
                }
                Err(error) => self.problems.extend(error.into_problems()),
            }
        }
    }

    /// Returns the signals of the pipelines that list a component.
    fn signals(&self, configured: &Configured<'_>) -> BTreeSet<Signal> {
        let lists = |p: &&Pipeline| p.references(configured.kind).iter().any(|r| r.id == configured.id);
        self.sections.service.pipelines.iter().filter(lists).map(|p| p.id.signal).collect()
    }

    fn context(&self, id: &ComponentId) -> BuildContext {
        BuildContext { id: id.clone(), version: self.version }
    }

    /// Collects a problem for every component that does not support the signal of its pipeline.
    fn check_signal<T: ?Sized>(&mut self, pipeline: &Pipeline, kind: ComponentKind, rows: &[Factory<T>]) {
        for Reference { id, position } in pipeline.references(kind) {
            let Some(row) =
                find(rows, id.kind()).filter(|_| !self.sections.has(ComponentKind::Connector, id))
            else {
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
        let all: Vec<&Configured<'_>> = self.sections.of(ComponentKind::Connector).collect();
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
        let miswired = match wiring::wire(&self.sections.service.pipelines, &outputs, self.bridge) {
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
            let key = NodeKey::Extension(id);
            let level = wiring.levels.get(&key).copied().unwrap_or_default();
            nodes.push(self.node(key, level, Vec::new())?);
        }
        for (key, outputs) in &wiring.edges {
            nodes.push(self.node(key.clone(), wiring.levels[key], outputs.clone())?);
        }
        Ok(nodes)
    }

    /// Returns the extensions of the service in the order of their list, but each after those its section mentions.
    fn extensions(&self) -> Vec<ComponentId> {
        let ids = self.sections.service.extensions.iter().map(|reference| reference.id.clone()).collect();
        let needs = |id: &ComponentId, other: &ComponentId| {
            let mut own = self.sections.of(ComponentKind::Extension).filter(|c| c.id == *id);
            own.any(|configured| configured.node.mentions(&other.to_string()))
        };
        order::by_need(ids, needs)
    }

    fn node(&self, key: NodeKey, level: u32, outputs: Vec<Output>) -> Result<Planned, ConfigError> {
        let (rows, id, kind) = (self.factories, key.id(), key.kind());
        let (component, config) = match &key {
            NodeKey::Extension(_) => with(Component::Extension, self.build(kind, id, rows.extensions)?),
            NodeKey::Exporter(_) => with(Component::Exporter, self.build(kind, id, rows.exporters)?),
            NodeKey::Receiver(_) => with(Component::Receiver, self.build(kind, id, rows.receivers)?),
            NodeKey::Connector { from, to, .. } => {
                with(|c| Component::Connector(c, (*from, *to)), self.build(kind, id, rows.connectors)?)
            }
            NodeKey::Processor { pipeline, .. } => {
                with(|p| Component::Processor(p, pipeline.signal), self.build(kind, id, rows.processors)?)
            }
        };
        Ok(Planned { key, level, config, component, outputs })
    }

    /// Builds a component whose section was validated, and returns it with that section.
    fn build<T: ?Sized>(
        &self,
        kind: ComponentKind,
        id: &ComponentId,
        rows: &[Factory<T>],
    ) -> Result<(Box<T>, Node), ConfigError> {
        let configured = self.sections.of(kind).find(|c| c.id == *id).expect("references were checked");
        let row = find(rows, id.kind()).expect("types were checked");
        let component = (row.build)(&self.context(id), configured.section())?;
        Ok((component, configured.node.clone()))
    }
}

fn with<T: ?Sized>(component: impl FnOnce(Box<T>) -> Component, built: (Box<T>, Node)) -> (Component, Node) {
    (component(built.0), built.1)
}

/// What to do about a component of another distribution.
const ADVICE: &str = "run that Collector beside it with --collector PATH, or remove the component";

fn unknown_type<T: ?Sized>(configured: &Configured<'_>, rows: &[Factory<T>]) -> Problem {
    let kind = configured.id.kind();
    if configured.kind == ComponentKind::Exporter && kind == "logging" {
        return configured
            .problem("the logging exporter has been deprecated, use the debug exporter instead");
    }
    let id = configured.id.to_string();
    if let Some(distribution) = known::distribution(configured.kind, kind) {
        let message = format!(
            "unknown type: {kind:?} for id: {id:?}: exists in {distribution}, not in warptap: {ADVICE}"
        );
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
