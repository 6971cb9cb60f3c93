//! Which node feeds which: pipelines as edges between nodes, and each node's level above the sinks.
//!
//! Pure: sees ids and signals, and no component. A connector that leads nowhere and pipelines that run in a
//! circle are found here, in the Collector's words.

use std::collections::BTreeMap;

use component::ComponentId;
use pdata::Signal;

use super::key::Key;
use crate::config::{Pipeline, PipelineId, Reference};

/// What a connector makes of a signal; `None` where the id is no connector.
pub(super) type Outputs<'a> = &'a dyn Fn(&ComponentId, Signal) -> Option<&'static [Signal]>;

/// Where the data of a signal goes.
pub(super) type Way = (Signal, Vec<Key>);

/// The shape of a graph.
#[derive(Debug, Default)]
pub(super) struct Wiring {
    /// Every node, and where its data goes, by signal.
    pub(super) edges: BTreeMap<Key, Vec<Way>>,
    /// Where each pipeline begins.
    pub(super) heads: Vec<Way>,
    /// How far above the sinks each node stands: started from the lowest, stopped from the highest. Receivers
    /// are above everything else.
    pub(super) levels: BTreeMap<Key, u32>,
}

/// The level of exporters. Extensions are below.
const SINK: u32 = 1;

/// What is wrong, and with which connector.
pub(super) type Miswired = (ComponentId, String);

/// Wires the pipelines, or says what is wrong with them.
pub(super) fn wire(pipelines: &[Pipeline], outputs: Outputs<'_>) -> Result<Wiring, Vec<Miswired>> {
    let wires = Wires { pipelines, outputs };
    let problems = wires.loose_connectors();
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut wiring = Wiring::default();
    for pipeline in pipelines {
        wires.lay(pipeline, &mut wiring);
    }
    rank(&mut wiring).map_err(|cycle| vec![cycle])?;
    Ok(wiring)
}

struct Wires<'a> {
    pipelines: &'a [Pipeline],
    outputs: Outputs<'a>,
}

impl Wires<'_> {
    fn is_connector(&self, id: &ComponentId) -> bool {
        Signal::ALL.iter().any(|signal| (self.outputs)(id, *signal).is_some())
    }

    /// The nodes that a connector is for data of one signal: one per signal of the pipelines it feeds.
    fn connectors(&self, id: &ComponentId, from: Signal) -> Vec<Key> {
        let outputs = (self.outputs)(id, from).unwrap_or_default();
        let feeds = |to: Signal| self.fed(id, to).next().is_some();
        let used = outputs.iter().copied().filter(|to| feeds(*to));
        used.map(|to| Key::Connector { id: id.clone(), from, to }).collect()
    }

    /// The pipelines of a signal that name `id` as a receiver.
    fn fed(&self, id: &ComponentId, signal: Signal) -> impl Iterator<Item = &Pipeline> {
        let names = move |p: &&Pipeline| p.id.signal == signal && has(&p.receivers, id);
        self.pipelines.iter().filter(names)
    }

    /// Where a pipeline ends: exporters, and connectors.
    fn ends(&self, pipeline: &Pipeline) -> Vec<Key> {
        let end = |id: &ComponentId| match self.is_connector(id) {
            true => self.connectors(id, pipeline.id.signal),
            false => vec![Key::Exporter(id.clone())],
        };
        unique(&pipeline.exporters).iter().flat_map(end).collect()
    }

    /// Where a pipeline begins: its first processor, or where it ends.
    fn head(&self, pipeline: &Pipeline) -> Vec<Key> {
        match pipeline.processors.first() {
            Some(first) => vec![processor(pipeline, first)],
            None => self.ends(pipeline),
        }
    }

    fn lay(&self, pipeline: &Pipeline, wiring: &mut Wiring) {
        let (signal, ends) = (pipeline.id.signal, self.ends(pipeline));
        for end in &ends {
            let ways = match end {
                Key::Connector { id, to, .. } => {
                    let next = self.fed(id, *to).flat_map(|p| self.head(p)).collect();
                    vec![(*to, next)]
                }
                _ => Vec::new(),
            };
            wiring.edges.insert(end.clone(), ways);
        }
        let mut next = ends;
        for reference in pipeline.processors.iter().rev() {
            let key = processor(pipeline, reference);
            wiring.edges.insert(key.clone(), vec![(signal, std::mem::replace(&mut next, vec![key]))]);
        }
        for id in unique(&pipeline.receivers).into_iter().filter(|id| !self.is_connector(id)) {
            let ways = wiring.edges.entry(Key::Receiver(id)).or_default();
            match ways.iter_mut().find(|(s, _)| *s == signal) {
                Some((_, targets)) => targets.extend(next.iter().cloned()),
                None => ways.push((signal, next.clone())),
            }
        }
        wiring.heads.push((signal, next));
    }

    /// Connectors that are used on one side only, as far as their signals go.
    fn loose_connectors(&self) -> Vec<Miswired> {
        let mut problems = Vec::new();
        for pipeline in self.pipelines {
            for id in self.new_connectors(pipeline, |p| &p.exporters) {
                if self.connectors(&id, pipeline.id.signal).is_empty() {
                    let used = self.listed(pipeline.id.signal, |p| has(&p.exporters, &id));
                    problems.push(loose(id, "exporter", &used, "receiver"));
                }
            }
            for id in self.new_connectors(pipeline, |p| &p.receivers) {
                let feeds = |p: &Pipeline| {
                    let outputs = (self.outputs)(&id, p.id.signal).unwrap_or_default();
                    has(&p.exporters, &id) && outputs.contains(&pipeline.id.signal)
                };
                if !self.pipelines.iter().any(feeds) {
                    let used = self.listed(pipeline.id.signal, |p| has(&p.receivers, &id));
                    problems.push(loose(id, "receiver", &used, "exporter"));
                }
            }
        }
        problems
    }

    /// The connectors on one side of a pipeline that no earlier pipeline of its signal has there.
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

fn loose(id: ComponentId, side: &str, used: &str, other: &str) -> Miswired {
    let message = format!(
        "connector \"{id}\" used as {side} in [{used}] pipeline but not used in any supported {other} pipeline"
    );
    (id, message)
}

fn processor(pipeline: &Pipeline, reference: &Reference) -> Key {
    Key::Processor { pipeline: pipeline.id.clone(), id: reference.id.clone() }
}

fn has(references: &[Reference], id: &ComponentId) -> bool {
    references.iter().any(|r| r.id == *id)
}

/// The ids of a list, each once.
fn unique(references: &[Reference]) -> Vec<ComponentId> {
    let mut ids: Vec<ComponentId> = Vec::new();
    for reference in references {
        if !ids.contains(&reference.id) {
            ids.push(reference.id.clone());
        }
    }
    ids
}

/// Gives every node its level, or says where the graph runs in a circle. The order of ways does not depend on
/// the order of pipelines, so that two plans can be compared.
fn rank(wiring: &mut Wiring) -> Result<(), Miswired> {
    wiring.edges.values_mut().for_each(|ways| ways.sort_by_key(|(signal, _)| *signal));
    let keys: Vec<Key> = wiring.edges.keys().cloned().collect();
    for key in &keys {
        level(key, wiring, &mut Vec::new())?;
    }
    let top = wiring.levels.values().max().map_or(SINK, |max| max + 1);
    wiring.levels.extend(keys.into_iter().filter(|k| matches!(k, Key::Receiver(_))).map(|k| (k, top)));
    Ok(())
}

/// The level of a node, `above` being the nodes on the way to it.
fn level(key: &Key, wiring: &mut Wiring, above: &mut Vec<Key>) -> Result<u32, Miswired> {
    if let Some(known) = wiring.levels.get(key) {
        return Ok(*known);
    }
    if let Some(at) = above.iter().position(|k| k == key) {
        return Err(cycle(&above[at..]));
    }
    above.push(key.clone());
    let targets: Vec<Key> =
        wiring.edges.get(key).into_iter().flatten().flat_map(|(_, to)| to.clone()).collect();
    let mut highest = 0;
    for target in &targets {
        highest = highest.max(level(target, wiring, above)?);
    }
    above.pop();
    let level = if targets.is_empty() { SINK } else { highest + 1 };
    wiring.levels.insert(key.clone(), level);
    Ok(level)
}

/// The message names the circle from a connector on: there is one in each.
fn cycle(nodes: &[Key]) -> Miswired {
    let first = nodes.iter().position(|k| matches!(k, Key::Connector { .. })).unwrap_or(0);
    let around = nodes.iter().cycle().skip(first).take(nodes.len() + 1);
    let around = around.map(Key::in_cycle).collect::<Vec<_>>().join(" -> ");
    (nodes[first].id().clone(), format!("cycle detected: {around}"))
}

/// How a pipeline is shown.
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
