//! Computes which node feeds which, and the level of each node above the sinks.
//!
//! The functions are pure and see only ids and signals. Dangling connectors and cycles are reported with the
//! Collector's messages.

use std::collections::BTreeMap;

use component::ComponentId;
use pdata::Signal;

use super::key::NodeKey;
use crate::config::{Pipeline, PipelineId, Reference};

/// Returns the signals that a connector emits for a signal; `None` if the id is not a connector.
pub(super) type ConnectorOutputs<'a> = &'a dyn Fn(&ComponentId, Signal) -> Option<&'static [Signal]>;

/// A signal and the nodes that its data is sent to.
pub(super) type Output = (Signal, Vec<NodeKey>);

/// The shape of a graph.
#[derive(Debug, Default)]
pub(super) struct Wiring {
    /// The outputs of every node.
    pub(super) edges: BTreeMap<NodeKey, Vec<Output>>,
    /// The signal and the first nodes of each pipeline.
    pub(super) heads: Vec<Output>,
    /// The level of each node above the sinks: nodes start from the lowest level and stop from the highest.
    /// Receivers are above all other nodes, except those that data of a bridge arrives at.
    pub(super) levels: BTreeMap<NodeKey, u32>,
    /// The nodes that a node sends data to without an edge.
    beyond: BTreeMap<NodeKey, Vec<NodeKey>>,
}

/// The way of data outside of the graph: exporters send it to another process, an extension runs that process, and receivers get
/// data from it. Nodes start and stop in this order, as if the extension were between them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bridge {
    /// The extension that runs the process.
    pub extension: ComponentId,
    /// The exporters that send to the process.
    pub inputs: Vec<ComponentId>,
    /// The receivers that get data from it.
    pub outputs: Vec<ComponentId>,
}

impl Bridge {
    /// Returns the nodes that each end sends data to. Data may pass through the process several times, but it is started once: an
    /// exporter to which its own data returns is not ordered.
    fn beyond(&self, edges: &BTreeMap<NodeKey, Vec<Output>>) -> BTreeMap<NodeKey, Vec<NodeKey>> {
        let extension = NodeKey::Extension(self.extension.clone());
        let outputs: Vec<NodeKey> = self.outputs.iter().cloned().map(NodeKey::Receiver).collect();
        let mut behind = outputs.clone();
        let mut at = 0;
        while let Some(key) = behind.get(at).cloned() {
            let next = edges.get(&key).into_iter().flatten().flat_map(|(_, to)| to);
            let new: Vec<NodeKey> = next.filter(|to| !behind.contains(to)).cloned().collect();
            behind.extend(new);
            at += 1;
        }
        let inputs = self.inputs.iter().cloned().map(NodeKey::Exporter).filter(|key| !behind.contains(key));
        let mut beyond: BTreeMap<_, _> = inputs.map(|key| (key, vec![extension.clone()])).collect();
        beyond.insert(extension, outputs);
        beyond
    }
}

/// The level of exporters. Extensions are below.
const SINK: u32 = 1;

/// A connector and the problem with its wiring.
pub(super) type WiringError = (ComponentId, String);

/// Wires the pipelines, or returns the problems of their connectors.
pub(super) fn wire(
    pipelines: &[Pipeline],
    outputs: ConnectorOutputs<'_>,
    bridge: Option<&Bridge>,
) -> Result<Wiring, Vec<WiringError>> {
    let wires = Wires { pipelines, outputs };
    let problems = wires.dangling_connectors();
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut wiring = Wiring::default();
    for pipeline in pipelines {
        wires.add_pipeline(pipeline, &mut wiring);
    }
    wiring.beyond = bridge.map(|bridge| bridge.beyond(&wiring.edges)).unwrap_or_default();
    rank(&mut wiring).map_err(|cycle| vec![cycle])?;
    Ok(wiring)
}

struct Wires<'a> {
    pipelines: &'a [Pipeline],
    outputs: ConnectorOutputs<'a>,
}

impl Wires<'_> {
    fn is_connector(&self, id: &ComponentId) -> bool {
        Signal::ALL.iter().any(|signal| (self.outputs)(id, *signal).is_some())
    }

    /// Returns the nodes of a connector for data of one signal: one per signal of the pipelines it feeds.
    fn connectors(&self, id: &ComponentId, from: Signal) -> Vec<NodeKey> {
        let outputs = (self.outputs)(id, from).unwrap_or_default();
        let feeds = |to: Signal| self.fed(id, to).next().is_some();
        let used = outputs.iter().copied().filter(|to| feeds(*to));
        used.map(|to| NodeKey::Connector { id: id.clone(), from, to }).collect()
    }

    /// Returns the pipelines of a signal that list `id` as a receiver.
    fn fed(&self, id: &ComponentId, signal: Signal) -> impl Iterator<Item = &Pipeline> {
        let names = move |p: &&Pipeline| p.id.signal == signal && has(&p.receivers, id);
        self.pipelines.iter().filter(names)
    }

    /// Returns the last nodes of a pipeline: exporters and connectors.
    fn ends(&self, pipeline: &Pipeline) -> Vec<NodeKey> {
        let end = |id: &ComponentId| match self.is_connector(id) {
            true => self.connectors(id, pipeline.id.signal),
            false => vec![NodeKey::Exporter(id.clone())],
        };
        unique(&pipeline.exporters).iter().flat_map(end).collect()
    }

    /// Returns the first nodes of a pipeline: its first processor, or its last nodes.
    fn head(&self, pipeline: &Pipeline) -> Vec<NodeKey> {
        match pipeline.processors.first() {
            Some(first) => vec![processor(pipeline, first)],
            None => self.ends(pipeline),
        }
    }

    /// Adds the nodes and outputs of a pipeline.
    fn add_pipeline(&self, pipeline: &Pipeline, wiring: &mut Wiring) {
        let (signal, ends) = (pipeline.id.signal, self.ends(pipeline));
        for end in &ends {
            let outputs = match end {
                NodeKey::Connector { id, to, .. } => {
                    let next = self.fed(id, *to).flat_map(|p| self.head(p)).collect();
                    vec![(*to, next)]
                }
                _ => Vec::new(),
            };
            wiring.edges.insert(end.clone(), outputs);
        }
        let mut next = ends;
        for reference in pipeline.processors.iter().rev() {
            let key = processor(pipeline, reference);
            wiring.edges.insert(key.clone(), vec![(signal, std::mem::replace(&mut next, vec![key]))]);
        }
        for id in unique(&pipeline.receivers).into_iter().filter(|id| !self.is_connector(id)) {
            let outputs = wiring.edges.entry(NodeKey::Receiver(id)).or_default();
            match outputs.iter_mut().find(|(s, _)| *s == signal) {
                Some((_, targets)) => targets.extend(next.iter().cloned()),
                None => outputs.push((signal, next.clone())),
            }
        }
        wiring.heads.push((signal, next));
    }

    /// Returns the connectors that are used on one side only, for the signals they support.
    fn dangling_connectors(&self) -> Vec<WiringError> {
        let mut problems = Vec::new();
        for pipeline in self.pipelines {
            for id in self.new_connectors(pipeline, |p| &p.exporters) {
                if self.connectors(&id, pipeline.id.signal).is_empty() {
                    let used = self.listed(pipeline.id.signal, |p| has(&p.exporters, &id));
                    problems.push(dangling(id, "exporter", &used, "receiver"));
                }
            }
            for id in self.new_connectors(pipeline, |p| &p.receivers) {
                let feeds = |p: &Pipeline| {
                    let outputs = (self.outputs)(&id, p.id.signal).unwrap_or_default();
                    has(&p.exporters, &id) && outputs.contains(&pipeline.id.signal)
                };
                if !self.pipelines.iter().any(feeds) {
                    let used = self.listed(pipeline.id.signal, |p| has(&p.receivers, &id));
                    problems.push(dangling(id, "receiver", &used, "exporter"));
                }
            }
        }
        problems
    }

    /// Returns the connectors on one side of a pipeline that no earlier pipeline of its signal lists there.
    fn new_connectors<'p>(
        &'p self,
        pipeline: &'p Pipeline,
        side: impl Fn(&'p Pipeline) -> &'p [Reference],
    ) -> Vec<ComponentId> {
        let earlier = self.pipelines.iter().take_while(|p| p.id != pipeline.id);
        let earlier: Vec<_> = earlier.filter(|p| p.id.signal == pipeline.id.signal).collect();
        let is_new = |id: &ComponentId| !earlier.iter().any(|p| has(side(p), id));
        unique(side(pipeline)).into_iter().filter(|id| self.is_connector(id) && is_new(id)).collect()
    }

    fn listed(&self, signal: Signal, used: impl Fn(&Pipeline) -> bool) -> String {
        let names = self.pipelines.iter().filter(|p| p.id.signal == signal && used(p));
        names.map(|p| p.id.to_string()).collect::<Vec<_>>().join(" ")
    }
}

fn dangling(id: ComponentId, side: &str, used: &str, other: &str) -> WiringError {
    let message = format!(
        "connector \"{id}\" used as {side} in [{used}] pipeline but not used in any supported {other} pipeline"
    );
    (id, message)
}

fn processor(pipeline: &Pipeline, reference: &Reference) -> NodeKey {
    NodeKey::Processor { pipeline: pipeline.id.clone(), id: reference.id.clone() }
}

fn has(references: &[Reference], id: &ComponentId) -> bool {
    references.iter().any(|r| r.id == *id)
}

/// Returns the ids of a list without duplicates.
fn unique(references: &[Reference]) -> Vec<ComponentId> {
    let mut ids: Vec<ComponentId> = Vec::new();
    for reference in references {
        if !ids.contains(&reference.id) {
            ids.push(reference.id.clone());
        }
    }
    ids
}

/// Computes the level of every node, or returns the cycle. The order of outputs does not depend on the order of
/// pipelines, so that two plans can be compared.
fn rank(wiring: &mut Wiring) -> Result<(), WiringError> {
    wiring.edges.values_mut().for_each(|outputs| outputs.sort_by_key(|(signal, _)| *signal));
    let keys: Vec<NodeKey> = wiring.edges.keys().chain(wiring.beyond.keys()).cloned().collect();
    for key in &keys {
        level(key, wiring, &mut Vec::new())?;
    }
    let top = wiring.levels.values().max().map_or(SINK, |max| max + 1);
    let is_behind = |key: &NodeKey| wiring.beyond.values().any(|to| to.contains(key));
    let first = |key: &NodeKey| matches!(key, NodeKey::Receiver(_)) && !is_behind(key);
    let first: Vec<NodeKey> = keys.into_iter().filter(first).collect();
    wiring.levels.extend(first.into_iter().map(|key| (key, top)));
    Ok(())
}

/// Computes the level of a node; `above` are the nodes on the path to it.
fn level(key: &NodeKey, wiring: &mut Wiring, above: &mut Vec<NodeKey>) -> Result<u32, WiringError> {
    if let Some(known) = wiring.levels.get(key) {
        return Ok(*known);
    }
    if let Some(at) = above.iter().position(|k| k == key) {
        return Err(cycle(&above[at..]));
    }
    above.push(key.clone());
    let edges = wiring.edges.get(key).into_iter().flatten().flat_map(|(_, to)| to);
    let targets: Vec<NodeKey> = edges.chain(wiring.beyond.get(key).into_iter().flatten()).cloned().collect();
    let mut highest = 0;
    for target in &targets {
        highest = highest.max(level(target, wiring, above)?);
    }
    above.pop();
    let level = if targets.is_empty() { SINK } else { highest + 1 };
    wiring.levels.insert(key.clone(), level);
    Ok(level)
}

/// Describes a cycle, beginning with a connector: every cycle contains one.
fn cycle(nodes: &[NodeKey]) -> WiringError {
    let first = nodes.iter().position(|k| matches!(k, NodeKey::Connector { .. })).unwrap_or(0);
    let path = nodes.iter().cycle().skip(first).take(nodes.len() + 1);
    let path = path.map(NodeKey::in_cycle).collect::<Vec<_>>().join(" -> ");
    (nodes[first].id().clone(), format!("cycle detected: {path}"))
}

/// Describes the pipelines for status pages.
pub(super) fn describe(pipelines: &[Pipeline]) -> Vec<component::status::PipelineInfo> {
    let names = |list: &[Reference]| list.iter().map(|r| r.id.to_string()).collect();
    let describe = |p: &Pipeline| component::status::PipelineInfo {
        id: PipelineId::to_string(&p.id),
        receivers: names(&p.receivers),
        processors: names(&p.processors),
        exporters: names(&p.exporters),
    };
    pipelines.iter().map(describe).collect()
}

#[cfg(test)]
#[path = "wiring_tests.rs"]
mod tests;
