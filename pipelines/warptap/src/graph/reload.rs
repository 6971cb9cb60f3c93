//! From one plan to the next while data moves: only what changed is restarted.
//!
//! A node is kept where its configuration is the same, together with what it holds: the attached probes of a
//! receiver, the items of a queue, the connections of clients. Edges to what is replaced are held meanwhile, so
//! that callers wait instead of losing data. The Collector stops everything first, and ends where the new
//! configuration cannot start; here a reload that fails leaves a graph that a reload to the old plan mends.

use std::time::Duration;

use component::ComponentId;

use super::key::Key;
use super::plan::{Plan, Planned};
use super::run::{Graph, Node, StartError};
use super::wiring::Way;

/// What a reload did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Reloaded {
    /// How many components went on as they were.
    pub kept: usize,
    /// Those that were started: new ones and changed ones.
    pub started: Vec<String>,
    /// Those that were stopped: changed ones and those that are gone.
    pub stopped: Vec<String>,
    /// Those of them that did not stop in time.
    pub abandoned: Vec<String>,
}

impl Graph {
    /// Makes the graph what `plan` says. On an error the graph is between two plans: edges to what is missing
    /// are held until another reload.
    pub async fn reload(&mut self, plan: Plan, stop_max: Duration) -> Result<Reloaded, StartError> {
        let Plan { nodes, heads, pipelines, .. } = plan;
        let (kept, fresh) = self.divide(nodes);
        let gone = self.take_out(&kept);
        let mut reloaded = Reloaded { kept: kept.len(), stopped: names(&gone), ..Reloaded::default() };
        reloaded.abandoned = self.stop_nodes(gone, stop_max, |level| self.hold_above(level)).await.abandoned;
        for planned in fresh {
            reloaded.started.push(planned.key.to_string());
            self.start_node(planned).await?;
        }
        self.turn_edges(kept);
        self.lead_in(&heads);
        self.describe(pipelines);
        Ok(reloaded)
    }

    /// What of a plan runs already, and what has to be started.
    fn divide(&self, planned: Vec<Planned>) -> (Vec<Planned>, Vec<Planned>) {
        let is_gone =
            |n: &&Node| matches!(n.key, Key::Extension(_)) && !planned.iter().any(|p| p.key == n.key);
        let mut changed: Vec<ComponentId> =
            self.nodes.iter().filter(is_gone).map(|n| n.key.id().clone()).collect();
        // An extension that uses a changed one changes with it, and so on.
        loop {
            let is_changed = |p: &&Planned| {
                matches!(p.key, Key::Extension(_))
                    && !changed.contains(p.key.id())
                    && !self.is_same(p, &changed)
            };
            let Some(id) = planned.iter().find(is_changed).map(|p| p.key.id().clone()) else { break };
            changed.push(id);
        }
        planned.into_iter().partition(|p| self.is_same(p, &changed))
    }

    /// True where a node with the same configuration, for the same signals, runs, and uses no extension that
    /// changed.
    fn is_same(&self, planned: &Planned, changed: &[ComponentId]) -> bool {
        let Some(node) = self.nodes.iter().find(|n| n.key == planned.key) else { return false };
        let signals = node.edges.iter().map(|(signal, _)| signal);
        node.config.is_same(&planned.config)
            && signals.eq(planned.ways.iter().map(|(signal, _)| signal))
            && !changed.iter().any(|id| planned.config.mentions(&id.to_string()))
    }

    /// Takes out all nodes but those that are kept.
    fn take_out(&mut self, kept: &[Planned]) -> Vec<Node> {
        let nodes = std::mem::take(&mut self.nodes);
        let (keep, gone) = nodes.into_iter().partition(|n| kept.iter().any(|p| p.key == n.key));
        self.nodes = keep;
        gone
    }

    /// Before the nodes of a level are stopped, everything that may lead to them must wait; whoever is above
    /// them and goes has gone by then, so that nobody who is stopped waits.
    fn hold_above(&self, level: u32) {
        let above = self.nodes.iter().filter(|n| n.level > level);
        above.flat_map(|n| &n.edges).for_each(|(_, edge)| edge.hold());
    }

    fn turn_edges(&mut self, kept: Vec<Planned>) {
        for Planned { key, level, ways, .. } in kept {
            let turned: Vec<_> = ways.iter().map(|(_, to): &Way| self.fronts(to)).collect();
            let Some(node) = self.nodes.iter_mut().find(|n| n.key == key) else { continue };
            node.level = level;
            node.edges.iter().zip(turned).for_each(|((_, edge), to)| edge.turn(to));
        }
    }
}

fn names(nodes: &[Node]) -> Vec<String> {
    nodes.iter().map(|n| n.key.to_string()).collect()
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;
