//! Replaces a running plan while data moves: only changed nodes are restarted.
//!
//! A node whose configuration is unchanged keeps running with its state: the attached probes of a receiver, the items
//! of a queue, the connections of clients. Edges to replaced nodes are held meanwhile, so that callers wait and no
//! data is dropped. The Collector stops everything first, and exits if the new configuration cannot start; here a
//! failed reload leaves a graph that a reload to the old plan repairs.

use std::time::Duration;

use component::ComponentId;

use super::key::NodeKey;
use super::plan::{Plan, Planned};
use super::run::{Graph, Node, StartError};
use super::wiring::Output;

/// The outcome of a reload.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Reloaded {
    /// Number of components that kept running.
    pub unchanged: usize,
    /// Components that were started: new and changed ones.
    pub started: Vec<String>,
    /// Components that were stopped: changed and removed ones.
    pub stopped: Vec<String>,
    /// Stopped components that did not finish in time.
    pub abandoned: Vec<String>,
}

impl Graph {
    /// Changes the graph to `plan`. On an error the graph is between two plans: edges to missing nodes are held
    /// until another reload.
    pub async fn reload(&mut self, plan: Plan, stop_max: Duration) -> Result<Reloaded, StartError> {
        let Plan { nodes, heads, pipelines, .. } = plan;
        let (unchanged, to_start) = self.divide(nodes);
        let removed = self.take_removed(&unchanged);
        let mut reloaded =
            Reloaded { unchanged: unchanged.len(), stopped: names(&removed), ..Reloaded::default() };
        reloaded.abandoned =
            self.stop_nodes(removed, stop_max, |level| self.hold_above(level)).await.abandoned;
        for planned in to_start {
            reloaded.started.push(planned.key.to_string());
            self.start_node(planned).await?;
        }
        self.redirect_edges(unchanged);
        self.connect_heads(&heads);
        self.describe(pipelines);
        Ok(reloaded)
    }

    /// Splits a plan into nodes that keep running and nodes that must be started.
    fn divide(&self, planned: Vec<Planned>) -> (Vec<Planned>, Vec<Planned>) {
        let is_removed =
            |n: &&Node| matches!(n.key, NodeKey::Extension(_)) && !planned.iter().any(|p| p.key == n.key);
        let mut changed: Vec<ComponentId> =
            self.nodes.iter().filter(is_removed).map(|n| n.key.id().clone()).collect();
        // An extension that uses a changed extension is restarted with it, transitively.
        loop {
            let is_changed = |p: &&Planned| {
                matches!(p.key, NodeKey::Extension(_))
                    && !changed.contains(p.key.id())
                    && !self.is_same(p, &changed)
            };
            let Some(id) = planned.iter().find(is_changed).map(|p| p.key.id().clone()) else { break };
            changed.push(id);
        }
        planned.into_iter().partition(|p| self.is_same(p, &changed))
    }

    /// Returns whether a node with this configuration and these signals runs, and uses no changed extension.
    fn is_same(&self, planned: &Planned, changed: &[ComponentId]) -> bool {
        let Some(node) = self.nodes.iter().find(|n| n.key == planned.key) else { return false };
        let signals = node.edges.iter().map(|(signal, _)| signal);
        node.config.is_same(&planned.config)
            && signals.eq(planned.outputs.iter().map(|(signal, _)| signal))
            && !changed.iter().any(|id| planned.config.mentions(&id.to_string()))
    }

    /// Removes all nodes except the unchanged ones from the graph, and returns them.
    fn take_removed(&mut self, unchanged: &[Planned]) -> Vec<Node> {
        let nodes = std::mem::take(&mut self.nodes);
        let (unchanged, removed) = nodes.into_iter().partition(|n| unchanged.iter().any(|p| p.key == n.key));
        self.nodes = unchanged;
        removed
    }

    /// Holds all edges that may lead to nodes of `level`, which are about to stop. Upstream nodes that are being
    /// removed have stopped by then, so no stopping node waits on a held edge.
    fn hold_above(&self, level: u32) {
        let above = self.nodes.iter().filter(|n| n.level > level);
        above.flat_map(|n| &n.edges).for_each(|(_, edge)| edge.hold());
    }

    fn redirect_edges(&mut self, unchanged: Vec<Planned>) {
        for Planned { key, level, outputs, .. } in unchanged {
            let targets: Vec<_> = outputs.iter().map(|(_, to): &Output| self.consumers(to)).collect();
            let Some(node) = self.nodes.iter_mut().find(|n| n.key == key) else { continue };
            node.level = level;
            node.edges.iter().zip(targets).for_each(|((_, edge), to)| edge.redirect(to));
        }
    }
}

fn names(nodes: &[Node]) -> Vec<String> {
    nodes.iter().map(|n| n.key.to_string()).collect()
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;
