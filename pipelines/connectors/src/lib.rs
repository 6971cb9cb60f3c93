//! The connectors: the sink end of some pipelines and the source end of others.
//!
//! Every connector is one file or folder with one row, its `FACTORY`, in [`CONNECTORS`].

pub mod count;
pub mod forward;

/// The connectors, sorted by type.
pub const CONNECTORS: &[component::ConnectorFactory] = &[count::FACTORY, forward::FACTORY];

#[cfg(test)]
mod testing;
