//! The collector binary as a library, so that tests and fuzz targets reach what `main` runs.
//!
//! The one idea: configuration becomes a plan, a plan becomes a running graph, and everything wrong is told
//! before data moves. This crate alone knows YAML and the command line; what components do is left to theirs.

pub mod config;
pub mod graph;
