//! The connectors: the sink end of some pipelines and the source end of others.
//!
//! Every connector is one file or folder with one row, its `FACTORY`; the binary lists the rows. Which
//! pipelines it joins is left to the graph.

pub mod count;
pub mod forward;

#[cfg(test)]
mod testing;
