//! From a checked configuration to running pipelines.
//!
//! The one idea: a [`Plan`] holds every component built and nothing opened, so that all that can be wrong
//! with a configuration is told before data moves; a [`Graph`] is a plan that runs. Receivers and exporters
//! are one instance per id, shared by pipelines and signals; processors are one per pipeline. What is
//! started last is stopped first: exporters, processors, receivers, and back.

mod plan;
mod run;
#[cfg(test)]
mod testing;

pub use plan::{Factories, Plan};
pub use run::{Graph, StartError, Stopped};
