//! The processors: the steps in the middle of a pipeline.
//!
//! Every processor is one file or folder with one row, its `FACTORY`, in [`PROCESSORS`]. Several of them share `actions`,
//! which change attributes; `matching`, which selects items; and `change`, the consumer of a stateless processor.

mod actions;
pub mod attributes;
pub mod batch;
mod change;
pub mod cumulative_to_delta;
pub mod group_by_attrs;
mod identity;
mod matching;
pub mod memory_limiter;
pub mod probabilistic_sampler;
pub mod resource;
pub mod resource_detection;
mod telemetry;

pub use actions::ActionConfig;
pub use matching::{MatchConfig, RegexpConfig};

/// The processors, sorted by type.
pub const PROCESSORS: &[component::ProcessorFactory] = &[
    attributes::FACTORY,
    batch::FACTORY,
    cumulative_to_delta::FACTORY,
    group_by_attrs::FACTORY,
    memory_limiter::FACTORY,
    probabilistic_sampler::FACTORY,
    resource::FACTORY,
    resource_detection::FACTORY,
];

#[cfg(test)]
mod testing;
