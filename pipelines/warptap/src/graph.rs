//! Turns a checked configuration into running pipelines, and replaces them when the configuration changes.
//!
//! A collector is a graph of nodes and edges. A [`Plan`] contains every node built but not started, so that all
//! configuration problems are reported before data moves. [`wiring`] computes which node feeds which, and the level
//! of each node above the sinks. A [`Graph`] runs a plan and stops nodes in the reverse order of their start. The
//! edges of a running graph can be redirected to other nodes ([`edge`]), so that a new plan replaces only the nodes
//! that changed ([`reload`]).

mod edge;
mod key;
mod known;
mod order;
mod plan;
mod reload;
mod run;
#[cfg(test)]
mod testing;
mod wiring;

pub use key::NodeKey;
pub use known::distribution;
pub use plan::{Factories, Plan};
pub use reload::Reloaded;
pub use run::{Graph, StartError, Stopped};
pub use wiring::Bridge;
