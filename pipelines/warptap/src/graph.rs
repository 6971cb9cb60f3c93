//! From a checked configuration to running pipelines, and from one configuration to the next.
//!
//! The one idea: a collector is nodes and edges. A [`Plan`] holds every node built and nothing opened, so that
//! all that can be wrong with a configuration is told before data moves; [`wiring`] says which nodes feed
//! which, and at what level each stands above the sinks; a [`Graph`] runs a plan: what is started last is
//! stopped first. The edges of a running graph can be turned to other nodes ([`edge`]), so that a new plan
//! replaces only what it changes ([`reload`]).

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

pub use key::Key;
pub use plan::{Factories, Plan};
pub use reload::Reloaded;
pub use run::{Graph, StartError, Stopped};
